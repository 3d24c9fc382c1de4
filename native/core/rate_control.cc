// The rate controller: additive increase, multiplicative decrease; no clock of its own.
#include "rate_control.h"

#include <algorithm>

namespace svc {

namespace {
constexpr int32_t kQueueUs = 30'000;
// Radio links and busy machines stall for a report or two and go on; a queue that grows stays.
constexpr int kQueuedReports = 3;
// Parity mends some ten per cent at a bearable price; what is lost beyond is a link that cannot take it.
constexpr double kHeavyLoss = 0.15;
// Frames lost in a report, smoothed: three in a row, not one now and then.
constexpr double kOftenLost = 0.6;
constexpr double kSmooth = 0.2;
constexpr double kFall = 0.8;
// A fall takes this long to be seen in the reports.
constexpr int64_t kFallSpacingUs = 300'000;
constexpr int64_t kRestUs = 1'000'000;
constexpr double kRisePerSecond = 0.15;
constexpr int kLeastKbps = 500;
}  // namespace

double RateControl::least() const { return std::min<double>(wished_, std::max(kLeastKbps, wished_ / 10)); }

void RateControl::wish(int kbps) {
  const bool was_all = kbps_ >= wished_;
  wished_ = kbps;
  kbps_ = was_all ? kbps : std::clamp<double>(kbps_, least(), kbps);
}

void RateControl::report(const RateReport& report) {
  const double passed = std::clamp<double>(static_cast<double>(report.at_us - last_us_), 0, 500'000) / 1e6;
  last_us_ = report.at_us;
  loss_ += (report.loss - loss_) * kSmooth;
  frames_lost_ += ((report.frames_lost > 0 ? 1 : 0) - frames_lost_) * kSmooth;
  queued_ = report.delay_variation_us > kQueueUs ? queued_ + 1 : 0;
  const bool is_full = queued_ >= kQueuedReports || loss_ > kHeavyLoss || frames_lost_ > kOftenLost;
  if (is_full) {
    if (report.at_us - fell_us_ < kFallSpacingUs) return;
    fell_us_ = report.at_us;
    kbps_ = std::max(least(), kbps_ * kFall);
  } else if (report.at_us - fell_us_ >= kRestUs) {
    kbps_ = std::min<double>(wished_, kbps_ + kRisePerSecond * passed * wished_);
  }
}

}  // namespace svc
