// Capture, input and sound of a real X server and a real sound server, where the environment names them:
// SVC_TEST_DISPLAY and SVC_TEST_PULSE (the server's socket).
#include <cstdlib>

#include "audio_source.h"
#include "input_sink.h"
#include "pipeline_test.h"
#include "source.h"

using namespace svc;
using svc::test::Client;
using svc::test::config_of;
using svc::test::Heard;

namespace {

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  if (!value) throw svc::test::Skipped{name};
  return value;
}

/// Takes chunks of sound until so many have come or the time has gone.
int hear(AudioSource& source, int chunks, int64_t within_us) {
  Signal wake;
  AudioListener listener;
  source.listen(listener, wake);
  int heard = 0;
  AudioChunk chunk;
  for (const int64_t until = now_us() + within_us; now_us() < until && heard < chunks;) {
    const uint32_t seen = wake.current();
    uint64_t missed = 0;
    if (source.take(listener, chunk, missed)) {
      heard++;
    } else {
      wake.wait(seen, 50'000);
    }
  }
  source.leave(listener);
  return heard;
}

}  // namespace

TEST(an_x_display_is_watched_typed_into_and_left_again_and_again) {
  const char* display = setting("SVC_TEST_DISPLAY");
  auto plane = std::make_shared<Plane>("::", 0);
  plane->start();
  for (int i = 0; i < 4; i++) {
    std::shared_ptr<Source> source = open_source({.kind = "x11", .display = display, .cursor = true});
    source->start([] {});
    std::shared_ptr<InputSink> sink = open_input_sink({"x11", display, ""});
    sink->start();
    const Mode mode{source->width(), source->height(), 60};
    Heard heard[2];
    std::unique_ptr<Session> sessions[2];
    std::unique_ptr<Client> clients[2];
    for (uint64_t j = 0; j < 2; j++) {
      SessionConfig config = config_of(j + 1, plane, source, mode);
      config.sink = sink;
      sessions[j] = std::make_unique<Session>(config);
      sessions[j]->start(heard[j].listener());
      clients[j] = std::make_unique<Client>(j + 1, plane->port());
      clients[j]->ping();
      CHECK(clients[j]->receive(1) == 1);
    }
    // A pointer that moves is what changes the picture.
    const size_t before[2] = {clients[0]->whole, clients[1]->whole};
    for (uint8_t step = 0; step < 30; step++) {
      clients[step % 2]->input(InputType::kPointerTo, {step, 0, step, 0});
      clients[step % 2]->input(InputType::kKey, {0, 0x04, static_cast<uint8_t>(step / 2 % 2 == 0)});
      for (auto& client : clients) client->receive(1, 50'000);
    }
    clients[0]->input(InputType::kText, {'Z', 0xc3, 0xa4, 0xe6, 0x97, 0xa5});
    clients[0]->input(InputType::kButton, {1, 1});
    clients[0]->input(InputType::kScroll, {0, 120, 0, 120});
    for (int wait = 0; wait < 100 && clients[0]->wanted_event != clients[0]->next_event; wait++)
      clients[0]->receive(1, 20'000);
    CHECK(clients[0]->wanted_event == clients[0]->next_event);
    for (size_t j = 0; j < 2; j++) CHECK(clients[j]->whole > before[j] + 5);
    // In another order each time.
    if (i % 2) source->stop();
    sessions[i % 2]->close();
    if (i < 2) sink->stop();
    sessions[(i + 1) % 2]->close();
    source->stop();
  }
}

TEST(a_sound_server_is_recorded_left_and_missed_again_and_again) {
  const char* server = setting("SVC_TEST_PULSE");
  for (int i = 0; i < 6; i++) {
    const int channels = i % 2 ? 6 : 2;
    auto source = open_audio_source(
        {.kind = "pulse", .channels = channels, .server = server, .cookie = "", .device = "sink.monitor"});
    source->start();
    // The last ones are ended while they still connect.
    if (i < 4) CHECK(hear(*source, 40, 5'000'000) == 40);
    source->stop();
  }
  auto away = open_audio_source(
      {.kind = "pulse", .channels = 2, .server = "/nowhere", .cookie = "/nowhere", .device = "sink.monitor"});
  away->start();
  CHECK(hear(*away, 1, 300'000) == 0);
  away->stop();
}
