// Starts the engine's threads: named, with signals left to Node, and as urgent as this machine allows.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>
#include <utility>

namespace svc {

enum class Urgency {
  /// Short runs that must not wait: receive, send, input.
  kRealtime = 1,
  /// Long runs that come before ordinary programs but must not shut them out: capture, encode.
  kHigh = 2,
};

/// Where the rights for an urgency are missing, the thread runs as any other: slower under load, never
/// refused.
template <typename Run>
std::thread start_thread(const char* name, Urgency urgency, Run run) {
  // A signal meant for Node must not be taken here; a thread inherits the mask of the one that starts it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([name, urgency, run = std::move(run)]() mutable {
    pthread_setname_np(pthread_self(), name);
    const sched_param lowest{.sched_priority = 1};
    if (urgency != Urgency::kRealtime || pthread_setschedparam(pthread_self(), SCHED_RR, &lowest) != 0) {
      setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), -10);
    }
    run();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace svc
