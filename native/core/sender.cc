// The send thread of a session: frames of ordinary size leave at once, larger ones are spread out.
#include "sender.h"

#include <algorithm>

#include "clock.h"
#include "thread.h"

namespace svc {

namespace {
// A burst of this many packets (some 45 KB) is what cheap switches and Wi-Fi queues take without loss.
constexpr double kBurstPackets = 32;
// Beyond it: eight times the bitrate, so that a frame of twice the mean size still takes a quarter of its
// interval.
constexpr double kPaceOverBitrate = 8;
constexpr double kSlowestPaceKbps = 100'000;
// Waking for less than this costs more than it smooths.
constexpr double kLeastPackets = 8;
}  // namespace

void Sender::start(std::function<void()> on_first) {
  on_first_ = std::move(on_first);
  thread_ = start_thread("svc-send", Urgency::kRealtime, [this] { run(); });
}

void Sender::stop() {
  stopping_.store(true, std::memory_order_release);
  signal_.notify();
  if (thread_.joinable()) thread_.join();
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
      signal_.wait(seen, -1);
      continue;
    }
    const double pace_kbps =
        std::max(kSlowestPaceKbps, kPaceOverBitrate * bitrate_kbps_.load(std::memory_order_relaxed));
    const double per_us = pace_kbps * 1e-3 / 8 / kMaxDatagramBytes;
    const int64_t now = now_us();
    allowance = std::min(kBurstPackets, allowance + static_cast<double>(now - refilled) * per_us);
    refilled = now;
    const double wanted = std::min(kLeastPackets, static_cast<double>(waiting));
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
      on_first_();
    }
  }
}

}  // namespace svc
