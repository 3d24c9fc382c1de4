// Latencies of one stage since the last look: fixed log-linear buckets, one writer at a time, read by
// anybody.
#pragma once
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace svc {

class Histogram {
 public:
  void add(int64_t us) {
    counts_[index(us < 0 ? 0 : static_cast<uint64_t>(us))].fetch_add(1, std::memory_order_relaxed);
  }

  struct Quantiles {
    double p50_us = 0;
    double p99_us = 0;
    uint64_t count = 0;
  };

  /// The quantiles of what came since the last call, within about 3 %; all zero when nothing did.
  Quantiles take() {
    std::array<uint32_t, kBuckets> counts;
    uint64_t total = 0;
    for (int i = 0; i < kBuckets; i++) total += counts[i] = counts_[i].exchange(0, std::memory_order_relaxed);
    Quantiles found;
    found.count = total;
    if (total == 0) return found;
    found.p50_us = at(counts, (total + 1) / 2);
    found.p99_us = at(counts, total - total / 100);
    return found;
  }

 private:
  // 16 buckets for each doubling; the last one holds everything above about 33 s.
  static constexpr int kSub = 16;
  static constexpr int kBuckets = 22 * kSub;

  static int index(uint64_t us) {
    if (us < kSub) return static_cast<int>(us);
    const int octave = std::bit_width(us) - 5;
    const int i = (octave + 1) * kSub + static_cast<int>((us >> octave) & (kSub - 1));
    return i < kBuckets ? i : kBuckets - 1;
  }
  static double middle(int i) {
    if (i < kSub) return i;
    const int octave = i / kSub - 1;
    return static_cast<double>((uint64_t{kSub} + i % kSub) << octave) +
           static_cast<double>((1 << octave) - 1) / 2;
  }
  static double at(const std::array<uint32_t, kBuckets>& counts, uint64_t rank) {
    uint64_t seen = 0;
    for (int i = 0; i < kBuckets; i++) {
      seen += counts[i];
      if (seen >= rank) return middle(i);
    }
    return middle(kBuckets - 1);
  }

  std::array<std::atomic<uint32_t>, kBuckets> counts_{};
};

}  // namespace svc
