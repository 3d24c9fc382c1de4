// Sealed datagrams on their way from the encoder to the sender: a ring without locks, one writer, one reader.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace svc {

constexpr size_t kMaxDatagramBytes = 1452;

struct Packet {
  /// Whole UDP payload.
  uint16_t bytes;
  bool last_of_frame;
  bool is_parity;
  uint32_t frame;
  /// Shard bytes of a data packet without padding and framing; 0 for parity.
  uint16_t payload_bytes;
  /// When the picture was taken, and when this packet was ready; microseconds.
  int64_t capture_us;
  int64_t ready_us;
  uint8_t data[kMaxDatagramBytes + 4];
};

class PacketRing {
 public:
  static constexpr uint64_t kSlots = 4096;

  /// Writer: whether `count` packets can be written behind the ones already written.
  bool has_room(uint64_t count) const {
    return written_.load(std::memory_order_relaxed) + count - read_.load(std::memory_order_acquire) <= kSlots;
  }
  /// Writer: the slot `ahead` of the last one that was committed; within what `has_room` allowed.
  Packet& ahead(uint64_t ahead) {
    return slots_[(written_.load(std::memory_order_relaxed) + ahead) % kSlots];
  }
  void commit(uint64_t count) { written_.fetch_add(count, std::memory_order_release); }

  /// Reader: packets waiting, the n-th of them, and giving them back.
  uint64_t waiting() const {
    return written_.load(std::memory_order_acquire) - read_.load(std::memory_order_relaxed);
  }
  Packet& peek(uint64_t n) { return slots_[(read_.load(std::memory_order_relaxed) + n) % kSlots]; }
  void release(uint64_t count) { read_.fetch_add(count, std::memory_order_release); }

 private:
  // Left unwritten until used, so that a session of few bits does not claim memory for many.
  std::unique_ptr<Packet[]> slots_ = std::make_unique_for_overwrite<Packet[]>(kSlots);
  alignas(64) std::atomic<uint64_t> written_{0};
  alignas(64) std::atomic<uint64_t> read_{0};
};

}  // namespace svc
