// Where sound comes from: one capture thread for each source, shared by all sessions that listen.
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "audio_clock.h"
#include "wake_signal.h"

namespace svc {

struct AudioSourceConfig {
  /// Name in the table of sources: `pulse`, `tone`.
  std::string kind;
  /// 2 (front), 6 (5.1) or 8 (7.1), in the order of Opus (RFC 7845, 5.1.1.2).
  int channels = 2;
  /// pulse: path of the server's socket, and of its cookie.
  std::string server;
  std::string cookie;
  /// pulse: name of the source to record.
  std::string device;
};

/// 5 ms of sound.
struct AudioChunk {
  int64_t capture_us = 0;
  /// Every sample is zero.
  bool silent = true;
  std::array<float, size_t{kChunkFrames} * kMostChannels> samples;
};

/// A session's place at a source. Its fields belong to the source's lock.
struct AudioListener {
  Signal* wake = nullptr;
  /// Number of the chunk to be taken next.
  uint64_t next = 0;
};

class AudioSource {
 public:
  /// Every source calls `stop` in its own destructor: `run` is its own.
  virtual ~AudioSource() = default;
  AudioSource(const AudioSource&) = delete;
  AudioSource& operator=(const AudioSource&) = delete;

  void start();
  /// Ends capture for good and waits for its thread; may be called again.
  void stop();
  int channels() const { return channels_; }

  void listen(AudioListener& listener, Signal& wake);
  void leave(AudioListener& listener);
  /// The oldest chunk that this listener has not had; false: none. `missed` counts those that it came too
  /// late for.
  bool take(AudioListener& listener, AudioChunk& into, uint64_t& missed);

  struct Stats {
    /// How much faster than the host's clock the device runs, parts per million.
    double drift_ppm;
    /// Samples made or left out to keep in step, since the source was opened.
    uint64_t corrected;
  };
  Stats stats() const;

 protected:
  explicit AudioSource(int channels);
  virtual void run() = 0;
  /// Breaks a wait inside `run`; called from another thread.
  virtual void interrupt() = 0;

  bool is_stopping() const { return stopping_.load(std::memory_order_acquire); }
  /// Samples in the order of Opus, as they come from the device; `first_us` is when the first was captured,
  /// or later.
  void feed(const float* samples, size_t frames, int64_t first_us);
  /// The device has gone and may come back.
  void reset() { clock_.reset(); }
  bool has_listeners();

 private:
  void publish(const float* samples, int64_t capture_us);

  /// 320 ms: beyond that a listener has been asleep, and old sound is no use.
  static constexpr uint64_t kKept = 64;

  int channels_;
  AudioClock clock_;
  std::mutex lock_;
  std::vector<AudioListener*> listeners_;
  std::unique_ptr<AudioChunk[]> kept_ = std::make_unique<AudioChunk[]>(kKept);
  uint64_t published_ = 0;
  std::atomic<double> drift_ppm_{0};
  std::atomic<uint64_t> corrected_{0};
  std::atomic<bool> stopping_{false};
  std::mutex join_lock_;
  std::thread thread_;
};

/// Opens a source by its kind; throws `Fault` (stage `audio`). A device that is not there (yet) is no fault:
/// it is tried again until the source is stopped, and there is silence meanwhile.
std::unique_ptr<AudioSource> open_audio_source(const AudioSourceConfig& config);

std::unique_ptr<AudioSource> open_pulse_source(const AudioSourceConfig& config);
std::unique_ptr<AudioSource> open_tone_source(const AudioSourceConfig& config);

}  // namespace svc
