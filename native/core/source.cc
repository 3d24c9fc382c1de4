// What all sources share: the table of them, the capture thread, and handing pictures to those who watch.
#include "source.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "clock.h"
#include "fault.h"
#include "thread.h"

namespace svc {

namespace {
// A new source is one file and one line here.
const SourceEntry kSources[] = {
    {"x11", open_x11_source},
    {"test", open_test_source},
};
}  // namespace

std::unique_ptr<Source> open_source(const SourceConfig& config) {
  for (const SourceEntry& entry : kSources) {
    if (config.kind == entry.kind) return entry.open(config);
  }
  throw Fault("source", "unknown-kind", "there is no picture source called " + config.kind);
}

Source::Source() : wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_fd_ < 0)
    throw Fault("source", "no-files", "no file descriptor is left; raise the limit of open files");
}

Source::~Source() { close(wake_fd_); }

void Source::start(std::function<void()> on_lost) {
  const std::lock_guard held(join_lock_);
  on_lost_ = std::move(on_lost);
  thread_ = start_thread("svc-capture", Urgency::kHigh, [this] {
    run();
    ended_.store(true, std::memory_order_release);
    {
      const std::lock_guard held(lock_);
      for (Watcher* watcher : watchers_) watcher->wake->notify();
    }
    if (!is_stopping()) on_lost_();
  });
}

void Source::stop() {
  const std::lock_guard held(join_lock_);
  stopping_.store(true, std::memory_order_release);
  wake();
  interrupt();
  if (thread_.joinable()) thread_.join();
  ended_.store(true, std::memory_order_release);
}

void Source::wake() const {
  const uint64_t one = 1;
  while (write(wake_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

void Source::clear_wake() const {
  uint64_t count;
  while (read(wake_fd_, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

void Source::set_size(int width, int height) {
  width_.store(width, std::memory_order_relaxed);
  height_.store(height, std::memory_order_relaxed);
}

void Source::watch(Watcher& watcher, Signal& signal, int hz) {
  {
    const std::lock_guard held(lock_);
    watcher.wake = &signal;
    watcher.hz = hz;
    // The newest picture is not kept once all have it, and may be an old one: only a new one will do.
    if (!newest_) at_once_ = true;
    watcher.taken = newest_ ? published_ - 1 : published_;
    watchers_.push_back(&watcher);
  }
  wake();
}

void Source::unwatch(Watcher& watcher) {
  {
    const std::lock_guard held(lock_);
    std::erase(watchers_, &watcher);
    if (watchers_.empty()) newest_ = Picture();
  }
  wake();
}

Picture Source::take(Watcher& watcher, uint64_t& missed) {
  Picture taken;
  missed = 0;
  {
    const std::lock_guard held(lock_);
    if (!newest_ || watcher.taken == published_) return taken;
    missed = published_ - watcher.taken - 1;
    watcher.taken = published_;
    // Its slot is the next one to be written, while it is still in the cache.
    const bool all_have_it = std::all_of(watchers_.begin(), watchers_.end(),
                                         [&](const Watcher* other) { return other->taken == published_; });
    taken = all_have_it ? std::exchange(newest_, Picture()) : newest_;
  }
  wake();
  return taken;
}

void Source::publish(Picture picture) {
  const std::lock_guard held(lock_);
  if (watchers_.empty()) return;
  newest_ = std::move(picture);
  published_++;
  at_once_ = false;
  for (Watcher* watcher : watchers_) watcher->wake->notify();
}

Source::Demand Source::demand() {
  const std::lock_guard held(lock_);
  Demand demand;
  demand.at_once = at_once_;
  for (const Watcher* watcher : watchers_) {
    demand.watched = true;
    demand.wanted = demand.wanted || watcher->taken == published_;
    demand.hz = std::max(demand.hz, watcher->hz);
  }
  return demand;
}

}  // namespace svc
