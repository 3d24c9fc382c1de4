// Reed-Solomon parity by ISA-L, whose field is GF(2^8) with polynomial 0x11D.
#include "parity.h"

#include <isa-l.h>

namespace svc {

void Parity::encode(int k, int m, size_t shard_bytes, uint8_t** data, uint8_t** parity) {
  auto& tables = by_k_[static_cast<size_t>(k)];
  if (!tables) tables = std::make_unique<Tables>();
  auto& table = tables->by_m[static_cast<size_t>(m)];
  if (!table) {
    uint8_t rows[kMaxParityShards * kMaxDataShards];
    for (int i = 0; i < m; i++) {
      for (int j = 0; j < k; j++) rows[i * k + j] = gf_inv(static_cast<uint8_t>((k + i) ^ j));
    }
    table = std::make_unique<uint8_t[]>(size_t{32} * static_cast<size_t>(k) * static_cast<size_t>(m));
    ec_init_tables(k, m, rows, table.get());
  }
  ec_encode_data(static_cast<int>(shard_bytes), k, m, table.get(), data, parity);
}

}  // namespace svc
