// The UDP socket of a plane: dual stack, big buffers, segmentation offload where the kernel has it.
#pragma once
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "packet_ring.h"
#include "peer.h"

namespace svc {

enum class Sent { kYes, kNo, kTooLong };

class UdpSocket {
 public:
  /// Throws `Fault` with stage `socket`.
  UdpSocket(const std::string& address, uint16_t port);
  ~UdpSocket();
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  int fd() const { return fd_; }
  uint16_t port() const { return port_; }
  bool is_ipv6() const { return ipv6_; }

  /// Sends one datagram now or not at all; never in fragments.
  Sent send(const Address& to, const uint8_t* data, size_t bytes);
  /// Sends the `count` next packets of the ring (64 at most) with as few calls as possible; gives how many
  /// went out.
  /// `too_long` becomes the size of one that the way out does not take, where there was one.
  int send_packets(const Address& to, PacketRing& ring, int count, size_t& too_long);

 private:
  int fd_ = -1;
  uint16_t port_ = 0;
  bool ipv6_ = false;
  std::atomic<bool> can_segment_{true};
};

/// Room for the control message that names our own address, and one for the segment size.
struct ControlRoom {
  alignas(cmsghdr) uint8_t bytes[CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
};
/// Fills `message` so that it goes to `to`; with `segment_bytes` above 0 the kernel cuts it into such pieces.
void address_message(msghdr& message, ControlRoom& room, Address& to, bool ipv6, uint16_t segment_bytes);
/// The control message of a received datagram that tells which of our addresses it came to.
void read_local_address(msghdr& message, Address& into);

}  // namespace svc
