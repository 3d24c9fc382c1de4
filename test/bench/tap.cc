// Writes down every UDP datagram that arrives over the loopback interface at, or from, one port, with the kernel's time.
//
// tap from|to PORT FILE
// The file holds, for each datagram (or run of datagrams that was sent in one piece, as segmentation offload does):
// nanoseconds of CLOCK_MONOTONIC (8 bytes), length (4 bytes), both little-endian, and the UDP payload. Says `ready` on
// stdout. It stands beside the way, not in it: what it watches costs and takes the same for every sender.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace {

volatile sig_atomic_t stopped = 0;

int64_t nowNs(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "tap from|to PORT FILE\n"), 2;
  const bool from = !strcmp(argv[1], "from");
  const int port = atoi(argv[2]);
  signal(SIGTERM, [](int) { stopped = 1; });
  signal(SIGINT, [](int) { stopped = 1; });
  const int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_IP));
  if (fd < 0) return perror("tap: packet socket"), 1;
  const int room = 64 << 20, on = 1;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_IP);
  at.sll_ifindex = static_cast<int>(if_nametoindex("lo"));
  if (bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at)) return perror("tap: bind"), 1;
  FILE* file = fopen(argv[3], "wb");
  if (!file) return perror("tap: open"), 1;
  puts("ready");
  fflush(stdout);

  static uint8_t frame[70000];
  while (!stopped) {
    pollfd ready{fd, POLLIN, 0};
    if (poll(&ready, 1, 100) <= 0) continue;
    sockaddr_ll source{};
    alignas(cmsghdr) char control[128];
    iovec piece{frame, sizeof frame};
    msghdr message{&source, sizeof source, &piece, 1, control, sizeof control, 0};
    const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    // Each passes the loopback interface twice; what counts is its arrival.
    if (got < 14 + 20 + 8 || source.sll_pkttype == PACKET_OUTGOING) continue;
    const uint8_t* ip = frame + 14;
    const size_t head = (ip[0] & 15) * 4u;
    if (ip[0] >> 4 != 4 || ip[9] != IPPROTO_UDP || static_cast<size_t>(got) < 14 + head + 8) continue;
    const uint8_t* udp = ip + head;
    const int source_port = udp[0] << 8 | udp[1], target_port = udp[2] << 8 | udp[3];
    if ((from ? source_port : target_port) != port) continue;
    int64_t ns = 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
      if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_TIMESTAMPNS) continue;
      timespec t;
      memcpy(&t, CMSG_DATA(c), sizeof t);
      // The kernel stamps in CLOCK_REALTIME; everything else here speaks CLOCK_MONOTONIC.
      ns = int64_t{t.tv_sec} * 1000000000 + t.tv_nsec - (nowNs(CLOCK_REALTIME) - nowNs(CLOCK_MONOTONIC));
    }
    const uint32_t bytes = static_cast<uint32_t>(got - (udp + 8 - frame));
    fwrite(&ns, 8, 1, file);
    fwrite(&bytes, 4, 1, file);
    fwrite(udp + 8, 1, bytes, file);
  }
  uint64_t lost[1] = {0};
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  if (!getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size)) lost[0] = stats.tp_drops;
  fclose(file);
  if (lost[0]) return fprintf(stderr, "tap: %llu packets overran the buffer\n", static_cast<unsigned long long>(lost[0])), 1;
  return 0;
}
