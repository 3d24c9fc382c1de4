// The send thread of a session: empties its ring, in bursts that a small switch can hold.
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

class Sender {
 public:
  Sender(UdpSocket& socket, Peer& peer, PacketRing& ring) : socket_(socket), peer_(peer), ring_(ring) {}

  /// `on_first` is called once, from the send thread, after the first packet.
  void start(std::function<void()> on_first);
  /// Sends nothing more and waits for the thread; may be called again.
  void stop();
  void notify() { signal_.notify(); }
  /// Size of a datagram that did not pass since the last call, or 0.
  size_t take_too_long() { return too_long_.exchange(0, std::memory_order_relaxed); }
  void set_bitrate(int kbps) { bitrate_kbps_.store(kbps, std::memory_order_relaxed); }

  SendCounters counters;
  /// Ready until sent, of each packet that ends a frame; and picture taken until then.
  Histogram send_us;
  Histogram host_us;

 private:
  void run();

  UdpSocket& socket_;
  Peer& peer_;
  PacketRing& ring_;
  Signal signal_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> bitrate_kbps_{0};
  std::atomic<size_t> too_long_{0};
  std::function<void()> on_first_;
  std::thread thread_;
};

}  // namespace svc
