// A wake-up without a lock, so that the JavaScript thread can poke an engine thread and never wait for it.
#pragma once
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace svc {

class Signal {
 public:
  /// Read this before looking at what is guarded, and hand it to `wait`: no wake-up between the two is lost.
  uint32_t current() const { return epoch_.load(std::memory_order_seq_cst); }

  void notify() {
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (waiters_.load(std::memory_order_seq_cst) == 0) return;
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&epoch_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr,
            0);
  }

  /// Returns after a `notify` since `seen` was read, or after `timeout_us` (below 0: no limit).
  void wait(uint32_t seen, int64_t timeout_us) {
    if (timeout_us == 0) return;
    timespec limit{timeout_us / 1'000'000, (timeout_us % 1'000'000) * 1000};
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    if (current() == seen) {
      syscall(SYS_futex, reinterpret_cast<uint32_t*>(&epoch_), FUTEX_WAIT_PRIVATE, seen,
              timeout_us < 0 ? nullptr : &limit, nullptr, 0);
    }
    waiters_.fetch_sub(1, std::memory_order_seq_cst);
  }

 private:
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  std::atomic<uint32_t> epoch_{0};
  std::atomic<uint32_t> waiters_{0};
};

}  // namespace svc
