// The generated sound that belongs to the test picture: 440 Hz for a tenth of each second of the clock that
// the picture shows, so that whoever has both can tell how far apart they are.
#include <cmath>
#include <numbers>

#include "audio_source.h"
#include "clock.h"

namespace svc {

namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr double kToneHz = 440;
constexpr float kLevel = 0.5F;
constexpr int64_t kSecondUs = 1'000'000;
constexpr int64_t kBeepUs = 100'000;

class ToneSource final : public AudioSource {
 public:
  explicit ToneSource(const AudioSourceConfig& config) : AudioSource(config.channels) {}
  ~ToneSource() override { stop(); }

 private:
  void run() override {
    const auto width = static_cast<size_t>(channels());
    std::vector<float> samples(width * kChunkFrames);
    int64_t from = now_us() / kChunkUs * kChunkUs;
    while (true) {
      const uint32_t seen = wake_.current();
      if (is_stopping()) return;
      if (const int64_t now = now_us(); now < from) {
        wake_.wait(seen, from - now);
        continue;
      } else if (now - from > kSecondUs) {
        from = now / kChunkUs * kChunkUs;
      }
      for (size_t i = 0; i < kChunkFrames; i++) {
        const double into = static_cast<double>(from % kSecondUs) / 1e6 + static_cast<double>(i) / kAudioRate;
        const bool sounds = into < static_cast<double>(kBeepUs) / 1e6;
        const float sample = sounds ? kLevel * static_cast<float>(std::sin(kTurn * kToneHz * into)) : 0.F;
        for (size_t c = 0; c < width; c++) samples[i * width + c] = sample;
      }
      feed(samples.data(), kChunkFrames, from);
      from += kChunkUs;
    }
  }
  void interrupt() override { wake_.notify(); }

  Signal wake_;
};

}  // namespace

std::unique_ptr<AudioSource> open_tone_source(const AudioSourceConfig& config) {
  return std::make_unique<ToneSource>(config);
}

}  // namespace svc
