// Cuts coded slices into blocks and shards, adds parity and seals them where they lie: PROTOCOL.md,
// section 5.
#include "packetizer.h"

#include <algorithm>
#include <cstring>

#include "clock.h"
#include "datagram.h"
#include "loss_control.h"

namespace svc {

Packetizer::Packetizer(const PacketizerConfig& config, const MediaKey& key, PacketRing& ring)
    : config_(config), cipher_(key, true), ring_(ring) {
  held_.reserve(1 << 20);
  parity_of_k_.fill(-1);
}

void Packetizer::set_path(double loss, size_t max_datagram_bytes) {
  config_.max_datagram_bytes = max_datagram_bytes;
  if (loss == loss_) return;
  loss_ = loss;
  few_shards_ = static_cast<size_t>(shards_before_close(loss));
  parity_of_k_.fill(-1);
}

int Packetizer::parity_of(int k) {
  int8_t& m = parity_of_k_[static_cast<size_t>(k)];
  if (m < 0) m = static_cast<int8_t>(parity_for(k, loss_, config_.fec_percent));
  return m;
}

void Packetizer::begin(const FrameHead& head) {
  head_ = head;
  block_ = 0;
  overflowed_ = false;
  held_.clear();
}

bool Packetizer::add(View data, bool slice_ends, bool frame_ends) {
  held_.insert(held_.end(), data.data, data.data + data.bytes);
  if (!frame_ends && (!slice_ends || held_.size() < few_shards_ * shard_room())) return false;
  if (held_.empty()) return false;
  const size_t most = kMaxDataShards * shard_room();
  const size_t blocks = (held_.size() + most - 1) / most;
  const size_t each = (held_.size() + blocks - 1) / blocks;
  for (size_t i = 0; i < blocks; i++) {
    const View part = View{held_.data(), held_.size()}.from(i * each).first(each);
    emit(part, frame_ends && i == blocks - 1);
  }
  held_.clear();
  return true;
}

void Packetizer::emit(View part, bool last) {
  const int k = static_cast<int>((part.bytes + shard_room() - 1) / shard_room());
  const int m = parity_of(k);
  const size_t shard = (part.bytes + static_cast<size_t>(k) - 1) / static_cast<size_t>(k);
  const auto total = static_cast<uint64_t>(k + m);
  // A block that is missing makes the whole frame undecodable, so what follows of it is not sent either.
  // 255 blocks of 50 shards are some 17 MB: no frame within the encoder's buffer comes near.
  if (overflowed_ || block_ == UINT8_MAX || !ring_.has_room(total)) {
    overflowed_ = true;
    return;
  }

  uint8_t* shards[kMaxDataShards + kMaxParityShards];
  for (int i = 0; i < k + m; i++) {
    Packet& packet = ring_.ahead(static_cast<uint64_t>(i));
    packet.bytes = static_cast<uint16_t>(kHeaderBytes + kVideoHeaderBytes + shard + kTagBytes);
    packet.last_of_frame = last && i == k + m - 1;
    packet.is_parity = i >= k;
    packet.frame = head_.frame;
    packet.capture_us = head_.capture_us;
    packet.payload_bytes = 0;
    uint8_t* at = packet.data + kHeaderBytes;
    put32(at, head_.frame);
    at[4] = block_;
    at[5] = static_cast<uint8_t>(head_.flags | (last ? kLastBlock : 0));
    at[6] = static_cast<uint8_t>(i);
    at[7] = static_cast<uint8_t>(k);
    at[8] = static_cast<uint8_t>(m);
    at[9] = head_.generation;
    put16(at + 10, 0);
    put32(at + 12, static_cast<uint32_t>(part.bytes));
    put64(at + 16, static_cast<uint64_t>(head_.capture_us));
    shards[i] = at + kVideoHeaderBytes;
    if (i < k) {
      const View piece = part.from(static_cast<size_t>(i) * shard).first(shard);
      if (piece.bytes > 0) std::memcpy(shards[i], piece.data, piece.bytes);
      std::memset(shards[i] + piece.bytes, 0, shard - piece.bytes);
      packet.payload_bytes = static_cast<uint16_t>(piece.bytes);
    }
  }
  if (m > 0) parity_.encode(k, m, shard, shards, shards + k);

  const int64_t ready = now_us();
  for (int i = 0; i < k + m; i++) {
    Packet& packet = ring_.ahead(static_cast<uint64_t>(i));
    packet.ready_us = ready;
    write_header(packet.data, {Stream::kVideo, config_.epoch, config_.session, counter_});
    // What could not be sealed must never leave.
    if (!cipher_.seal(packet.data, kVideoHeaderBytes + shard, counter_++)) {
      overflowed_ = true;
      return;
    }
  }
  ring_.commit(total);
  overhead_ += (static_cast<double>(m) / k - overhead_) * std::min(1.0, k / 500.0);
  block_++;
}

}  // namespace svc
