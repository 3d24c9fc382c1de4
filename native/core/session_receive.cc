// What a session's client sends: opened, checked against replay, and read; all of it on the plane's receive
// thread.
#include <algorithm>

#include "path.h"
#include "session.h"

namespace svc {

bool Session::receive(const Header& header, uint8_t* datagram, size_t bytes, const Address& from,
                      int64_t now) {
  const bool is_path = header.stream == Stream::kPath;
  if (!is_path && header.stream != Stream::kInput) return false;
  if (header.epoch != static_cast<uint8_t>(config_.epoch) || ended_.load(std::memory_order_acquire))
    return false;
  ReplayWindow& window = is_path ? path_window_ : input_window_;
  if (!window.fresh(header.counter)) return false;
  if (!(is_path ? path_in_ : input_in_).open(datagram, bytes, header.counter)) return false;
  const bool newest = window.accept(header.counter);
  heard_us_ = now;
  if (is_path && newest) {
    const bool first = !peer_.is_known();
    if (peer_.learn(from)) {
      // What went to the old address is lost, and on a still screen nothing follows that would show it.
      if (!first) keyframe_wanted_.store(true, std::memory_order_release);
      signal_.notify();
    }
  }
  const View payload{datagram + kHeaderBytes, bytes - kHeaderBytes - kTagBytes};
  if (is_path) {
    on_path(payload, bytes, now);
  } else {
    on_input(payload);
  }
  return true;
}

void Session::tick(int64_t now) {
  if (now - heard_us_ > config_.idle_timeout_us) end(Ended::kPeerGone);
  if (!peer_.is_known()) return;
  Address to;
  uint32_t version = 0;
  peer_.read(to, version);
  probe(to, now);
}

void Session::on_path(View payload, size_t datagram_bytes, int64_t now) {
  uint8_t answer[PathWriter::kRoom];
  PathWriter writer(answer);
  bool answered = false;
  bool bye = false;
  read_path(payload, [&](PathType type, View body) {
    switch (type) {
      case PathType::kPing:
        // One answer for each datagram: a client cannot make the host send more than it sent itself.
        if (!body.has(12) || answered) break;
        answered = true;
        {
          uint8_t* pong = writer.add(PathType::kPong, 28);
          std::copy_n(body.data, 12, pong);
          put64(pong + 12, static_cast<uint64_t>(now));
          put64(pong + 20, static_cast<uint64_t>(now_us()));
        }
        if (const int64_t frame = sender_.newest_frame(); frame >= 0) {
          put32(writer.add(PathType::kSent, 4), static_cast<uint32_t>(frame));
        }
        break;
      case PathType::kFeedback:
        if (!body.has(28)) break;
        lost_.store(get32(body.data + 8), std::memory_order_relaxed);
        recovered_.store(get32(body.data + 12), std::memory_order_relaxed);
        frames_lost_.store(get32(body.data + 16), std::memory_order_relaxed);
        audio_lost_.store(get32(body.data + 20), std::memory_order_relaxed);
        has_feedback_.store(true, std::memory_order_release);
        on_feedback(body, now);
        break;
      case PathType::kRequest:
        on_request(body);
        break;
      case PathType::kProbe:
        if (!body.has(4) || answered) break;
        answered = true;
        {
          uint8_t* ack = writer.add(PathType::kProbeAck, 6);
          std::copy_n(body.data, 4, ack);
          put16(ack + 4, static_cast<uint16_t>(datagram_bytes));
        }
        break;
      case PathType::kProbeAck:
        if (!body.has(4)) break;
        if (const int64_t rtt_us = probe_.acked(get32(body.data), now); rtt_us > 0) {
          rtt_us_.store(static_cast<uint32_t>(rtt_us), std::memory_order_relaxed);
          datagram_bytes_.store(probe_.bytes(), std::memory_order_relaxed);
        }
        break;
      case PathType::kBye:
        bye = true;
        break;
      default:
        break;
    }
  });
  if (bye) return end(Ended::kPeerBye);
  // Answers go where the newest path datagram came from, even to an old one that arrives late.
  Address to;
  uint32_t version = 0;
  peer_.read(to, version);
  if (to.remote_bytes == 0) return;
  if (answered) send_path(to, answer, writer.bytes());
  probe(to, now);
}

void Session::on_input(View payload) {
  read_input(payload, [this](uint32_t number, InputType type, View body) {
    // Numbers go round; what lies behind the wanted one was applied before.
    const auto distance = static_cast<int32_t>(number - input_next_);
    if (distance < 0) return true;
    if (distance > 0) return false;
    if (!config_.sink) {
      input_dropped_.fetch_add(1, std::memory_order_relaxed);
    } else if (!config_.sink->push(*input_, type, body)) {
      // The queue is full: not taken, so the client will send it again.
      return false;
    }
    input_next_++;
    return true;
  });
  if (!peer_.is_known()) return;
  Address to;
  uint32_t version = 0;
  peer_.read(to, version);
  uint8_t answer[PathWriter::kRoom];
  PathWriter writer(answer);
  put32(writer.add(PathType::kInputAck, 4), input_next_);
  send_path(to, answer, writer.bytes());
}

bool Session::send_path(const Address& to, const uint8_t* payload, size_t bytes) {
  uint8_t datagram[kMaxDatagramBytes];
  const std::lock_guard held(path_lock_);
  write_header(datagram, {Stream::kPath, static_cast<uint8_t>(config_.epoch), config_.id, path_counter_});
  std::copy_n(payload, bytes, datagram + kHeaderBytes);
  if (!path_out_.seal(datagram, bytes, path_counter_++)) return true;
  return config_.plane->socket().send(to, datagram, kHeaderBytes + bytes + kTagBytes) != Sent::kTooLong;
}

}  // namespace svc
