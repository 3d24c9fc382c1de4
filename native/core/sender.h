// The send thread of a session: empties its ring, in bursts that a small queue on the way can hold.
#pragma once
#include <atomic>
#include <functional>
#include <thread>

#include "histogram.h"
#include "packet_ring.h"
#include "peer.h"
#include "wake_signal.h"
#include "socket.h"

namespace svc {

/// What was sent, since the session began.
struct SendCounters {
  std::atomic<uint64_t> packets{0};
  std::atomic<uint64_t> wire_bytes{0};
  std::atomic<uint64_t> payload_bytes{0};
  std::atomic<uint64_t> parity_packets{0};
  std::atomic<uint64_t> dropped{0};
};

/// Packets that leave at once, before the rest of a large frame is spread out.
constexpr int kBurstPackets = 16;
/// What is sent beyond a burst, for a bitrate, and the rate at which datagrams were seen to arrive (0: not
/// known).
int pace_kbps(int bitrate_kbps, uint32_t path_kbps);

class Sender {
 public:
  Sender(UdpSocket& socket, Peer& peer, PacketRing& ring) : socket_(socket), peer_(peer), ring_(ring) {}

  /// Both are called from the send thread.
  struct Listener {
    /// Once, after the first packet.
    std::function<void()> on_first;
    /// Some times after the last packet of a frame that no other follows.
    std::function<void(uint32_t frame)> on_tail;
  };
  void start(Listener listener);
  /// Sends nothing more and waits for the thread; may be called again.
  void stop();
  void notify() { signal_.notify(); }
  /// Size of a datagram that did not pass since the last call, or 0.
  size_t take_too_long() { return too_long_.exchange(0, std::memory_order_relaxed); }
  void set_bitrate(int kbps) { bitrate_kbps_.store(kbps, std::memory_order_relaxed); }
  int pace() const {
    return pace_kbps(bitrate_kbps_.load(std::memory_order_relaxed),
                     path_kbps_.load(std::memory_order_relaxed));
  }
  void set_path_rate(uint32_t kbps) { path_kbps_.store(kbps, std::memory_order_relaxed); }
  /// The newest frame of which all packets have left, or -1.
  int64_t newest_frame() const { return newest_frame_.load(std::memory_order_relaxed); }

  SendCounters counters;
  /// Ready until sent, of each packet that ends a frame; and picture taken until then.
  Histogram send_us;
  Histogram host_us;

 private:
  void run();
  /// Microseconds until `on_tail` is due, after calling it if it is due now; below 0: never.
  int64_t tell_tail();

  UdpSocket& socket_;
  Peer& peer_;
  PacketRing& ring_;
  Signal signal_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> bitrate_kbps_{0};
  std::atomic<uint32_t> path_kbps_{0};
  std::atomic<size_t> too_long_{0};
  std::atomic<int64_t> newest_frame_{-1};
  Listener listener_;
  std::thread thread_;

  // The thread's own.
  int64_t tail_us_ = 0;
  int tails_told_ = 0;
};

}  // namespace svc
