// Reed-Solomon parity of a block by ISA-L, with the Cauchy rows of PROTOCOL.md, section 5.2.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace svc {

constexpr int kMaxDataShards = 50;
constexpr int kMaxParityShards = 50;

/// Parity shards for `k` data shards: none at 0 per cent, else at least one.
constexpr int parity_shards(int k, int percent) {
  const int wanted = (k * percent + 99) / 100;
  return wanted < kMaxParityShards ? wanted : kMaxParityShards;
}

/// Keeps the multiplication tables of every (k, m) that it has met. Not for two threads at once.
class Parity {
 public:
  /// Fills `parity[0..m)` from `data[0..k)`; all are `shard_bytes` long. k and m are 1 to 50.
  void encode(int k, int m, size_t shard_bytes, uint8_t** data, uint8_t** parity);

 private:
  struct Tables {
    std::array<std::unique_ptr<uint8_t[]>, kMaxParityShards + 1> by_m;
  };
  std::array<std::unique_ptr<Tables>, kMaxDataShards + 1> by_k_;
};

}  // namespace svc
