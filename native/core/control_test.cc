// The controllers by tables: loss into parity, delay into bitrate, probes into datagram size, losses into
// recoveries.
#include <algorithm>
#include <cmath>

#include "core_test.h"
#include "loss_control.h"
#include "parity.h"
#include "path_probe.h"
#include "rate_control.h"
#include "recovery.h"
#include "sender.h"

using svc::LossEstimate;
using svc::LossReport;
using svc::PathProbe;
using svc::RateControl;

namespace {

/// Chance that more than m of k + m are lost, summed the other way round than the code under test does.
double unmendable(int k, int m, double loss) {
  double sum = 0;
  for (int lost = m + 1; lost <= k + m; lost++) {
    sum += std::exp(std::lgamma(k + m + 1) - std::lgamma(lost + 1) - std::lgamma(k + m - lost + 1) +
                    lost * std::log(loss) + (k + m - lost) * std::log(1 - loss));
  }
  return sum;
}

/// A line that loses each shard with the same chance; a report each 100 ms.
struct Line {
  svc::test::Random random{5};
  LossReport report{0, 0, 0, 0};
  void send(LossEstimate& estimate, int shards, double loss, int reports = 1) {
    for (int i = 0; i < reports; i++) {
      for (int j = 0; j < shards; j++) {
        (static_cast<double>(random.below(100'000)) < loss * 100'000 ? report.lost : report.received)++;
      }
      report.at_us += 100'000;
      estimate.report(report);
    }
  }
};

}  // namespace

TEST(parity_leaves_less_than_one_block_in_ten_thousand_and_no_shard_more_than_that_takes) {
  for (const double loss : {0.001, 0.005, 0.01, 0.03, 0.06, 0.12, 0.25}) {
    for (const int k : {1, 2, 4, 7, 12, 24, 37, 50}) {
      const int m = svc::parity_for(k, loss, 0);
      CHECK(m >= 1 && m <= svc::kMaxParityShards);
      if (m < std::max(2 * k, 4) && m < svc::kMaxParityShards) CHECK(unmendable(k, m, loss) < 1.0001e-4);
      if (m > 1) CHECK(unmendable(k, m - 1, loss) > 0.9999e-4);
    }
  }
}

TEST(parity_of_known_cases) {
  struct Case {
    int k;
    double loss;
    int percent, m;
  };
  for (const Case& c : {Case{0, 0.1, 20, 0}, Case{5, 0, 0, 0}, Case{5, 0, 2, 1}, Case{50, 0, 2, 1},
                        Case{50, 0, 20, 10}, Case{1, 0.001, 2, 1}, Case{6, 0.001, 2, 1}, Case{24, 0.06, 2, 8},
                        Case{50, 0.06, 2, 12}, Case{50, 0.5, 2, 50}, Case{50, 0.9, 2, 50}}) {
    CHECK(svc::parity_for(c.k, c.loss, c.percent) == c.m);
  }
}

TEST(loss_rises_with_one_report_and_falls_slowly) {
  LossEstimate estimate;
  Line line;
  line.send(estimate, 160, 0, 300);
  CHECK(estimate.measured() < 0.001);
  line.send(estimate, 160, 0.05);
  CHECK(estimate.to_mend() > 0.03);
  line.send(estimate, 160, 0.05, 100);
  CHECK(estimate.measured() > 0.04 && estimate.measured() < 0.08);
  const double before = estimate.measured();
  line.send(estimate, 160, 0, 10);
  CHECK(estimate.measured() > before * 0.6);
  line.send(estimate, 160, 0, 500);
  CHECK(estimate.measured() < before * 0.05);
}

TEST(loss_of_a_quiet_screen_is_not_taken_from_single_shards) {
  LossEstimate estimate;
  Line line;
  line.send(estimate, 100, 0, 300);
  line.report.lost++;
  line.send(estimate, 2, 0);
  CHECK(estimate.measured() < 0.01);
}

TEST(frames_lost_in_spite_of_parity_tell_of_bursts) {
  LossEstimate estimate;
  Line line;
  line.send(estimate, 160, 0.02, 100);
  const double alone = estimate.to_mend();
  line.report.frames_lost++;
  line.send(estimate, 160, 0.02);
  CHECK(estimate.to_mend() > alone * 1.3);
  line.send(estimate, 160, 0.02, 400);
  CHECK(estimate.to_mend() < alone * 1.6);
}

TEST(loss_survives_reports_that_make_no_sense) {
  LossEstimate estimate;
  svc::test::Random random(3);
  for (int i = 0; i < 10'000; i++) {
    estimate.report({static_cast<int64_t>(random.next() >> 20), static_cast<uint32_t>(random.next()),
                     static_cast<uint32_t>(random.next()), static_cast<uint32_t>(random.next())});
    CHECK(estimate.to_mend() >= 0 && estimate.to_mend() <= 0.5);
  }
}

TEST(rate_falls_while_packets_queue_and_comes_back) {
  RateControl rate(10'000);
  int64_t at = 0;
  const auto run = [&](int reports, double loss, uint32_t frames, int32_t delay) {
    for (int i = 0; i < reports; i++) rate.report({at += 100'000, loss, frames, delay});
    return rate.kbps();
  };
  CHECK(run(50, 0, 0, 3000) == 10'000);
  // Random loss that parity mends is no reason, nor is one late report or one lost frame.
  CHECK(run(100, 0.05, 0, 5000) == 10'000);
  CHECK(run(1, 0.05, 1, 60'000) == 10'000);
  CHECK(run(5, 0, 0, 0) == 10'000);
  CHECK(run(2, 0, 0, 40'000) == 10'000);
  CHECK(run(1, 0, 0, 40'000) == 8000);
  CHECK(run(2, 0, 0, 40'000) == 8000);
  CHECK(run(1, 0, 0, 40'000) == 6400);
  CHECK(run(300, 0, 0, 40'000) == 1000);
  CHECK(run(20, 0, 0, 0) > 1000);
  CHECK(run(100, 0, 0, 0) == 10'000);
  CHECK(run(20, 0.4, 0, 0) < 6000);
}

TEST(rate_keeps_to_the_wish) {
  RateControl rate(10'000);
  rate.wish(4000);
  CHECK(rate.kbps() == 4000);
  rate.wish(8000);
  CHECK(rate.kbps() == 8000);
  for (int64_t i = 1; i < 5; i++) rate.report({i * 100'000, 0, 0, 50'000});
  CHECK(rate.kbps() < 8000);
  const int fallen = rate.kbps();
  rate.wish(20'000);
  CHECK(rate.kbps() == fallen);
  rate.wish(300);
  CHECK(rate.kbps() == 300);
}

namespace {
/// A path that takes datagrams of up to `bytes` with a round trip of 20 ms; gives the size found in
/// `seconds`.
size_t found(PathProbe& probe, size_t bytes, int64_t& now, int seconds) {
  for (const int64_t end = now + seconds * 1'000'000LL; now < end; now += 10'000) {
    const size_t size = probe.due(now);
    if (size != 0 && size <= bytes) {
      now += 20'000;
      CHECK(probe.acked(probe.id(), now) == 20'000);
      CHECK(probe.acked(probe.id(), now) == 0);
    }
  }
  return probe.bytes();
}
}  // namespace

TEST(datagrams_grow_to_what_the_path_takes) {
  for (const size_t path : {1200U, 1230U, 1310U, 1399U, 1400U, 1452U}) {
    int64_t now = 1'000'000;
    PathProbe probe(1400);
    CHECK(probe.bytes() == 1200);
    const size_t size = found(probe, path, now, 15);
    CHECK(size <= path && size <= 1400);
    CHECK(size + 32 > std::min<size_t>(path, 1400));
  }
}

TEST(datagrams_of_the_size_wished_are_found_in_one_round_trip) {
  int64_t now = 0;
  PathProbe probe(1452);
  CHECK(probe.due(now) == 1452);
  CHECK(probe.due(now) == 0);
  CHECK(probe.acked(probe.id() + 1, now + 5) == 0);
  CHECK(probe.acked(probe.id(), now + 900) == 900);
  CHECK(probe.bytes() == 1452);
}

TEST(datagrams_shrink_on_a_black_hole_and_when_the_system_refuses) {
  int64_t now = 0;
  PathProbe probe(1400);
  CHECK(found(probe, 1452, now, 2) == 1400);
  const int64_t began = now;
  while (probe.bytes() == 1400) found(probe, 1300, now, 1);
  CHECK(now - began < 4'000'000);
  const size_t size = found(probe, 1300, now, 15);
  CHECK(size > 1268 && size <= 1300);
  probe.too_long(1250, now);
  CHECK(probe.bytes() == 1200);
  CHECK(found(probe, 1240, now, 15) <= 1240);
  // The path is mended: that is found out within some minutes.
  CHECK(found(probe, 1452, now, 90) == 1400);
}

TEST(sound_has_parity_only_while_something_is_lost_and_more_with_more_of_it) {
  CHECK(svc::sound_parity_for(4, 0) == 0);
  CHECK(svc::sound_parity_for(4, 0.00005) == 0);
  CHECK(svc::sound_parity_for(4, 0.001) == 1);
  CHECK(svc::sound_parity_for(4, 0.012) == 2);
  CHECK(svc::sound_parity_for(4, 0.06) == 4);
  for (const double loss : {0.001, 0.01, 0.03, 0.06}) {
    CHECK(unmendable(4, svc::sound_parity_for(4, loss), loss) < 1.0001e-4);
  }
  LossEstimate estimate;
  CHECK(svc::sound_parity_for(4, estimate.to_mend()) == 2);
  Line line;
  // Sound alone, 200 packets a second: off after some minutes, on again with the first that are lost.
  line.send(estimate, 20, 0, 2400);
  CHECK(svc::sound_parity_for(4, estimate.to_mend()) == 0);
  line.report.lost++;
  line.send(estimate, 20, 0);
  CHECK(svc::sound_parity_for(4, estimate.to_mend()) == 1);
  line.send(estimate, 20, 0.05, 100);
  CHECK(svc::sound_parity_for(4, estimate.to_mend()) >= 3);
}

TEST(a_frame_beyond_a_burst_is_spread_over_its_interval_and_leaves_as_fast_as_the_path_goes) {
  // Two mean frames of 60 Hz at 16 Mbit/s, the most that the encoder makes: within their interval.
  CHECK(2 * 16'000.0 / svc::pace_kbps(16'000, 0) < 1);
  CHECK(svc::pace_kbps(500, 0) == 10'000);
  // A slow path is not outrun by more than a tenth, and a fast one is made use of.
  CHECK(svc::pace_kbps(16'000, 25'000) == 27'500);
  CHECK(svc::pace_kbps(16'000, 400'000) == 440'000);
  // One that is told to be slower than the stream itself: frames must not pile up.
  CHECK(svc::pace_kbps(16'000, 1) == 24'000);
  CHECK(svc::pace_kbps(300'000, UINT32_MAX) == 1'000'000);
  CHECK(svc::pace_kbps(0, 0) > 0);
}

TEST(a_loss_is_answered_once_in_a_round_trip) {
  svc::Recovery recovery;
  CHECK(recovery.is_due(5, 0, 40'000));
  recovery.answered(9, 1'000'000);
  CHECK(!recovery.is_due(5, 1'010'000, 40'000));
  CHECK(!recovery.is_due(9, 1'050'000, 40'000));
  CHECK(recovery.is_due(10, 1'010'000, 40'000));
  CHECK(recovery.is_due(5, 1'055'000, 40'000));
}

TEST(frames_for_a_round_trip_after_an_answer_do_without_what_was_lost) {
  svc::Recovery recovery;
  CHECK(!recovery.repeats(0));
  recovery.answered_from(5, 9, 1'000'000, 40'000);
  CHECK(recovery.repeats(1'016'000) == 5U);
  recovery.repeated(10);
  // A second loss is newer than all of them or it was answered.
  CHECK(!recovery.is_due(10, 1'020'000, 40'000));
  CHECK(recovery.is_due(11, 1'020'000, 40'000));
  CHECK(recovery.repeats(1'054'000) == 5U);
  CHECK(!recovery.repeats(1'055'000));
  CHECK(recovery.is_due(5, 1'055'000, 40'000));
  recovery.answered_from(5, 13, 1'060'000, 40'000);
  recovery.stop_repeating();
  CHECK(!recovery.repeats(1'061'000));
  recovery.answered_from(5, 14, 1'070'000, 40'000);
  // A keyframe needs nothing at all.
  recovery.answered(15, 1'071'000);
  CHECK(!recovery.repeats(1'072'000));
}
