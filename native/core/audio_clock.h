// Puts a capture device's samples on the host's monotonic clock: measures how its clock runs, and resamples
// by a hair where the two have drifted apart, so that 48,000 samples that leave are one second of the
// picture's time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace svc {

constexpr int kAudioRate = 48'000;
/// What sound is handed on in: 5 ms.
constexpr int kChunkFrames = 240;
constexpr int64_t kChunkUs = 5'000;
constexpr int kMostChannels = 8;

/// When a device's samples were captured, from when they arrived. Arrivals come late by chance and never
/// early, so the earliest of each short window tells; a line through these is the device's clock.
class CaptureClock {
 public:
  /// `frames` more samples have arrived at `arrival_us`, which is the time of the first of them, or later.
  void observe(size_t frames, int64_t arrival_us);
  /// When the next sample to be observed is captured, on the line as it is known now.
  double next_us() const { return offset_us_ + static_cast<double>(frames_) * period_us_; }
  /// How much faster than the host's clock the device runs, in parts per million; 0 until it is known.
  double drift_ppm() const { return settled_ ? (1e6 / kAudioRate / period_us_ - 1) * 1e6 : 0; }
  /// Whether enough has been seen to tell lateness from drift.
  bool is_settled() const { return settled_; }
  void reset() { *this = CaptureClock(); }

 private:
  void end_window();

  uint64_t frames_ = 0;
  double period_us_ = 1e6 / kAudioRate;
  /// Time of sample 0.
  double offset_us_ = 0;
  /// Least lateness of the window, against the line, so far.
  double least_us_ = 0;
  uint64_t window_frames_ = 0;
  bool any_ = false;
  bool settled_ = false;
  int windows_ = 0;
};

/// Samples in at the device's rate, chunks of `kChunkFrames` out at the host's.
class AudioClock {
 public:
  /// A chunk: `samples` are interleaved, captured from `capture_us` on.
  using Emit = std::function<void(const float* samples, int64_t capture_us)>;

  AudioClock(int channels, Emit emit);
  /// `first_us`: when the first of these samples was captured, or a little later. `heard`: somebody listens,
  /// so that time may not jump without need.
  void feed(const float* samples, size_t frames, int64_t first_us, bool heard);
  /// The device has gone; what it brings next is another beginning.
  void reset();

  double drift_ppm() const { return clock_.drift_ppm(); }
  /// Of what has left, against the captured clock.
  double phase_us() const { return phase_us_; }
  /// Samples that were made or left out to keep in step.
  uint64_t corrected() const { return corrected_; }

 private:
  void emit_chunk();

  int channels_;
  Emit emit_;
  CaptureClock clock_;
  /// Unread samples; `at_` is how far into them the next one that leaves lies.
  std::vector<float> held_;
  double at_ = 1;
  double step_ = 1;
  double correction_ = 0;
  /// When the next chunk begins; below 0: not known yet.
  int64_t next_us_ = -1;
  double phase_us_ = 0;
  uint64_t corrected_ = 0;
  std::vector<float> chunk_;
};

}  // namespace svc
