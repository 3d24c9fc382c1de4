// Cuts coded slices into blocks and shards, adds parity, seals: PROTOCOL.md, section 5.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "datagram.h"
#include "packet_ring.h"
#include "parity.h"
#include "seal.h"

namespace svc {

enum FrameFlag : uint8_t { kKeyframe = 0x01, kLastBlock = 0x02, kRepeat = 0x04, kRecovers = 0x08 };

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
  /// Least parity shards per hundred data shards; more come with the losses that `set_loss` tells.
  int fec_percent;
};

constexpr size_t kVideoHeaderBytes = 24;

/// One session's video out. The slices of a frame come in order and from one thread at a time.
class Packetizer {
 public:
  Packetizer(const PacketizerConfig& config, const MediaKey& key, PacketRing& ring);

  void begin(const FrameHead& head);
  /// Share of shards that parity is to be made for, and the size of datagrams; between frames.
  void set_path(double loss, size_t max_datagram_bytes);
  /// Parity shards per hundred data shards, over the last second or so.
  int overhead_percent() const { return static_cast<int>(overhead_ * 100 + 0.5); }
  /// Bytes of the frame in order. `slice_ends`: a block may end here. `frame_ends`: it must, and is the last.
  /// True when packets became ready to be sent.
  bool add(View data, bool slice_ends, bool frame_ends);
  /// Whether a part of the frame did not fit the ring and was thrown away; the next frame must be a keyframe.
  bool overflowed() const { return overflowed_; }

 private:
  void emit(View part, bool last);
  int parity_of(int k);
  size_t shard_room() const {
    return config_.max_datagram_bytes - kHeaderBytes - kVideoHeaderBytes - kTagBytes;
  }

  PacketizerConfig config_;
  Cipher cipher_;
  PacketRing& ring_;
  Parity parity_;
  double loss_ = 0;
  /// A slice smaller than this many shards waits for the next one: a parity shard of its own would double it.
  size_t few_shards_ = 4;
  /// By k; below 0 until asked for.
  std::array<int8_t, kMaxDataShards + 1> parity_of_k_{};
  double overhead_ = 0.2;
  FrameHead head_{};
  uint8_t block_ = 0;
  bool overflowed_ = false;
  uint64_t counter_ = 0;
  std::vector<uint8_t> held_;
};

}  // namespace svc
