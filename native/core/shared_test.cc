// Every thread of a stream at once: sessions that share picture, sound and input are joined, left, resized,
// retuned and sampled from outside while real clients watch them over sockets. What the sanitizers are to
// see.
#include <thread>

#include "pipeline_test.h"

using namespace svc;
using svc::test::Client;
using svc::test::config_of;
using svc::test::Heard;
using svc::test::test_source;

namespace {

// Large enough that libx264 codes on several threads.
constexpr Mode kMode{640, 480, 60};
constexpr Mode kOther{800, 608, 30};
constexpr int64_t kRunUs = 3'000'000;

/// A sink like any other, but that its keyboard is a set of numbers.
class NumberSink final : public InputSink {
 public:
  ~NumberSink() override { stop(); }
  std::atomic<int> applied{0};
  std::atomic<int> held{0};

 private:
  void apply(InputClient& client, InputType type, View body) override {
    applied++;
    if (type != InputType::kKey || client.keys[body.data[1]] == (body.data[2] != 0)) return;
    client.keys.flip(body.data[1]);
    held += body.data[2] ? 1 : -1;
  }
  void release_keys(InputClient& client) override {
    held -= static_cast<int>(client.keys.count());
    client.keys.reset();
  }
  void release_buttons(InputClient&) override {}
  void flush() override {}
  void interrupt() override {}
};

/// A thread whose failed checks are those of the test that joins it.
class Actor {
 public:
  template <typename Run>
  explicit Actor(Run run)
      : thread_([this, run]() mutable {
          try {
            run();
          } catch (const svc::test::Failed&) {
            failed_ = true;
          } catch (const Fault& fault) {
            std::printf("  %s\n", fault.what());
            failed_ = true;
          }
        }) {}
  ~Actor() {
    if (thread_.joinable()) thread_.join();
  }
  bool passed() {
    thread_.join();
    return !failed_;
  }

 private:
  bool failed_ = false;
  std::thread thread_;
};

struct Stage {
  std::shared_ptr<Plane> plane = std::make_shared<Plane>("::", 0);
  std::shared_ptr<Source> pictures[2] = {test_source(kMode), test_source(kOther)};
  std::shared_ptr<AudioSource> sounds[2] = {open_audio_source({.kind = "tone", .channels = 2}),
                                            open_audio_source({.kind = "tone", .channels = 2})};
  std::shared_ptr<NumberSink> sink = std::make_shared<NumberSink>();
  Stage() {
    plane->start();
    sink->start();
    for (const auto& sound : sounds) sound->start();
  }
  std::unique_ptr<Session> join(uint64_t id, int frame_ms, Heard& heard) {
    SessionConfig config = config_of(id, plane, pictures[0], kMode);
    config.sink = sink;
    config.audio = AudioConfig{2, frame_ms};
    config.audio_source = sounds[0];
    auto session = std::make_unique<Session>(config);
    session->start(heard.listener());
    return session;
  }
};

/// A client that does all that a client may, until it is time.
void watch(Client& client, const std::atomic<bool>& over) {
  uint32_t received = 0;
  for (int round = 0; !over; round++) {
    client.receive(5, 200'000);
    client.ping();
    client.report(received += 100, static_cast<uint32_t>(round) * 3, static_cast<uint32_t>(round) / 4);
    const uint8_t key = static_cast<uint8_t>(4 + round % 20);
    client.input(InputType::kKey, {0, key, static_cast<uint8_t>(round % 3 != 2)});
    client.input(InputType::kPointerTo, {0x40, 0, 0x40, static_cast<uint8_t>(round)});
    if (round % 4 == 1) client.ask_keyframe();
    if (round % 4 == 3) client.ask_refresh();
    if (round % 10 == 9) client.move();
  }
}

}  // namespace

TEST(sessions_that_share_picture_sound_and_input_stream_on_while_all_about_them_changes) {
  Stage stage;
  Heard heard[3];
  std::unique_ptr<Session> sessions[3];
  for (uint64_t i = 0; i < 3; i++) sessions[i] = stage.join(i + 1, i == 1 ? 5 : 10, heard[i]);
  std::atomic<bool> over{false};
  std::unique_ptr<Client> clients[3];
  for (uint64_t i = 0; i < 3; i++) clients[i] = std::make_unique<Client>(i + 1, stage.plane->port());
  {
    Actor first([&] { watch(*clients[0], over); });
    Actor second([&] { watch(*clients[1], over); });
    Actor third([&] { watch(*clients[2], over); });
    // As the JavaScript thread does: values are set and samples taken, and none of it waits.
    Actor sampler([&] {
      for (int i = 0; !over; i++) {
        for (const auto& session : sessions) {
          const Sample sample = session->sample();
          CHECK(sample.audio && sample.span_us >= 0);
          session->set_bitrate(1000 + i % 50 * 40);
          session->set_grants(i % 7 == 0 ? 0 : 7);
          session->request_keyframe();
        }
        usleep(5'000);
      }
    });
    // As calls of the thread pool do.
    Actor changer([&] {
      uint32_t generation = 1;
      for (int i = 0; !over; i++) {
        sessions[i % 2]->set_audio_source(i % 4 == 3 ? nullptr : stage.sounds[i % 2]);
        const bool other = i % 2 == 0;
        sessions[2]->resize(stage.pictures[other ? 1 : 0], other ? kOther : kMode, ++generation);
        usleep(150'000);
      }
      if (generation % 2 == 0) sessions[2]->resize(stage.pictures[0], kMode, ++generation);
    });
    // Somebody who comes and goes.
    Actor visitor([&] {
      for (uint64_t id = 100; !over; id++) {
        Heard mine;
        auto session = stage.join(id, 10, mine);
        Client client(id, stage.plane->port());
        client.ping();
        CHECK(client.receive(2) == 2);
        client.input(InputType::kKey, {0, 30, 1});
        if (id % 2) client.path(PathType::kBye, 0);
        session->close();
        CHECK(mine.streaming_ms >= 0);
      }
    });
    usleep(kRunUs);
    over = true;
    CHECK(changer.passed() && visitor.passed() && sampler.passed());
    CHECK(first.passed() && second.passed() && third.passed());
  }
  for (size_t i = 0; i < 3; i++) {
    CHECK(heard[i].ended == 0);
    CHECK(clients[i]->receive(3) == 3);
    CHECK(clients[i]->whole > 10);
    CHECK(clients[i]->audio_packets > 5);
    CHECK(clients[i]->wanted_event > 5);
  }
  CHECK(clients[2]->newest_generation > 2);
  CHECK(stage.sink->applied > 20);

  // One says goodbye, one is closed, and the source of the third ends under it.
  clients[0]->path(PathType::kBye, 0);
  Actor closer([&] { sessions[1]->close(); });
  stage.pictures[0]->stop();
  for (int i = 0; i < 300 && !(heard[0].ended && heard[2].ended); i++) usleep(10'000);
  CHECK(heard[0].ended == static_cast<int>(Ended::kPeerBye));
  CHECK(closer.passed());
  CHECK(heard[2].ended == static_cast<int>(Ended::kSourceLost));
  for (auto& session : sessions) session->close();
  CHECK(stage.sink->held == 0);
}

TEST(a_session_that_is_closed_before_it_starts_stays_closed) {
  Stage stage;
  Heard heard;
  Session session(config_of(1, stage.plane, stage.pictures[0], kMode));
  session.close();
  bool refused = false;
  try {
    session.start(heard.listener());
  } catch (const Fault& fault) {
    refused = fault.code == "closed";
  }
  CHECK(refused);
}

TEST(what_is_stopped_while_it_starts_has_ended) {
  for (int i = 0; i < 50; i++) {
    std::shared_ptr<Source> pictures = open_source({.kind = "test", .width = 64, .height = 64, .hz = 60});
    std::shared_ptr<AudioSource> sound = open_audio_source({.kind = "tone", .channels = 2});
    NumberSink sink;
    Plane plane("127.0.0.1", 0);
    Actor starter([&] {
      pictures->start([] {});
      sound->start();
      sink.start();
      plane.start();
    });
    pictures->stop();
    sound->stop();
    sink.stop();
    plane.stop();
    CHECK(starter.passed());
  }
}
