// The two clocks of sound: a line through the earliest arrivals, and cubic interpolation where they have
// drifted apart.
#include "audio_clock.h"

#include <algorithm>
#include <cmath>

namespace svc {

namespace {
constexpr double kNominalUs = 1e6 / kAudioRate;
constexpr uint64_t kWindowFrames = kAudioRate / 2;
// How much of a window's news goes into the line: quick at first, then slow, so that one late window turns
// nothing.
constexpr double kOffsetGain = 0.2;
constexpr double kPeriodGain = 0.02;
constexpr int kSettlingWindows = 8;
// No sound card is worse, so what looks worse is a machine that was busy.
constexpr double kMostDrift = 1e-3;

// A whole window later, or earlier, than the line allows.
constexpr double kLostUs = 20'000;
constexpr double kImpossibleUs = 5'000;

// Beyond this much the samples themselves are corrected, until they are within the other.
constexpr double kCorrectAboveUs = 1'000;
constexpr double kCorrectedUs = 100;
// Less than two hundredths of a semitone: nobody hears this.
constexpr double kCorrectionRate = 1e-3;
// A hole or a leap, not a drift.
constexpr double kLeapUs = 40'000;
constexpr double kMostSilenceUs = 500'000;
}  // namespace

void CaptureClock::observe(size_t frames, int64_t arrival_us) {
  const auto arrival = static_cast<double>(arrival_us);
  if (!any_) {
    any_ = true;
    offset_us_ = arrival;
    least_us_ = 0;
  }
  const double late = arrival - next_us();
  // Nothing is captured after it has arrived.
  if (windows_ == 0 && late < 0) offset_us_ += late;
  if (window_frames_ == 0 || late < least_us_) least_us_ = late;
  frames_ += frames;
  window_frames_ += frames;
  if (window_frames_ >= kWindowFrames) end_window();
}

void CaptureClock::end_window() {
  window_frames_ = 0;
  windows_++;
  if (windows_ == 1) return;
  const double here = static_cast<double>(frames_);
  if (least_us_ > kLostUs || least_us_ < -kImpossibleUs) {
    // Samples were lost, or the line was wrong: no news about how fast the device runs.
    offset_us_ += least_us_;
    return;
  }
  const double offset_gain = windows_ < kSettlingWindows ? 2 * kOffsetGain : kOffsetGain;
  const double before = next_us();
  // Turned about the newest sample, so that the slope's news does not move the present.
  period_us_ += kPeriodGain * least_us_ / static_cast<double>(kWindowFrames);
  period_us_ = std::clamp(period_us_, kNominalUs * (1 - kMostDrift), kNominalUs * (1 + kMostDrift));
  offset_us_ = before + offset_gain * least_us_ - here * period_us_;
  settled_ = windows_ >= kSettlingWindows;
}

AudioClock::AudioClock(int channels, Emit emit)
    : channels_(channels),
      emit_(std::move(emit)),
      chunk_(static_cast<size_t>(kChunkFrames) * static_cast<size_t>(channels)) {}

void AudioClock::reset() {
  clock_.reset();
  held_.clear();
  at_ = 1;
  correction_ = 0;
  next_us_ = -1;
  phase_us_ = 0;
}

void AudioClock::feed(const float* samples, size_t frames, int64_t first_us, bool heard) {
  const auto channels = static_cast<size_t>(channels_);
  const double early = static_cast<double>(first_us) - clock_.next_us();
  // A device that stood still, or a burst of what had been held back somewhere: the line starts anew.
  if (next_us_ >= 0 && std::abs(early) > kMostSilenceUs) reset();
  clock_.observe(frames, first_us);
  // One sample before the first, which the interpolation looks back at.
  if (held_.empty()) held_.assign(channels, 0.F);
  held_.insert(held_.end(), samples, samples + frames * channels);
  const auto have = [&] { return static_cast<double>(held_.size() / channels); };
  if (next_us_ < 0) next_us_ = std::llround(clock_.next_us() - (have() - at_) * kNominalUs);

  // Where the next sample that leaves was captured, against when it is said to have been.
  const auto phase = [&] {
    return clock_.next_us() - (have() - at_) * kNominalUs - static_cast<double>(next_us_);
  };
  phase_us_ = phase();
  const bool is_new = !clock_.is_settled() && std::abs(phase_us_) > kCorrectAboveUs && phase_us_ < kLeapUs;
  if (!heard || is_new || phase_us_ < -kLeapUs) {
    // Nobody notices, or the first arrivals were late ones: then what is said changes and not what is heard.
    // Else time has been said to be later than it was, and what is held is left out as far as needed.
    if (!heard || is_new) {
      next_us_ += std::llround(phase_us_);
    } else {
      const double skip = std::min(have() - at_ - 1, -phase_us_ / kNominalUs);
      if (skip > 0) at_ += std::floor(skip), corrected_ += static_cast<uint64_t>(skip);
    }
    correction_ = 0;
  } else if (phase_us_ > kLeapUs) {
    // A hole: silence takes its place.
    std::fill(chunk_.begin(), chunk_.end(), 0.F);
    for (double gap = std::min(phase_us_, kMostSilenceUs); gap >= kChunkUs; gap -= kChunkUs) {
      emit_(chunk_.data(), next_us_);
      next_us_ += kChunkUs;
      corrected_ += kChunkFrames;
    }
    correction_ = 0;
  } else if (correction_ == 0 ? std::abs(phase_us_) > kCorrectAboveUs : std::abs(phase_us_) > kCorrectedUs) {
    // The samples come later than they are said to: more must leave than come in, so each step is a shorter
    // one.
    if (correction_ == 0) correction_ = phase_us_ > 0 ? -kCorrectionRate : kCorrectionRate;
    if ((phase_us_ > 0) != (correction_ < 0)) correction_ = 0;
  } else {
    correction_ = 0;
  }
  phase_us_ = phase();
  step_ = 1 + correction_;
  // Without a correction the samples pass untouched, at whole positions.
  if (correction_ == 0 && at_ != std::floor(at_)) at_ = std::round(at_);

  // The interpolation looks two samples ahead.
  const double ahead = correction_ == 0 ? 0 : 2;
  while (at_ + step_ * kChunkFrames + ahead <= have()) emit_chunk();
  const auto gone = static_cast<size_t>(std::max(0.0, std::floor(at_) - 1));
  held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(gone * channels));
  at_ -= static_cast<double>(gone);
}

void AudioClock::emit_chunk() {
  const auto channels = static_cast<size_t>(channels_);
  if (correction_ == 0) {
    std::copy_n(held_.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(at_) * channels), chunk_.size(),
                chunk_.begin());
    at_ += kChunkFrames;
  } else {
    for (size_t i = 0; i < kChunkFrames; i++, at_ += step_) {
      const auto whole = static_cast<size_t>(at_);
      const auto t = static_cast<float>(at_ - static_cast<double>(whole));
      for (size_t c = 0; c < channels; c++) {
        // Catmull-Rom through four samples.
        const float* p = &held_[(whole - 1) * channels + c];
        const float p0 = p[0], p1 = p[channels], p2 = p[2 * channels], p3 = p[3 * channels];
        const float a = 0.5F * (3 * (p1 - p2) + p3 - p0);
        const float b = p0 - 2.5F * p1 + 2 * p2 - 0.5F * p3;
        chunk_[i * channels + c] = ((a * t + b) * t + 0.5F * (p2 - p0)) * t + p1;
      }
    }
    corrected_++;
  }
  emit_(chunk_.data(), next_us_);
  next_us_ += kChunkUs;
}

}  // namespace svc
