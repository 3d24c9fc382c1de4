// Cuts coded slices into blocks and shards, adds parity, seals: PROTOCOL.md, section 5.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "datagram.h"
#include "packet_ring.h"
#include "parity.h"
#include "seal.h"

namespace svc {

enum FrameFlag : uint8_t { kKeyframe = 0x01, kLastBlock = 0x02, kRepeat = 0x04 };

struct FrameHead {
  uint32_t frame;
  uint8_t flags;
  uint8_t generation;
  int64_t capture_us;
};

struct PacketizerConfig {
  uint64_t session;
  uint8_t epoch;
  size_t max_datagram_bytes;
  int fec_percent;
};

constexpr size_t kVideoHeaderBytes = 24;

/// One session's video out. The slices of a frame come in order and from one thread at a time.
class Packetizer {
 public:
  Packetizer(const PacketizerConfig& config, const MediaKey& key, PacketRing& ring);

  void begin(const FrameHead& head);
  /// Bytes of the frame in order. `slice_ends`: a block may end here. `frame_ends`: it must, and is the last.
  /// True when packets became ready to be sent.
  bool add(View data, bool slice_ends, bool frame_ends);
  /// Whether a part of the frame did not fit the ring and was thrown away; the next frame must be a keyframe.
  bool overflowed() const { return overflowed_; }

 private:
  void emit(View part, bool last);
  size_t shard_room() const {
    return config_.max_datagram_bytes - kHeaderBytes - kVideoHeaderBytes - kTagBytes;
  }

  /// A slice smaller than this many shards waits for the next one: a parity shard of its own would double it.
  static constexpr size_t kFewShards = 4;

  PacketizerConfig config_;
  Cipher cipher_;
  PacketRing& ring_;
  Parity parity_;
  FrameHead head_{};
  uint8_t block_ = 0;
  bool overflowed_ = false;
  uint64_t counter_ = 0;
  std::vector<uint8_t> held_;
};

}  // namespace svc
