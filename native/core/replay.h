// Which counters of one stream were seen: each is accepted once, and what is older than the window never.
#pragma once
#include <array>
#include <cstdint>

namespace svc {

class ReplayWindow {
 public:
  static constexpr uint64_t kWindow = 2048;

  /// Whether a datagram with this counter could still be new; marks nothing, since it may be a forgery.
  bool fresh(uint64_t counter) const {
    if (counter >= next_) return true;
    return next_ - counter <= kWindow && !(word(counter) >> (counter % 64) & 1);
  }

  /// Marks the counter of a datagram that did open. True when it is the newest so far.
  bool accept(uint64_t counter) {
    const bool newest = counter >= next_;
    if (newest) advance(counter);
    words_[counter / 64 % kWords] |= uint64_t{1} << (counter % 64);
    return newest;
  }

 private:
  // One word more than the window, so that the word being entered is never part of it.
  static constexpr uint64_t kWords = kWindow / 64 + 1;

  uint64_t word(uint64_t counter) const { return words_[counter / 64 % kWords]; }

  void advance(uint64_t counter) {
    // `next_` counts to 2^64 - 1 at most: the counter after the last one is never needed.
    const uint64_t last = next_ == 0 ? 0 : (next_ - 1) / 64;
    const uint64_t steps = counter / 64 - last;
    for (uint64_t i = 1; i <= steps && i <= kWords; i++) words_[(last + i) % kWords] = 0;
    next_ = counter == UINT64_MAX ? counter : counter + 1;
  }

  std::array<uint64_t, kWords> words_{};
  uint64_t next_ = 0;
};

}  // namespace svc
