// The one clock of the engine: monotonic, microseconds; the same that travels in datagrams as capture time.
#pragma once
#include <time.h>

#include <algorithm>
#include <cstdint>

namespace svc {

inline int64_t now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000;
}

/// Lets something happen at most `hz` times a second on average, but forgives the jitter of a steady
/// producer: one saved-up turn lets a late picture be followed by a punctual one.
class RateCap {
 public:
  /// Microseconds until the next turn is due; 0 or less: now.
  int64_t delay_us(int64_t now, double hz) {
    refill(now, hz);
    return turns_ >= 1 ? 0 : static_cast<int64_t>((1 - turns_) * 1e6 / (hz * kSlack)) + 1;
  }
  void spend() { turns_ -= 1; }

 private:
  /// A producer whose clock runs a little fast must not lose a picture every few seconds.
  static constexpr double kSlack = 1.02;
  static constexpr double kSaved = 2;
  void refill(int64_t now, double hz) {
    turns_ = std::min(kSaved, turns_ + static_cast<double>(now - at_us_) * 1e-6 * hz * kSlack);
    at_us_ = now;
  }
  double turns_ = kSaved;
  int64_t at_us_ = 0;
};

}  // namespace svc
