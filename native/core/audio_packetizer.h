// Opus packets into sealed datagrams, in groups with parity: PROTOCOL.md, section 6.
#pragma once
#include <functional>
#include <vector>

#include "datagram.h"
#include "parity.h"
#include "seal.h"

namespace svc {

constexpr size_t kAudioHeaderBytes = 20;
constexpr int kMostGroupPackets = 16;

struct AudioPacketizerConfig {
  uint64_t session;
  uint8_t epoch;
  /// Packets of a group, 1 to 16, and its parity shards, 0 to 50, until `set_parity` says otherwise.
  int group = 4;
  int parity = 2;
  /// Number of the first packet.
  uint32_t first = 0;
};

/// One session's sound out. Each packet leaves as soon as it is there; the parity follows the last of its
/// group.
class AudioPacketizer {
 public:
  /// A sealed datagram; valid during the call.
  using Send = std::function<void(View datagram, bool is_parity)>;
  AudioPacketizer(const AudioPacketizerConfig& config, const MediaKey& key, Send send);

  /// `opus` has at most 65,535 bytes; `capture_us` is of its first sample.
  void add(View opus, int64_t capture_us);
  /// Whether the next packet begins a group.
  bool begins() const { return index_ == 0; }
  /// Parity shards, 0 to 50, from the next group on: to be called where one begins.
  void set_parity(int shards);
  int group() const { return config_.group; }
  /// A packet that is a group of its own, without parity: to be called where a group begins.
  void add_alone(View opus, int64_t capture_us);

 private:
  void send(uint8_t index, int k, int m, int64_t capture_us, View shard);

  AudioPacketizerConfig config_;
  Cipher cipher_;
  Send send_;
  Parity parity_;
  uint64_t counter_ = 0;
  /// Number of the group's first packet; how many of it there are; when it began.
  uint32_t first_ = 0;
  int index_ = 0;
  int64_t begun_us_ = 0;
  std::vector<std::vector<uint8_t>> group_;
  std::vector<std::vector<uint8_t>> mended_;
  std::vector<uint8_t> datagram_;
};

}  // namespace svc
