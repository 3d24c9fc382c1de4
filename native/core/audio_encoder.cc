// libopus as a multistream encoder: one stream for stereo, the mapping of family 1 (RFC 7845, 5.1.1.2) for
// surround.
#include "audio_encoder.h"

#include <opus/opus_multistream.h>

#include "audio_clock.h"
#include "fault.h"

namespace svc {

namespace {
// Transparent for stereo in listening tests; what surround adds follows its coupled pairs.
constexpr int kStereoBps = 128'000;
constexpr int kFiveBps = 320'000;
constexpr int kSevenBps = 448'000;
// The knee of quality over time: 10 takes half as much again and is not heard.
constexpr int kComplexity = 5;
}  // namespace

void AudioEncoder::Free::operator()(OpusMSEncoder* encoder) const {
  opus_multistream_encoder_destroy(encoder);
}

AudioEncoder::AudioEncoder(int channels, int frame_ms) : frames_(kAudioRate / 1000 * frame_ms) {
  int error = OPUS_OK;
  int streams = 0;
  int coupled = 0;
  uint8_t mapping[kMostChannels];
  encoder_.reset(opus_multistream_surround_encoder_create(kAudioRate, channels, channels > 2 ? 1 : 0,
                                                          &streams, &coupled, mapping,
                                                          OPUS_APPLICATION_RESTRICTED_LOWDELAY, &error));
  if (error != OPUS_OK || !encoder_) {
    throw Fault("audio", "opus", std::string("sound cannot be coded: ") + opus_strerror(error));
  }
  OpusMSEncoder* encoder = encoder_.get();
  opus_multistream_encoder_ctl(encoder, OPUS_SET_BITRATE(channels == 8   ? kSevenBps
                                                         : channels == 6 ? kFiveBps
                                                                         : kStereoBps));
  opus_multistream_encoder_ctl(encoder, OPUS_SET_COMPLEXITY(kComplexity));
  opus_int32 lookahead = 0;
  opus_multistream_encoder_ctl(encoder, OPUS_GET_LOOKAHEAD(&lookahead));
  delay_us_ = int64_t{lookahead} * 1'000'000 / kAudioRate;
}

size_t AudioEncoder::encode(const float* samples, uint8_t into[kMostOpusBytes]) {
  const int bytes = opus_multistream_encode_float(encoder_.get(), samples, frames_, into,
                                                  static_cast<opus_int32>(kMostOpusBytes));
  return bytes > 0 ? static_cast<size_t>(bytes) : 0;
}

void AudioEncoder::reset() { opus_multistream_encoder_ctl(encoder_.get(), OPUS_RESET_STATE); }

}  // namespace svc
