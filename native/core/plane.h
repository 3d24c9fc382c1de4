// One UDP socket and its receive thread: gives each datagram to the session that it names, and answers nobody
// else.
#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "datagram.h"
#include "socket.h"

namespace svc {

/// The receiving half of a session; called by the plane's thread alone.
class Receiver {
 public:
  /// False when the datagram is not authentic, was seen before, or is of another epoch.
  virtual bool receive(const Header& header, uint8_t* datagram, size_t bytes, const Address& from,
                       int64_t now) = 0;
  /// Some ten times a second.
  virtual void tick(int64_t now) = 0;

 protected:
  ~Receiver() = default;
};

class Plane {
 public:
  Plane(const std::string& address, uint16_t port);
  ~Plane();

  void start();
  /// Receives nothing more and waits for the thread; may be called again.
  void stop();

  UdpSocket& socket() { return socket_; }
  uint16_t port() const { return socket_.port(); }
  uint64_t received() const { return received_.load(std::memory_order_relaxed); }
  uint64_t rejected() const { return rejected_.load(std::memory_order_relaxed); }

  /// False when there is a session of this id already.
  bool add(uint64_t session, Receiver& receiver);
  /// After this returns the receiver is not called again.
  void remove(uint64_t session);

 private:
  void run();
  /// How many datagrams were waiting, at most one batch of them.
  int drain();
  bool dispatch(uint8_t* datagram, size_t bytes, const Address& from, int64_t now);

  UdpSocket socket_;
  int wake_fd_ = -1;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> received_{0};
  std::atomic<uint64_t> rejected_{0};
  std::mutex lock_;
  std::unordered_map<uint64_t, Receiver*> sessions_;
  std::mutex join_lock_;
  std::thread thread_;
};

}  // namespace svc
