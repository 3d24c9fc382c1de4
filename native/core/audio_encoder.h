// Opus for one session: stereo, 5.1 or 7.1, for the lowest delay.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

struct OpusMSEncoder;

namespace svc {

/// Opus's own limit for what makes sense at these lengths, and far below a datagram's room.
constexpr size_t kMostOpusBytes = 1100;

class AudioEncoder {
 public:
  /// `frame_ms`: 5 or 10. Throws `Fault` (stage `audio`).
  AudioEncoder(int channels, int frame_ms);
  AudioEncoder(const AudioEncoder&) = delete;
  AudioEncoder& operator=(const AudioEncoder&) = delete;

  /// One packet out of `frame_ms` of interleaved samples; gives its length, 0 when it could not be coded.
  size_t encode(const float* samples, uint8_t into[kMostOpusBytes]);
  /// Forgets what came before: a pause has ended.
  void reset();
  /// How much later than the first sample that goes in the first one comes out of a decoder, microseconds.
  int64_t delay_us() const { return delay_us_; }

 private:
  struct Free {
    void operator()(OpusMSEncoder* encoder) const;
  };
  std::unique_ptr<OpusMSEncoder, Free> encoder_;
  int frames_;
  int64_t delay_us_ = 0;
};

}  // namespace svc
