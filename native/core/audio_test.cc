// Sound: two clocks that drift apart, holes, groups of packets, and what silence costs.
#include <cmath>
#include <numbers>

#include "audio_clock.h"
#include "audio_encoder.h"
#include "audio_packetizer.h"
#include "audio_source.h"
#include "core_test.h"

using svc::AudioClock;
using svc::CaptureClock;
using svc::kChunkFrames;
using svc::kChunkUs;

namespace {

/// A device that runs `ppm` too fast and whose pieces of 5 ms arrive up to `jitter_us` late.
struct Device {
  double ppm;
  size_t jitter_us;
  svc::test::Random random{7};
  int64_t pieces = 0;
  double captured_us() const { return 1e7 + static_cast<double>(pieces) * 5000 / (1 + ppm * 1e-6); }
  int64_t arrival_us() {
    return static_cast<int64_t>(captured_us()) + static_cast<int64_t>(random.below(jitter_us + 1));
  }
};

double tone(double at_us) { return 0.5 * std::sin(2 * std::numbers::pi * 440 * at_us / 1e6); }

}  // namespace

TEST(capture_clock_finds_the_drift_of_a_jittering_device) {
  for (const double ppm : {-200.0, 0.0, 150.0}) {
    Device device{ppm, 8000};
    CaptureClock clock;
    for (; device.pieces < 200 * 120; device.pieces++) clock.observe(kChunkFrames, device.arrival_us());
    CHECK(std::abs(clock.drift_ppm() - ppm) < 20);
    // The line lies by the earliest arrivals, which are on time.
    CHECK(std::abs(clock.next_us() - device.captured_us()) < 700);
  }
}

TEST(capture_clock_leaps_over_a_hole_without_taking_it_for_drift) {
  Device device{0, 500};
  CaptureClock clock;
  for (; device.pieces < 4000; device.pieces++) clock.observe(kChunkFrames, device.arrival_us());
  device.pieces += 30;
  for (; device.pieces < 4600; device.pieces++) clock.observe(kChunkFrames, device.arrival_us());
  CHECK(std::abs(clock.drift_ppm()) < 20);
  CHECK(std::abs(clock.next_us() - device.captured_us()) < 700);
}

TEST(audio_clock_passes_samples_untouched_where_nothing_drifts) {
  std::vector<float> out;
  AudioClock clock(
      2, [&](const float* samples, int64_t) { out.insert(out.end(), samples, samples + 2 * kChunkFrames); });
  svc::test::Random random(3);
  std::vector<float> in;
  for (int64_t i = 0; i < 400; i++) {
    std::vector<float> piece(2 * kChunkFrames);
    for (float& sample : piece) sample = static_cast<float>(random.below(1000)) / 1000;
    in.insert(in.end(), piece.begin(), piece.end());
    clock.feed(piece.data(), kChunkFrames, 1'000'000 + i * kChunkUs, true);
  }
  CHECK(out == in);
  CHECK(clock.corrected() == 0);
}

TEST(audio_clock_keeps_a_drifting_device_at_the_hosts_rate_and_in_tune) {
  for (const double ppm : {-300.0, 300.0}) {
    Device device{ppm, 300};
    int64_t chunks = 0;
    int64_t first_us = 0;
    double worst = 0;
    AudioClock clock(1, [&](const float* samples, int64_t capture_us) {
      if (chunks == 0) first_us = capture_us;
      CHECK(std::abs(capture_us - first_us - chunks * kChunkUs) < 10000);
      // After the line has settled: what leaves is what the device heard at the time that it is said to be
      // of.
      if (chunks > 200 * 40) {
        for (int i = 0; i < kChunkFrames; i++) {
          const double at = static_cast<double>(capture_us) + i * 1e6 / svc::kAudioRate;
          worst = std::max(worst, std::abs(samples[i] - tone(at)));
        }
      }
      chunks++;
    });
    for (; device.pieces < 200 * 60; device.pieces++) {
      float piece[kChunkFrames];
      for (int i = 0; i < kChunkFrames; i++) {
        piece[i] =
            static_cast<float>(tone(device.captured_us() + i * 1e6 / svc::kAudioRate / (1 + ppm * 1e-6)));
      }
      clock.feed(piece, kChunkFrames, device.arrival_us(), true);
    }
    CHECK(clock.corrected() > 0);
    CHECK(std::abs(clock.phase_us()) < 1500);
    // 1.5 ms of 440 Hz are 4.1 radians: only a bound of what clicks would break is told here.
    CHECK(worst <= 1.001);
    CHECK(std::abs(static_cast<double>(chunks) * 5000 - (device.captured_us() - 1e7)) < 12'000);
  }
}

TEST(audio_clock_fills_a_hole_with_silence) {
  int64_t next = -1;
  size_t zeros = 0;
  AudioClock clock(1, [&](const float* samples, int64_t capture_us) {
    CHECK(next < 0 || capture_us == next);
    next = capture_us + kChunkUs;
    for (int i = 0; i < kChunkFrames; i++) zeros += samples[i] == 0;
  });
  const std::vector<float> piece(kChunkFrames, 0.25F);
  for (int64_t i = 0; i < 1000; i++) {
    if (i < 400 || i >= 440) clock.feed(piece.data(), kChunkFrames, 1'000'000 + i * kChunkUs, true);
  }
  CHECK(next >= 1'000'000 + 990 * kChunkUs);
  CHECK(zeros >= 30 * kChunkFrames);
}

TEST(audio_groups_are_numbered_sent_at_once_and_end_with_their_parity) {
  svc::test::Random random(11);
  std::vector<std::vector<uint8_t>> sent;
  svc::MediaKey key{};
  svc::AudioPacketizer packetizer({0x1122, 3, 4, 2}, key, [&](svc::View datagram, bool) {
    sent.emplace_back(datagram.data, datagram.data + datagram.bytes);
  });
  for (int i = 0; i < 8; i++) {
    CHECK(packetizer.begins() == (i % 4 == 0));
    const auto opus = random.bytes(1 + random.below(300));
    packetizer.add({opus.data(), opus.size()}, 1000 + i * 5000);
    CHECK(sent.size() == static_cast<size_t>(i + 1 + (i + 1) / 4 * 2));
  }
  const uint8_t lone[] = {1, 2, 3};
  packetizer.add_alone({lone, 3}, 77);
  CHECK(sent.size() == 13);
  svc::Cipher opener(key, false);
  for (size_t i = 0; i < sent.size(); i++) {
    const auto header = svc::read_header({sent[i].data(), sent[i].size()});
    CHECK(header && header->stream == svc::Stream::kAudio && header->counter == i && header->epoch == 3);
    CHECK(opener.open(sent[i].data(), sent[i].size(), header->counter));
    const uint8_t* at = sent[i].data() + svc::kHeaderBytes;
    const size_t group = i / 6;
    CHECK(svc::get32(at) == group * 4 && at[4] == i % 6);
    CHECK(i == 12 ? at[5] == 1 && at[6] == 0 : at[5] == 4 && at[6] == 2);
    CHECK(svc::get16(at + 8) == sent[i].size() - svc::kHeaderBytes - svc::kAudioHeaderBytes - svc::kTagBytes);
  }
}

TEST(opus_codes_each_layout_at_both_lengths) {
  for (const int channels : {2, 6, 8}) {
    for (const int ms : {5, 10}) {
      svc::AudioEncoder encoder(channels, ms);
      std::vector<float> samples(static_cast<size_t>(48 * ms * channels));
      uint8_t opus[svc::kMostOpusBytes];
      for (int n = 0; n < 20; n++) {
        for (size_t i = 0; i < samples.size(); i++)
          samples[i] = 0.3F * static_cast<float>(std::sin(0.05 * static_cast<double>(i)));
        CHECK(encoder.encode(samples.data(), opus) > 8);
      }
      CHECK(encoder.delay_us() == 2500);
    }
  }
}

TEST(a_source_of_sound_serves_listeners_alike_and_ends) {
  const auto source = svc::open_audio_source({.kind = "tone", .channels = 6});
  source->start();
  svc::Signal wake;
  svc::AudioListener listener;
  source->listen(listener, wake);
  svc::AudioChunk chunk;
  int64_t last = 0;
  for (int taken = 0; taken < 20;) {
    const uint32_t seen = wake.current();
    uint64_t missed = 0;
    if (!source->take(listener, chunk, missed)) {
      wake.wait(seen, 1'000'000);
      continue;
    }
    CHECK(missed == 0);
    CHECK(last == 0 || chunk.capture_us - last == kChunkUs);
    last = chunk.capture_us;
    taken++;
  }
  source->leave(listener);
  source->stop();
}
