// The UDP socket of a plane, and sending through it in bulk.
#include "socket.h"

#include <arpa/inet.h>
#include <netinet/udp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fault.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

namespace svc {

namespace {

constexpr int kBufferBytes = 8 << 20;
// The kernel's own limits of one segmented send.
constexpr int kMaxSegments = 44;
constexpr size_t kMaxSegmentedBytes = 64'000;

void enlarge(int fd, int force_option, int option) {
  if (setsockopt(fd, SOL_SOCKET, force_option, &kBufferBytes, sizeof kBufferBytes) == 0) return;
  setsockopt(fd, SOL_SOCKET, option, &kBufferBytes, sizeof kBufferBytes);
}

}  // namespace

bool Peer::same(const Address& a, const Address& b) {
  return a.remote_bytes == b.remote_bytes && std::memcmp(&a.remote, &b.remote, a.remote_bytes) == 0 &&
         a.has_local == b.has_local && std::memcmp(&a.local6, &b.local6, sizeof a.local6) == 0 &&
         std::memcmp(&a.local4, &b.local4, sizeof a.local4) == 0;
}

UdpSocket::UdpSocket(const std::string& address, uint16_t port) {
  sockaddr_storage at{};
  auto* at6 = reinterpret_cast<sockaddr_in6*>(&at);
  auto* at4 = reinterpret_cast<sockaddr_in*>(&at);
  socklen_t at_bytes = 0;
  if (inet_pton(AF_INET6, address.c_str(), &at6->sin6_addr) == 1) {
    fd_ = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ipv6_ = fd_ >= 0;
    at6->sin6_family = AF_INET6;
    at6->sin6_port = htons(port);
    at_bytes = sizeof *at6;
  } else if (inet_pton(AF_INET, address.c_str(), &at4->sin_addr) != 1) {
    throw Fault("socket", "bad-address", address + " is no IP address");
  }
  // A machine without IPv6 serves IPv4 alone, unless it was asked for one IPv6 address.
  if (fd_ < 0 && (at_bytes == 0 || address == "::")) {
    const in_addr wanted = at_bytes == 0 ? at4->sin_addr : in_addr{INADDR_ANY};
    at = {};
    at4->sin_family = AF_INET;
    at4->sin_addr = wanted;
    at4->sin_port = htons(port);
    at_bytes = sizeof *at4;
    fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  }
  const auto refuse = [&](const char* code, const std::string& what) {
    const std::string why = std::strerror(errno);
    if (fd_ >= 0) close(fd_);
    throw Fault("socket", code, what + ": " + why);
  };
  if (fd_ < 0) refuse("no-socket", "no UDP socket can be opened");
  const int on = 1;
  const int off = 0;
  if (ipv6_) {
    setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    setsockopt(fd_, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on);
  } else {
    setsockopt(fd_, IPPROTO_IP, IP_PKTINFO, &on, sizeof on);
  }
  // Never in fragments, and no cached notion of the path: the sessions probe for what passes.
  const int probe4 = IP_PMTUDISC_PROBE;
  const int probe6 = IPV6_PMTUDISC_PROBE;
  setsockopt(fd_, IPPROTO_IP, IP_MTU_DISCOVER, &probe4, sizeof probe4);
  if (ipv6_) setsockopt(fd_, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe6, sizeof probe6);
  enlarge(fd_, SO_RCVBUFFORCE, SO_RCVBUF);
  enlarge(fd_, SO_SNDBUFFORCE, SO_SNDBUF);
  if (bind(fd_, reinterpret_cast<sockaddr*>(&at), at_bytes) != 0) {
    const char* code = errno == EADDRINUSE ? "port-in-use" : "no-bind";
    refuse(code, "UDP port " + std::to_string(port) + " on " + address +
                     " cannot be opened; stop the program that has it, or choose another port");
  }
  if (getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &at_bytes) != 0)
    refuse("no-name", "the socket has no name");
  port_ = ntohs(ipv6_ ? at6->sin6_port : at4->sin_port);
}

UdpSocket::~UdpSocket() { close(fd_); }

void address_message(msghdr& message, ControlRoom& room, Address& to, bool ipv6, uint16_t segment_bytes) {
  message.msg_name = &to.remote;
  message.msg_namelen = to.remote_bytes;
  message.msg_control = room.bytes;
  size_t used = 0;
  const auto append = [&](int level, int type, const void* data, size_t bytes) {
    auto* control = reinterpret_cast<cmsghdr*>(room.bytes + used);
    control->cmsg_level = level;
    control->cmsg_type = type;
    control->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(control), data, bytes);
    used += CMSG_SPACE(bytes);
  };
  if (to.has_local && ipv6) append(IPPROTO_IPV6, IPV6_PKTINFO, &to.local6, sizeof to.local6);
  if (to.has_local && !ipv6) append(IPPROTO_IP, IP_PKTINFO, &to.local4, sizeof to.local4);
  if (segment_bytes > 0) append(SOL_UDP, UDP_SEGMENT, &segment_bytes, sizeof segment_bytes);
  message.msg_controllen = used;
  if (used == 0) message.msg_control = nullptr;
}

void read_local_address(msghdr& message, Address& into) {
  into.has_local = false;
  for (cmsghdr* control = CMSG_FIRSTHDR(&message); control; control = CMSG_NXTHDR(&message, control)) {
    if (control->cmsg_level == IPPROTO_IPV6 && control->cmsg_type == IPV6_PKTINFO) {
      std::memcpy(&into.local6, CMSG_DATA(control), sizeof into.local6);
      // The way out is the routing table's to choose; only a link-local address needs its interface.
      if (!IN6_IS_ADDR_LINKLOCAL(&into.local6.ipi6_addr)) into.local6.ipi6_ifindex = 0;
      into.has_local = true;
    } else if (control->cmsg_level == IPPROTO_IP && control->cmsg_type == IP_PKTINFO) {
      std::memcpy(&into.local4, CMSG_DATA(control), sizeof into.local4);
      into.local4.ipi_spec_dst = into.local4.ipi_addr;
      into.local4.ipi_ifindex = 0;
      into.has_local = true;
    }
  }
}

Sent UdpSocket::send(const Address& to, const uint8_t* data, size_t bytes) {
  Address copy = to;
  ControlRoom room;
  iovec piece{const_cast<uint8_t*>(data), bytes};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  address_message(message, room, copy, ipv6_, 0);
  if (sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return Sent::kYes;
  return errno == EMSGSIZE ? Sent::kTooLong : Sent::kNo;
}

int UdpSocket::send_packets(const Address& to, PacketRing& ring, int count, size_t& too_long) {
  constexpr int kMost = 64;
  Address copy = to;
  iovec pieces[kMost];
  mmsghdr messages[kMost]{};
  ControlRoom rooms[kMost];
  int sizes[kMost];
  const int total = std::min(count, kMost);
  const bool segment = can_segment_.load(std::memory_order_relaxed);
  int groups = 0;
  for (int i = 0; i < total;) {
    const uint16_t bytes = ring.peek(static_cast<uint64_t>(i)).bytes;
    const int start = i;
    size_t sum = 0;
    do {
      Packet& packet = ring.peek(static_cast<uint64_t>(i));
      pieces[i] = {packet.data, packet.bytes};
      sum += packet.bytes;
      i++;
    } while (segment && i < total && i - start < kMaxSegments && sum + bytes <= kMaxSegmentedBytes &&
             ring.peek(static_cast<uint64_t>(i)).bytes == bytes);
    msghdr& message = messages[groups].msg_hdr;
    message.msg_iov = &pieces[start];
    message.msg_iovlen = static_cast<size_t>(i - start);
    address_message(message, rooms[groups], copy, ipv6_, i - start > 1 ? bytes : uint16_t{0});
    sizes[groups++] = i - start;
  }

  int sent = 0;
  bool waited = false;
  for (int group = 0; group < groups;) {
    const int n =
        sendmmsg(fd_, messages + group, static_cast<unsigned>(groups - group), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) {
      for (int i = 0; i < n; i++) sent += sizes[group + i];
      group += n;
      continue;
    }
    if (errno == EINTR) continue;
    if ((errno == EAGAIN || errno == EWOULDBLOCK) && !waited) {
      pollfd writable{fd_, POLLOUT, 0};
      poll(&writable, 1, 5);
      waited = true;
      continue;
    }
    if ((errno == EIO || errno == EINVAL || errno == EMSGSIZE) && sizes[group] > 1) {
      // No offload on this way out, unless it is only the size of the pieces that does not pass.
      int done = 0;
      for (int i = 0; i < group; i++) done += sizes[i];
      for (int i = done; i < total; i++) {
        const Packet& packet = ring.peek(static_cast<uint64_t>(i));
        const Sent how = send(to, packet.data, packet.bytes);
        if (how == Sent::kYes) sent++;
        if (how == Sent::kTooLong) too_long = packet.bytes;
      }
      // From now on each packet is a message of its own.
      if (too_long == 0) can_segment_.store(false, std::memory_order_relaxed);
      return sent;
    }
    if (errno == EMSGSIZE) too_long = messages[group].msg_hdr.msg_iov->iov_len;
    group++;
  }
  return sent;
}

}  // namespace svc
