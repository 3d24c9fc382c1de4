// Numbers, groups, parity over (length, packet, zeros), and sealing with the key of stream 2.
#include "audio_packetizer.h"

#include <algorithm>

namespace svc {

AudioPacketizer::AudioPacketizer(const AudioPacketizerConfig& config, const MediaKey& key, Send send)
    : config_(config),
      cipher_(key, true),
      send_(std::move(send)),
      first_(config.first),
      group_(static_cast<size_t>(config.group)),
      mended_(static_cast<size_t>(config.parity)) {}

void AudioPacketizer::add(View opus, int64_t capture_us) {
  const int k = config_.group;
  const int m = config_.parity;
  if (index_ == 0) begun_us_ = capture_us;
  std::vector<uint8_t>& shard = group_[static_cast<size_t>(index_)];
  shard.resize(2 + opus.bytes);
  put16(shard.data(), static_cast<uint16_t>(opus.bytes));
  std::copy_n(opus.data, opus.bytes, shard.begin() + 2);
  send(static_cast<uint8_t>(index_), k, m, capture_us, opus);
  if (++index_ < k) return;

  index_ = 0;
  if (m > 0) {
    size_t longest = 0;
    for (const auto& packet : group_) longest = std::max(longest, packet.size());
    uint8_t* data[kMostGroupPackets];
    uint8_t* parity[kMaxParityShards];
    for (int i = 0; i < k; i++) {
      group_[static_cast<size_t>(i)].resize(longest, 0);
      data[i] = group_[static_cast<size_t>(i)].data();
    }
    for (int i = 0; i < m; i++) {
      mended_[static_cast<size_t>(i)].resize(longest);
      parity[i] = mended_[static_cast<size_t>(i)].data();
    }
    parity_.encode(k, m, longest, data, parity);
    for (int i = 0; i < m; i++) send(static_cast<uint8_t>(k + i), k, m, begun_us_, {parity[i], longest});
  }
  first_ += static_cast<uint32_t>(k);
}

void AudioPacketizer::set_parity(int shards) {
  config_.parity = shards;
  if (mended_.size() < static_cast<size_t>(shards)) mended_.resize(static_cast<size_t>(shards));
}

void AudioPacketizer::add_alone(View opus, int64_t capture_us) {
  send(0, 1, 0, capture_us, opus);
  first_++;
}

void AudioPacketizer::send(uint8_t index, int k, int m, int64_t capture_us, View shard) {
  datagram_.resize(kHeaderBytes + kAudioHeaderBytes + shard.bytes + kTagBytes);
  write_header(datagram_.data(), {Stream::kAudio, config_.epoch, config_.session, counter_});
  uint8_t* at = datagram_.data() + kHeaderBytes;
  put32(at, first_);
  at[4] = index;
  at[5] = static_cast<uint8_t>(k);
  at[6] = static_cast<uint8_t>(m);
  at[7] = 0;
  put16(at + 8, static_cast<uint16_t>(shard.bytes));
  put16(at + 10, 0);
  put64(at + 12, static_cast<uint64_t>(capture_us));
  std::copy_n(shard.data, shard.bytes, at + kAudioHeaderBytes);
  // What could not be sealed must never leave; the counter is spent all the same.
  if (!cipher_.seal(datagram_.data(), kAudioHeaderBytes + shard.bytes, counter_++)) return;
  send_({datagram_.data(), datagram_.size()}, index >= k);
}

}  // namespace svc
