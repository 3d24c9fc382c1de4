// One session's and two sessions' whole pipeline on loopback, without JavaScript.
#include <thread>

#include "pipeline_test.h"

using namespace svc;
using svc::test::Client;
using svc::test::Heard;
using svc::test::test_source;

namespace {

constexpr Mode kMode{320, 240, 60};

SessionConfig config_of(uint64_t id, std::shared_ptr<Plane> plane, std::shared_ptr<Source> source) {
  return svc::test::config_of(id, std::move(plane), std::move(source), kMode);
}

}  // namespace

TEST(two_sessions_share_a_source_and_are_resized_sampled_and_closed) {
  auto plane = std::make_shared<Plane>("::", 0);
  plane->start();
  auto source = test_source(kMode);
  Heard heard[2];
  std::unique_ptr<Session> sessions[2];
  for (uint64_t i = 0; i < 2; i++) {
    sessions[i] = std::make_unique<Session>(config_of(i + 1, plane, source));
    sessions[i]->start(heard[i].listener());
  }
  Client first(1, plane->port());
  Client second(2, plane->port());
  first.ping();
  CHECK(first.receive(10) == 10);
  second.ping();
  CHECK(second.receive(10) == 10);
  CHECK(heard[0].streaming_ms >= 0 && heard[1].streaming_ms >= 0);

  auto larger = test_source({640, 480, 30});
  std::thread sampler([&] {
    for (int i = 0; i < 200; i++) {
      sessions[0]->sample();
      sessions[0]->request_keyframe();
      sessions[0]->set_bitrate(1000 + i);
      sessions[0]->set_grants(static_cast<uint32_t>(i));
    }
  });
  sessions[0]->resize(larger, {640, 480, 30}, 2);
  sampler.join();
  CHECK(first.receive(40) > 5);
  CHECK(first.newest_generation == 2);
  CHECK(second.receive(10) == 10);

  second.path(PathType::kBye, 0);
  for (int i = 0; i < 100 && !heard[1].ended; i++) usleep(10'000);
  CHECK(heard[1].ended == static_cast<int>(Ended::kPeerBye));
  for (auto& session : sessions) session->close();
  CHECK(heard[0].ended == static_cast<int>(Ended::kStopped));
  larger->stop();
  source->stop();
  plane->stop();
}

TEST(nothing_is_sent_before_a_client_has_proven_its_address) {
  auto plane = std::make_shared<Plane>("127.0.0.1", 0);
  plane->start();
  auto source = test_source(kMode);
  Heard heard;
  Session session(config_of(9, plane, source));
  session.start(heard.listener());
  usleep(200'000);
  CHECK(session.sample().packets_sent == 0);
  Client client(9, plane->port());
  client.ping();
  CHECK(client.receive(3) == 3);
  session.close();
  source->stop();
}

TEST(a_client_that_falls_silent_is_gone_and_a_lost_source_ends_the_session) {
  auto plane = std::make_shared<Plane>("::", 0);
  plane->start();
  auto source = test_source(kMode);
  Heard silent;
  Heard lost;
  SessionConfig impatient = config_of(1, plane, source);
  impatient.idle_timeout_us = 1'000'000;
  Session gone(impatient);
  gone.start(silent.listener());
  auto other = test_source(kMode);
  Session watching(config_of(2, plane, other));
  watching.start(lost.listener());
  Client client(2, plane->port());
  client.ping();
  CHECK(client.receive(3) == 3);
  other->stop();
  for (int i = 0; i < 200 && !(silent.ended && lost.ended); i++) usleep(10'000);
  CHECK(silent.ended == static_cast<int>(Ended::kPeerGone));
  CHECK(lost.ended == static_cast<int>(Ended::kSourceLost));
}

TEST(pipelines_open_and_close_again_and_again) {
  auto plane = std::make_shared<Plane>("::", 0);
  plane->start();
  for (int i = 0; i < 20; i++) {
    auto source = test_source(kMode);
    Heard heard;
    Session session(config_of(7, plane, source));
    session.start(heard.listener());
    Client client(7, plane->port());
    client.ping();
    if (i % 2) CHECK(client.receive(2) == 2);
    if (i % 3 == 0) source->stop();
    session.close();
  }
}
