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

/// Lets something happen at most `hz` times a second on average. A steady producer may jitter by one
/// interval, and a lone change between two pictures of a steady one is let out at once: the picture after it
/// pays.
class RateCap {
 public:
  /// Microseconds until the next turn is due; 0 or less: now.
  int64_t delay_us(int64_t now, double hz) {
    const double interval = 1e6 / hz;
    const double debt = due_us_ - static_cast<double>(now);
    if (debt <= interval || (may_be_early() && debt <= 2 * interval)) return 0;
    has_waited_ = true;
    return static_cast<int64_t>(debt - interval) + 1;
  }
  void spend(int64_t now, double hz) {
    const double interval = 1e6 / hz;
    was_early_ = due_us_ - static_cast<double>(now) > interval;
    calm_ = has_waited_ ? 0 : std::min(calm_ + 1, kCalm);
    has_waited_ = false;
    due_us_ = std::max(due_us_, static_cast<double>(now)) + interval / kSlack;
  }

 private:
  /// A producer whose clock runs a little fast must not lose a picture every few seconds.
  static constexpr double kSlack = 1.02;
  /// So many pictures in a row that did not wait: the producer is not faster than the cap, so a change
  /// between its pictures is something else. Pairs out of a faster one would only judder.
  static constexpr int kCalm = 4;
  bool may_be_early() const { return !was_early_ && calm_ >= kCalm; }

  /// When the next would be due if all came as late as they may.
  double due_us_ = 0;
  bool was_early_ = false;
  bool has_waited_ = false;
  int calm_ = kCalm;
};

}  // namespace svc
