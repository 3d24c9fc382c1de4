// The bitrate that the way to the client bears, within what was wished: from its reports of loss and delay.
#pragma once
#include <cstdint>

namespace svc {

struct RateReport {
  int64_t at_us;
  /// Share of shards lost since the report before.
  double loss;
  /// Frames lost since the report before.
  uint32_t frames_lost;
  /// How far the one-way delay is above its recent least.
  int32_t delay_variation_us;
};

/// Falls by a fifth while packets queue up or more is lost than parity can be asked to mend; creeps back up.
class RateControl {
 public:
  explicit RateControl(int wished_kbps) : wished_(wished_kbps), kbps_(wished_kbps) {}

  /// The client's or the operator's wish: taken up at once when it is lower, and when it is higher and all is
  /// well.
  void wish(int kbps);
  void report(const RateReport& report);
  /// From a tenth of the wish to all of it.
  int kbps() const { return static_cast<int>(kbps_); }

 private:
  double least() const;

  int wished_;
  double kbps_;
  int queued_ = 0;
  double loss_ = 0;
  double frames_lost_ = 0;
  int64_t fell_us_ = INT64_MIN / 2;
  int64_t last_us_ = INT64_MIN / 2;
};

}  // namespace svc
