// The rate cap and the histogram, with time handed in.
#include "clock.h"
#include "core_test.h"
#include "histogram.h"

using svc::Histogram;
using svc::RateCap;

TEST(rate_cap_lets_a_jittering_producer_of_the_same_rate_through) {
  RateCap cap;
  svc::test::Random random(1);
  int taken = 0;
  int64_t free_at = 0;
  for (int i = 0; i < 600; i++) {
    // 60 Hz, up to 6 ms late; a picture that must wait is taken once it may.
    const int64_t at =
        std::max<int64_t>(1'000'000 + i * 16'667 + static_cast<int64_t>(random.below(6000)), free_at);
    const int64_t wait = cap.delay_us(at, 60);
    free_at = at + std::max<int64_t>(0, wait);
    CHECK(cap.delay_us(free_at, 60) <= 0);
    cap.spend(free_at, 60);
    taken++;
    CHECK(wait < 8000);
  }
  CHECK(taken == 600);
}

TEST(rate_cap_holds_back_a_faster_producer) {
  RateCap cap;
  int taken = 0;
  for (int64_t at = 1'000'000; at < 11'000'000; at += 1000) {
    if (cap.delay_us(at, 60) > 0) continue;
    cap.spend(at, 60);
    taken++;
  }
  CHECK(taken >= 598 && taken <= 616);
}

TEST(rate_cap_lets_a_lone_change_out_at_once_and_keeps_a_steady_producer_in_step) {
  RateCap cap;
  svc::test::Random random(2);
  const int64_t interval = 16'667;
  int64_t flip_at = 20 * interval + 3000;
  int taken = 0;
  for (int64_t at = interval; at < 1200 * interval;) {
    const bool is_flip = flip_at <= at;
    const int64_t now = is_flip ? flip_at : at;
    // One that may not go is replaced by the producer's next picture.
    if (cap.delay_us(now, 60) <= 0) {
      cap.spend(now, 60);
      taken++;
    } else {
      CHECK(!is_flip);
    }
    if (is_flip)
      flip_at += 9 * interval + static_cast<int64_t>(random.below(7 * interval));
    else
      at += interval;
  }
  CHECK(taken >= 1190 && taken <= 1230);
}

TEST(rate_cap_never_pairs_the_pictures_of_a_faster_producer) {
  RateCap cap;
  int64_t last = 0;
  int pairs = 0;
  for (int64_t at = 1'000'000; at < 11'000'000; at += 2000) {
    if (cap.delay_us(at, 60) > 0) continue;
    if (at - last < 8000) pairs++;
    cap.spend(at, 60);
    last = at;
  }
  CHECK(pairs <= 2);
}

TEST(histogram_gives_quantiles_within_a_few_per_cent_and_starts_over) {
  Histogram histogram;
  CHECK(histogram.take().count == 0);
  for (int i = 1; i <= 1000; i++) histogram.add(i * 10);
  const auto found = histogram.take();
  CHECK(found.count == 1000);
  CHECK(found.p50_us > 4800 && found.p50_us < 5200);
  CHECK(found.p99_us > 9500 && found.p99_us < 10300);
  CHECK(histogram.take().count == 0);
}

TEST(histogram_takes_any_number) {
  Histogram histogram;
  for (const int64_t us :
       {INT64_MIN, int64_t{-1}, int64_t{0}, int64_t{15}, int64_t{16}, int64_t{17}, INT64_MAX}) {
    histogram.add(us);
  }
  CHECK(histogram.take().count == 7);
}
