// A client of the media plane for the tests of the pipeline, and sessions whose keys it knows.
#pragma once
#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>

#include "audio_packetizer.h"
#include "core_test.h"
#include "datagram.h"
#include "path.h"
#include "session.h"

namespace svc::test {

inline MediaKey key(uint8_t seed) {
  MediaKey made;
  made.fill(seed);
  return made;
}

inline SessionConfig config_of(uint64_t id, std::shared_ptr<Plane> plane, std::shared_ptr<Source> source,
                               Mode mode) {
  return {.id = id,
          .epoch = 1,
          .generation = 1,
          .keys = {key(1), key(2), key(3), key(4), key(5)},
          .plane = std::move(plane),
          .source = std::move(source),
          .sink = nullptr,
          .mode = mode,
          .codec = "h264",
          .bitrate_kbps = 2000,
          .grants = 7,
          .max_datagram_bytes = 1400,
          .idle_timeout_us = 8'000'000,
          .fec_percent = 20};
}

inline std::shared_ptr<Source> test_source(Mode mode) {
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

/// What a session told of itself; outlives the session.
struct Heard {
  std::atomic<int> ended{0};
  std::atomic<double> streaming_ms{-1};
  Session::Listener listener() {
    return {[this](Ended why) { ended = static_cast<int>(why); }, [this](double ms) { streaming_ms = ms; }};
  }
};

/// Proves its address, says what a client says, and puts together what comes. One thread's own.
class Client {
 public:
  Client(uint64_t session, uint16_t port)
      : session_(session),
        port_(port),
        path_out_(key(5), true),
        input_out_(key(4), true),
        video_in_(key(1), false),
        audio_in_(key(2), false),
        path_in_(key(3), false) {
    move();
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Goes on from another address.
  void move() {
    if (fd_ >= 0) close(fd_);
    fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const timeval limit{0, 20'000};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  }

  /// One path message; what `body` does not fill is zero.
  void path(PathType type, size_t body_bytes, View body = {}) {
    uint8_t payload[PathWriter::kRoom]{};
    PathWriter writer(payload);
    uint8_t* at = writer.add(type, static_cast<uint16_t>(body_bytes));
    if (body.bytes > 0) std::memcpy(at, body.data, body.bytes);
    sends(Stream::kPath, path_out_, path_counter_, {payload, writer.bytes()});
  }
  void ping() { path(PathType::kPing, 12); }
  void ask_keyframe() {
    const uint8_t body[5] = {1};
    path(PathType::kRequest, 5, {body, 5});
  }
  /// The frame after the newest one is missing.
  void ask_refresh() {
    uint8_t body[9] = {2};
    put32(body + 5, newest_frame);
    path(PathType::kRequest, 9, {body, 9});
  }
  void report(uint32_t received, uint32_t lost, uint32_t frames_lost) {
    uint8_t body[28]{};
    put32(body + 4, received);
    put32(body + 8, lost);
    put32(body + 16, frames_lost);
    path(PathType::kFeedback, 28, {body, 28});
  }
  /// One event; numbered on from the one before.
  void input(InputType type, std::initializer_list<uint8_t> body) {
    uint8_t payload[64];
    put32(payload, next_event++);
    payload[4] = 1;
    payload[5] = static_cast<uint8_t>(type);
    payload[6] = static_cast<uint8_t>(body.size());
    std::copy(body.begin(), body.end(), payload + 7);
    sends(Stream::kInput, input_out_, input_counter_, {payload, 7 + body.size()});
  }

  /// Receives until so many more frames have come whole, or the time has gone, which is long even under a
  /// sanitizer on a busy machine; gives how many came.
  size_t receive(size_t frames, int64_t within_us = 8'000'000) {
    const size_t before = whole;
    for (const int64_t until = now_us() + within_us; now_us() < until && whole - before < frames;) {
      uint8_t datagram[2048];
      const ssize_t bytes = recv(fd_, datagram, sizeof datagram, 0);
      if (bytes < 0) {
        ping();
        continue;
      }
      take(datagram, static_cast<size_t>(bytes));
    }
    return whole - before;
  }

  size_t whole = 0;
  size_t audio_packets = 0;
  uint32_t newest_frame = 0;
  uint8_t newest_generation = 0;
  uint32_t next_event = 0;
  /// Number of the event that the host wants next.
  uint32_t wanted_event = 0;
  bool heard_bye = false;

 private:
  struct Frame {
    /// Shards that are missing, by block.
    std::map<uint8_t, int> missing;
    int blocks = -1;
    bool done = false;
  };

  void sends(Stream stream, Cipher& cipher, uint64_t& counter, View payload) {
    uint8_t datagram[512];
    write_header(datagram, {stream, 1, session_, counter});
    std::memcpy(datagram + kHeaderBytes, payload.data, payload.bytes);
    CHECK(cipher.seal(datagram, payload.bytes, counter++));
    CHECK(send(fd_, datagram, kHeaderBytes + payload.bytes + kTagBytes, 0) > 0);
  }

  void take(uint8_t* datagram, size_t bytes) {
    const auto header = read_header({datagram, bytes});
    CHECK(header && header->session == session_ && header->epoch == 1);
    Cipher& opens = header->stream == Stream::kVideo   ? video_in_
                    : header->stream == Stream::kAudio ? audio_in_
                                                       : path_in_;
    CHECK(opens.open(datagram, bytes, header->counter));
    const View payload = View{datagram, bytes - kTagBytes}.from(kHeaderBytes);
    if (header->stream == Stream::kVideo) return take_shard(payload.data);
    if (header->stream == Stream::kAudio) {
      // Parity has an index of at least the number of packets.
      if (payload.data[4] < payload.data[5]) audio_packets++;
      return;
    }
    read_path(payload, [this](PathType type, View body) {
      if (type == PathType::kProbe) path(PathType::kProbeAck, 6, body.first(4));
      if (type == PathType::kInputAck) wanted_event = get32(body.data);
      if (type == PathType::kBye) heard_bye = true;
    });
  }

  void take_shard(const uint8_t* at) {
    const uint32_t number = get32(at);
    newest_frame = std::max(newest_frame, number);
    newest_generation = at[9];
    Frame& frame = frames_[number];
    // What comes after the k that were enough adds nothing.
    if (frame.done) return;
    if (at[5] & kLastBlock) frame.blocks = at[4] + 1;
    // Any k shards of a block are as good as the k of data.
    frame.missing.try_emplace(at[4], at[7]).first->second--;
    if (frame.blocks != static_cast<int>(frame.missing.size())) return;
    for (const auto& [block, missing] : frame.missing) {
      if (missing > 0) return;
    }
    whole++;
    frame.done = true;
    if (frames_.size() > 64) frames_.erase(frames_.begin());
  }

  uint64_t session_;
  uint16_t port_;
  int fd_ = -1;
  Cipher path_out_;
  Cipher input_out_;
  Cipher video_in_;
  Cipher audio_in_;
  Cipher path_in_;
  uint64_t path_counter_ = 0;
  uint64_t input_counter_ = 0;
  std::map<uint32_t, Frame> frames_;
};

}  // namespace svc::test
