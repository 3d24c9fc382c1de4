// The parity controller: reports in, shards out; no clock and no socket of its own.
#include "loss_control.h"

#include <algorithm>
#include <cmath>

#include "parity.h"

namespace svc {

namespace {
constexpr double kMostToMend = 0.5;
constexpr double kUnmendable = 1e-4;
// An estimate from a few hundred shards is that far off.
constexpr double kMargin = 1.2;
// A report weighs as many shards as it tells of, against this many of what was known.
constexpr double kPastShards = 4000;
// More lost than was expected by so many standard deviations is not chance.
constexpr double kDeviations = 3;
constexpr double kKnownShards = 60;
// Beyond it parity is no help; the bitrate must fall.
constexpr double kMostLoss = 0.3;
constexpr double kBurstUs = 10e6;
constexpr double kMostBurst = 4;
// One packet in a minute of sound or so: its parity would be heard less than it costs. One loss among the
// shards of some seconds is more than that already.
constexpr double kLeastSoundLoss = 1e-4;
// What is lost in this time after a jump was sent before the jump could help.
constexpr int64_t kBlindUs = 400'000;
}  // namespace

void LossEstimate::report(const LossReport& report) {
  if (!has_last_) {
    has_last_ = true;
    last_ = {report.at_us, 0, 0, 0};
  }
  // Counters only rise; a client whose do not is taken at its newest word.
  const auto received = static_cast<double>(report.received - std::min(report.received, last_.received));
  const auto lost = static_cast<double>(report.lost - std::min(report.lost, last_.lost));
  const bool frames_lost = report.frames_lost > last_.frames_lost;
  const auto passed = static_cast<double>(std::max<int64_t>(0, report.at_us - last_.at_us));
  last_ = report;
  const double shards = received + lost;
  if (shards <= 0) return;
  const double share = lost / shards;
  // What was lost, without the leap at a first sign of more: a mean of the newest shards, of all while they
  // are few.
  shards_ = std::min(kPastShards, shards_ + shards);
  measured_ += (share - measured_) * std::min(1.0, shards / shards_);
  const double expected = loss_ * shards;
  if (lost > expected + kDeviations * std::sqrt(std::max(1.0, expected)) + 1) {
    // A short report is half chance: what was known weighs in.
    loss_ = std::min(kMostLoss, (lost + kKnownShards * loss_) / (shards + kKnownShards));
    attacked_us_ = report.at_us;
  } else {
    loss_ += (share - loss_) * shards / (shards + kPastShards);
  }
  // Frames lost in spite of enough parity: the losses come together.
  if (frames_lost && lost > 0 && report.at_us - attacked_us_ > kBlindUs) {
    burst_ = std::min(kMostBurst, burst_ * 1.5);
  } else {
    burst_ = 1 + (burst_ - 1) * std::exp(-passed / kBurstUs);
  }
}

double LossEstimate::to_mend() const { return std::min(kMostToMend, loss_ * burst_ * kMargin); }

int parity_for(int k, double loss, int least_percent) {
  if (k < 1) return 0;
  int m = parity_shards(k, least_percent);
  if (loss <= 0) return m;
  loss = std::min(loss, kMostToMend);
  const int most = std::min(kMaxParityShards, std::max(2 * k, 4));
  for (m = std::max(1, m); m < most; m++) {
    // The chance that at most m of k + m are lost, term by term.
    const int n = k + m;
    double term = std::pow(1 - loss, n);
    double within = term;
    for (int i = 1; i <= m; i++) {
      term *= loss / (1 - loss) * (n - i + 1) / i;
      within += term;
    }
    if (1 - within < kUnmendable) break;
  }
  return m;
}

int sound_parity_for(int k, double loss) { return loss < kLeastSoundLoss ? 0 : parity_for(k, loss, 0); }

int shards_before_close(double loss) { return loss < 0.004 ? 4 : loss < 0.015 ? 12 : 24; }

}  // namespace svc
