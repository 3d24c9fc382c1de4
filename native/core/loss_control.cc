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
// Reports weigh as many shards as they tell of, against this many of what was known.
constexpr double kRiseShards = 400;
constexpr double kFallUs = 10e6;
constexpr double kMostBurst = 4;
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
  const double expected = loss_ * shards;
  if (lost > expected + 2 * std::sqrt(std::max(1.0, expected)) + 1) {
    loss_ = share;
    attacked_us_ = report.at_us;
  } else if (share > loss_) {
    loss_ += (share - loss_) * shards / (shards + kRiseShards);
  } else {
    const double fall = 1 - std::exp(-passed / kFallUs);
    loss_ -= (loss_ - share) * std::min(fall, shards / (shards + kRiseShards));
  }
  // Frames lost in spite of enough parity: the losses come together.
  if (frames_lost && lost > 0 && report.at_us - attacked_us_ > kBlindUs) {
    burst_ = std::min(kMostBurst, burst_ * 1.5);
  } else {
    burst_ = 1 + (burst_ - 1) * std::exp(-passed / kFallUs);
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

int shards_before_close(double loss) { return loss < 0.004 ? 4 : loss < 0.015 ? 12 : 24; }

}  // namespace svc
