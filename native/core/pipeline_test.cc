// The whole pipeline on loopback without JavaScript: what the thread sanitizer is to see.
#include <arpa/inet.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>

#include "core_test.h"
#include "datagram.h"
#include "path.h"
#include "session.h"

using namespace svc;

namespace {

constexpr Mode kMode{320, 240, 60};

MediaKey key(uint8_t seed) {
  MediaKey made;
  made.fill(seed);
  return made;
}

SessionConfig config_of(uint64_t id, std::shared_ptr<Plane> plane, std::shared_ptr<Source> source,
                        int64_t idle_us = 8'000'000) {
  return {.id = id,
          .epoch = 1,
          .generation = 1,
          .keys = {key(1), key(2), key(3), key(4), key(5)},
          .plane = std::move(plane),
          .source = std::move(source),
          .sink = nullptr,
          .mode = kMode,
          .codec = "h264",
          .bitrate_kbps = 2000,
          .grants = 7,
          .max_datagram_bytes = 1400,
          .idle_timeout_us = idle_us,
          .fec_percent = 20};
}

/// A client's socket: proves its address, counts what comes.
class Client {
 public:
  Client(uint64_t session, uint16_t port) : session_(session), cipher_(key(5), true) {
    fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const timeval limit{0, 20'000};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to);
  }
  ~Client() { close(fd_); }

  void path(PathType type, uint16_t body_bytes) {
    uint8_t datagram[128]{};
    PathWriter writer(datagram + kHeaderBytes);
    std::memset(writer.add(type, body_bytes), type == PathType::kRequest ? 1 : 0, body_bytes);
    write_header(datagram, {Stream::kPath, 1, session_, counter_});
    cipher_.seal(datagram, writer.bytes(), counter_++);
    CHECK(send(fd_, datagram, kHeaderBytes + writer.bytes() + kTagBytes, 0) > 0);
  }
  /// Receives until `frames` distinct frames were begun or two seconds have gone.
  size_t receive(size_t frames) {
    std::map<uint32_t, int> seen;
    Cipher opens(key(1), false);
    for (int64_t until = now_us() + 2'000'000; now_us() < until && seen.size() < frames;) {
      uint8_t datagram[2048];
      const ssize_t bytes = recv(fd_, datagram, sizeof datagram, 0);
      if (bytes < 0) {
        path(PathType::kPing, 12);
        continue;
      }
      const auto header = read_header({datagram, static_cast<size_t>(bytes)});
      CHECK(header && header->session == session_);
      if (header->stream != Stream::kVideo) continue;
      CHECK(opens.open(datagram, static_cast<size_t>(bytes), header->counter));
      seen[get32(datagram + kHeaderBytes)]++;
      newest_generation = datagram[kHeaderBytes + 9];
    }
    return seen.size();
  }
  uint8_t newest_generation = 0;

 private:
  int fd_;
  uint64_t session_;
  Cipher cipher_;
  uint64_t counter_ = 0;
};

std::shared_ptr<Source> test_source(Mode mode) {
  std::shared_ptr<Source> source = open_source({.kind = "test",
                                                .display = "",
                                                .xauthority = "",
                                                .cursor = false,
                                                .width = mode.width,
                                                .height = mode.height,
                                                .hz = mode.hz});
  source->start([] {});
  return source;
}

struct Heard {
  std::atomic<int> ended{0};
  std::atomic<double> streaming_ms{-1};
  Session::Listener listener() {
    return {[this](Ended why) { ended = static_cast<int>(why); }, [this](double ms) { streaming_ms = ms; }};
  }
};

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
  first.path(PathType::kPing, 12);
  CHECK(first.receive(10) == 10);
  second.path(PathType::kPing, 12);
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
  client.path(PathType::kPing, 12);
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
  Session gone(config_of(1, plane, source, 1'000'000));
  gone.start(silent.listener());
  auto other = test_source(kMode);
  Session watching(config_of(2, plane, other));
  watching.start(lost.listener());
  Client client(2, plane->port());
  client.path(PathType::kPing, 12);
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
    client.path(PathType::kPing, 12);
    if (i % 2) CHECK(client.receive(2) == 2);
    if (i % 3 == 0) source->stop();
    session.close();
  }
}
