// The sound thread of a session. Silence is sent for a while, then only now and then: numbers go on without a
// gap.
#include "audio_sender.h"

#include <algorithm>
#include <cstdlib>

#include "thread.h"

namespace svc {

namespace {
// What rings on in a decoder has faded by then.
constexpr int kSilenceAfterMs = 200;
// Tells the client that sound is on, and what time it is.
constexpr int kQuietSpacingMs = 100;
}  // namespace

AudioSender::AudioSender(const AudioConfig& config, const AudioPacketizerConfig& packets, const MediaKey& key,
                         UdpSocket& socket, Peer& peer)
    : config_(config),
      socket_(socket),
      peer_(peer),
      encoder_(config.channels, config.frame_ms),
      packetizer_(packets, key,
                  [this](View datagram, bool is_parity) {
                    counters.packets.fetch_add(1, std::memory_order_relaxed);
                    counters.parity_packets.fetch_add(is_parity ? 1 : 0, std::memory_order_relaxed);
                    counters.wire_bytes.fetch_add(datagram.bytes, std::memory_order_relaxed);
                    socket_.send(to_, datagram.data, datagram.bytes);
                  }),
      frame_(static_cast<size_t>(kAudioRate / 1000 * config.frame_ms * config.channels)) {}

void AudioSender::start() {
  thread_ = start_thread("svc-audio", Urgency::kRealtime, [this] { run(); });
}

void AudioSender::stop() {
  stopping_.store(true, std::memory_order_release);
  signal_.notify();
  if (thread_.joinable()) thread_.join();
}

void AudioSender::set_source(std::shared_ptr<AudioSource> source) {
  {
    const std::lock_guard held(source_lock_);
    wanted_.swap(source);
  }
  signal_.notify();
}

AudioSource::Stats AudioSender::source_stats() {
  const std::lock_guard held(source_lock_);
  return wanted_ ? wanted_->stats() : AudioSource::Stats{};
}

void AudioSender::run() {
  std::shared_ptr<AudioSource> source;
  AudioListener listener;
  const auto chunk = std::make_unique<AudioChunk>();
  while (true) {
    const uint32_t seen = signal_.current();
    const bool stopping = stopping_.load(std::memory_order_acquire);
    std::shared_ptr<AudioSource> wanted;
    if (!stopping) {
      const std::lock_guard held(source_lock_);
      wanted = wanted_;
    }
    if (wanted != source) {
      if (source) source->leave(listener);
      source = std::move(wanted);
      filled_ = 0;
      if (source) source->listen(listener, signal_);
    }
    if (stopping) return;
    uint64_t missed = 0;
    if (source && source->take(listener, *chunk, missed)) {
      if (missed > 0) filled_ = 0;
      counters.dropped.fetch_add(missed, std::memory_order_relaxed);
      // What nobody can be sent is not worth coding.
      if (peer_.is_known()) code(*chunk);
      continue;
    }
    signal_.wait(seen, -1);
  }
}

void AudioSender::code(const AudioChunk& chunk) {
  const size_t samples = static_cast<size_t>(kChunkFrames * config_.channels);
  // A leap of time inside a packet would put its second half at the wrong one.
  if (filled_ > 0 && std::abs(chunk.capture_us - frame_us_ - kChunkUs) > kChunkUs) filled_ = 0;
  if (filled_ == 0) {
    frame_us_ = chunk.capture_us;
    frame_silent_ = true;
  }
  std::copy_n(chunk.samples.begin(), samples, frame_.begin() + static_cast<ptrdiff_t>(filled_));
  filled_ += samples;
  frame_silent_ = frame_silent_ && chunk.silent;
  if (filled_ < frame_.size()) return;
  filled_ = 0;

  const bool was_quiet = silent_ms_ > kSilenceAfterMs;
  silent_ms_ = frame_silent_ ? std::min(silent_ms_ + config_.frame_ms, kSilenceAfterMs + kQuietSpacingMs) : 0;
  // Within a group its parity is owed to those who have its first packets.
  const bool is_quiet = silent_ms_ > kSilenceAfterMs && packetizer_.begins();
  if (is_quiet) {
    quiet_ms_ += config_.frame_ms;
    if (quiet_ms_ < kQuietSpacingMs) return;
    quiet_ms_ = 0;
  } else if (was_quiet && silent_ms_ == 0) {
    encoder_.reset();
  }
  uint8_t opus[kMostOpusBytes];
  const size_t bytes = encoder_.encode(frame_.data(), opus);
  if (bytes == 0) return;
  peer_.read(to_, to_version_);
  // A decoder gives what went in a little later: its first sample is one that was captured before.
  const int64_t capture_us = frame_us_ - encoder_.delay_us();
  if (is_quiet) {
    packetizer_.add_alone({opus, bytes}, capture_us);
  } else {
    if (packetizer_.begins()) {
      packetizer_.set_parity(sound_parity_for(packetizer_.group(), loss_.load(std::memory_order_relaxed)));
    }
    packetizer_.add({opus, bytes}, capture_us);
  }
}

}  // namespace svc
