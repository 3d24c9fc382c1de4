// The receive thread of a plane.
#include "plane.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "clock.h"
#include "fault.h"
#include "thread.h"

namespace svc {

namespace {
constexpr int kBatch = 32;
constexpr int64_t kTickUs = 100'000;
// Longer than any datagram of ours; what is cut off does not open.
constexpr size_t kReceiveBytes = 2048;
}  // namespace

Plane::Plane(const std::string& address, uint16_t port)
    : socket_(address, port), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_fd_ < 0)
    throw Fault("socket", "no-files", "no file descriptor is left; raise the limit of open files");
}

Plane::~Plane() {
  stop();
  close(wake_fd_);
}

void Plane::start() {
  const std::lock_guard held(join_lock_);
  thread_ = start_thread("svc-receive", Urgency::kRealtime, [this] { run(); });
}

void Plane::stop() {
  const std::lock_guard joining(join_lock_);
  stopping_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  while (write(wake_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  if (thread_.joinable()) thread_.join();
}

bool Plane::add(uint64_t session, Receiver& receiver) {
  {
    const std::lock_guard held(lock_);
    if (!sessions_.emplace(session, &receiver).second) return false;
  }
  // The thread slept without a limit while there was nobody to tick for.
  const uint64_t one = 1;
  while (write(wake_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
  return true;
}

void Plane::remove(uint64_t session) {
  const std::lock_guard held(lock_);
  sessions_.erase(session);
}

void Plane::run() {
  int64_t ticked = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    bool has_sessions;
    {
      const std::lock_guard held(lock_);
      has_sessions = !sessions_.empty();
      const int64_t now = now_us();
      if (now - ticked >= kTickUs) {
        ticked = now;
        for (auto& [id, receiver] : sessions_) receiver->tick(now);
      }
    }
    pollfd ready[2] = {{socket_.fd(), POLLIN, 0}, {wake_fd_, POLLIN, 0}};
    if (poll(ready, 2, has_sessions ? static_cast<int>(kTickUs / 1000) : -1) <= 0) continue;
    if (ready[1].revents) {
      uint64_t count;
      while (read(wake_fd_, &count, sizeof count) < 0 && errno == EINTR) {
      }
    }
    if (ready[0].revents) {
      // A flood must not keep the ticks from coming.
      for (int round = 0; round < 8 && drain() == kBatch; round++) {
      }
    }
  }
}

int Plane::drain() {
  static thread_local uint8_t buffers[kBatch][kReceiveBytes];
  mmsghdr messages[kBatch]{};
  iovec pieces[kBatch];
  ControlRoom rooms[kBatch];
  Address from[kBatch]{};
  for (int i = 0; i < kBatch; i++) {
    pieces[i] = {buffers[i], kReceiveBytes};
    msghdr& message = messages[i].msg_hdr;
    message.msg_name = &from[i].remote;
    message.msg_namelen = sizeof from[i].remote;
    message.msg_iov = &pieces[i];
    message.msg_iovlen = 1;
    message.msg_control = rooms[i].bytes;
    message.msg_controllen = sizeof rooms[i].bytes;
  }
  const int count = recvmmsg(socket_.fd(), messages, kBatch, MSG_DONTWAIT, nullptr);
  if (count <= 0) return 0;
  const int64_t now = now_us();
  int rejected = 0;
  const std::lock_guard held(lock_);
  for (int i = 0; i < count; i++) {
    msghdr& message = messages[i].msg_hdr;
    from[i].remote_bytes = message.msg_namelen;
    read_local_address(message, from[i]);
    const bool whole = !(message.msg_flags & MSG_TRUNC);
    if (!whole || !dispatch(buffers[i], messages[i].msg_len, from[i], now)) rejected++;
  }
  received_.fetch_add(static_cast<uint64_t>(count), std::memory_order_relaxed);
  rejected_.fetch_add(static_cast<uint64_t>(rejected), std::memory_order_relaxed);
  return count;
}

bool Plane::dispatch(uint8_t* datagram, size_t bytes, const Address& from, int64_t now) {
  const auto header = read_header({datagram, bytes});
  if (!header) return false;
  const auto found = sessions_.find(header->session);
  return found != sessions_.end() && found->second->receive(*header, datagram, bytes, from, now);
}

}  // namespace svc
