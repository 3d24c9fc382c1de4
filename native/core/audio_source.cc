// What all sources of sound share: the table of them, the capture thread, and handing chunks to those who
// listen.
#include "audio_source.h"

#include <algorithm>

#include "fault.h"
#include "thread.h"

namespace svc {

namespace {
struct Entry {
  const char* kind;
  std::unique_ptr<AudioSource> (*open)(const AudioSourceConfig&);
};
// A new source is one file and one line here.
const Entry kSources[] = {
    {"pulse", open_pulse_source},
    {"tone", open_tone_source},
};
}  // namespace

std::unique_ptr<AudioSource> open_audio_source(const AudioSourceConfig& config) {
  if (config.channels != 2 && config.channels != 6 && config.channels != 8) {
    throw Fault("audio", "channels", "sound has 2, 6 or 8 channels, not " + std::to_string(config.channels));
  }
  for (const Entry& entry : kSources) {
    if (config.kind == entry.kind) return entry.open(config);
  }
  throw Fault("audio", "unknown-kind", "there is no source of sound called " + config.kind);
}

AudioSource::AudioSource(int channels)
    : channels_(channels),
      clock_(channels, [this](const float* samples, int64_t capture_us) { publish(samples, capture_us); }) {}

void AudioSource::start() {
  const std::lock_guard held(join_lock_);
  thread_ = start_thread("svc-sound", Urgency::kRealtime, [this] { run(); });
}

void AudioSource::stop() {
  const std::lock_guard held(join_lock_);
  stopping_.store(true, std::memory_order_release);
  interrupt();
  if (thread_.joinable()) thread_.join();
}

void AudioSource::listen(AudioListener& listener, Signal& wake) {
  const std::lock_guard held(lock_);
  listener.wake = &wake;
  listener.next = published_;
  listeners_.push_back(&listener);
}

void AudioSource::leave(AudioListener& listener) {
  const std::lock_guard held(lock_);
  std::erase(listeners_, &listener);
}

bool AudioSource::has_listeners() {
  const std::lock_guard held(lock_);
  return !listeners_.empty();
}

bool AudioSource::take(AudioListener& listener, AudioChunk& into, uint64_t& missed) {
  const std::lock_guard held(lock_);
  missed = 0;
  if (listener.next == published_) return false;
  if (published_ - listener.next > kKept) {
    missed = published_ - kKept - listener.next;
    listener.next += missed;
  }
  const AudioChunk& from = kept_[listener.next++ % kKept];
  into.capture_us = from.capture_us;
  into.silent = from.silent;
  std::copy_n(from.samples.begin(), kChunkFrames * channels_, into.samples.begin());
  return true;
}

AudioSource::Stats AudioSource::stats() const {
  return {drift_ppm_.load(std::memory_order_relaxed), corrected_.load(std::memory_order_relaxed)};
}

void AudioSource::feed(const float* samples, size_t frames, int64_t first_us) {
  clock_.feed(samples, frames, first_us, has_listeners());
  drift_ppm_.store(clock_.drift_ppm(), std::memory_order_relaxed);
  corrected_.store(clock_.corrected(), std::memory_order_relaxed);
}

void AudioSource::publish(const float* samples, int64_t capture_us) {
  const size_t count = static_cast<size_t>(kChunkFrames) * static_cast<size_t>(channels_);
  const std::lock_guard held(lock_);
  AudioChunk& chunk = kept_[published_ % kKept];
  chunk.capture_us = capture_us;
  std::copy_n(samples, count, chunk.samples.begin());
  chunk.silent = std::all_of(samples, samples + count, [](float sample) { return sample == 0; });
  published_++;
  for (AudioListener* listener : listeners_) listener->wake->notify();
}

}  // namespace svc
