// The send thread of a session: frames of ordinary size leave at once, larger ones are spread out.
#include "sender.h"

#include <algorithm>
#include <iterator>

#include "clock.h"
#include "thread.h"

namespace svc {

namespace {
// Beyond a burst, while nothing is known of the path: two and a half times the bitrate. The largest frame,
// which the encoder's buffer bounds at two mean ones, is then spread over four fifths of its interval.
// Measured with keyframes of 60 to 100 packets at 16 Mbit/s through a queue of 64 KiB in front of 20 and 30
// Mbit/s: at eight times the bitrate after 32 packets 443 and 39 packets were lost in six seconds, now 0
// and 1.
constexpr double kPaceOverBitrate = 2.5;
constexpr double kLeastPaceKbps = 10'000;
// Where the path was measured: as fast as it goes, as nothing arrives sooner by standing in a queue. A tenth
// more, or what was measured would be what was sent; and never so slow that frames would pile up here.
constexpr double kPaceOverPath = 1.1;
constexpr double kLeastOverBitrate = 1.5;
constexpr int kMostPaceKbps = 1'000'000;
// A burst a millisecond: waking for less costs more than it smooths.
constexpr double kWakeUs = 1000;
constexpr double kMostAtOnce = 8;
// After the last packet of a frame: more than the pause of a game of 60 Hz, then twice more, should it be
// lost.
constexpr int64_t kTailUs[] = {20'000, 40'000, 80'000};
}  // namespace

int pace_kbps(int bitrate_kbps, uint32_t path_kbps) {
  const double pace = path_kbps == 0 ? std::max(kLeastPaceKbps, kPaceOverBitrate * bitrate_kbps)
                                     : std::max(kPaceOverPath * path_kbps, kLeastOverBitrate * bitrate_kbps);
  return static_cast<int>(std::clamp<double>(pace, 1, kMostPaceKbps));
}

void Sender::start(Listener listener) {
  listener_ = std::move(listener);
  thread_ = start_thread("svc-send", Urgency::kRealtime, [this] { run(); });
}

void Sender::stop() {
  stopping_.store(true, std::memory_order_release);
  signal_.notify();
  if (thread_.joinable()) thread_.join();
}

int64_t Sender::tell_tail() {
  if (newest_frame() < 0 || tails_told_ == std::ssize(kTailUs)) return -1;
  const int64_t left = tail_us_ + kTailUs[tails_told_] - now_us();
  if (left > 0) return left;
  tails_told_++;
  listener_.on_tail(static_cast<uint32_t>(newest_frame()));
  return tell_tail();
}

void Sender::run() {
  Address to;
  uint32_t to_version = 0;
  bool sent_any = false;
  double allowance = kBurstPackets;
  int64_t refilled = now_us();
  while (true) {
    const uint32_t seen = signal_.current();
    if (stopping_.load(std::memory_order_acquire)) return;
    const uint64_t waiting = ring_.waiting();
    if (waiting == 0) {
      const int64_t tail_us = tell_tail();
      if (tail_us != 0) signal_.wait(seen, tail_us);
      continue;
    }
    const double per_us = pace() * 1e-3 / 8 / kMaxDatagramBytes;
    const int64_t now = now_us();
    allowance = std::min<double>(kBurstPackets, allowance + static_cast<double>(now - refilled) * per_us);
    refilled = now;
    const double wanted =
        std::min(std::clamp(per_us * kWakeUs, 1.0, kMostAtOnce), static_cast<double>(waiting));
    if (allowance < wanted) {
      signal_.wait(seen, static_cast<int64_t>((wanted - allowance) / per_us) + 1);
      continue;
    }
    const int count = static_cast<int>(std::min<double>(static_cast<double>(waiting), allowance));
    peer_.read(to, to_version);
    size_t too_long = 0;
    const int sent = socket_.send_packets(to, ring_, count, too_long);
    if (too_long != 0) too_long_.store(too_long, std::memory_order_relaxed);
    allowance -= count;
    const int64_t done = now_us();
    uint64_t wire = 0;
    uint64_t payload = 0;
    uint64_t parity = 0;
    for (int i = 0; i < count; i++) {
      const Packet& packet = ring_.peek(static_cast<uint64_t>(i));
      wire += packet.bytes;
      payload += packet.payload_bytes;
      parity += packet.is_parity ? 1 : 0;
      if (!packet.last_of_frame) continue;
      newest_frame_.store(packet.frame, std::memory_order_relaxed);
      tail_us_ = done;
      tails_told_ = 0;
      send_us.add(done - packet.ready_us);
      host_us.add(done - packet.capture_us);
    }
    ring_.release(static_cast<uint64_t>(count));
    counters.packets.fetch_add(static_cast<uint64_t>(count), std::memory_order_relaxed);
    counters.wire_bytes.fetch_add(wire, std::memory_order_relaxed);
    counters.payload_bytes.fetch_add(payload, std::memory_order_relaxed);
    counters.parity_packets.fetch_add(parity, std::memory_order_relaxed);
    counters.dropped.fetch_add(static_cast<uint64_t>(count - sent), std::memory_order_relaxed);
    if (!sent_any && sent > 0) {
      sent_any = true;
      listener_.on_first();
    }
  }
}

}  // namespace svc
