// Where a session's datagrams go: learned by the receive thread, read by those that send.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <mutex>

namespace svc {

struct Address {
  sockaddr_storage remote{};
  socklen_t remote_bytes = 0;
  /// The address of ours that the client wrote to: it must hear from that one, not from another that we have.
  in6_pktinfo local6{};
  in_pktinfo local4{};
  bool has_local = false;
};

class Peer {
 public:
  /// Whether the client has proven an address; nothing is sent before.
  bool is_known() const { return version_.load(std::memory_order_acquire) != 0; }

  /// True when the address is another one than before.
  bool learn(const Address& address) {
    const std::lock_guard held(lock_);
    const bool known = version_.load(std::memory_order_relaxed) != 0;
    if (known && same(address, address_)) return false;
    address_ = address;
    version_.fetch_add(1, std::memory_order_release);
    return true;
  }

  /// Copies the address if it changed since `version`, which it updates.
  void read(Address& into, uint32_t& version) {
    if (version == version_.load(std::memory_order_acquire)) return;
    const std::lock_guard held(lock_);
    into = address_;
    version = version_.load(std::memory_order_relaxed);
  }

 private:
  static bool same(const Address& a, const Address& b);
  std::mutex lock_;
  Address address_;
  std::atomic<uint32_t> version_{0};
};

}  // namespace svc
