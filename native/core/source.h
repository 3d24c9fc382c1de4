// Where pictures come from: one capture thread for each source, shared by all sessions that watch it.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "picture.h"
#include "wake_signal.h"

namespace svc {

struct SourceConfig {
  /// Name in the table of sources: `x11`, `test`.
  std::string kind;
  /// x11: for example `:90`.
  std::string display;
  /// x11: path of the Xauthority file; empty when the server asks for none.
  std::string xauthority;
  /// x11: the pointer is drawn into the picture.
  bool cursor = true;
  /// test: pixels.
  int width = 0;
  int height = 0;
  /// test: pictures a second.
  int hz = 0;
};

/// A session's place at a source. Its fields belong to the source's lock.
struct Watcher {
  Signal* wake = nullptr;
  int hz = 60;
  /// Number of the picture that was taken last; 0 for none.
  uint64_t taken = 0;
};

class Source {
 public:
  /// Every source calls `stop` in its own destructor: `run` is its own.
  virtual ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// `on_lost` is called once, from the capture thread, if the source ends by itself.
  void start(std::function<void()> on_lost);
  /// Ends capture for good and waits for its thread; may be called again.
  void stop();

  int width() const { return width_.load(std::memory_order_relaxed); }
  int height() const { return height_.load(std::memory_order_relaxed); }
  /// Nothing will ever come again.
  bool has_ended() const { return ended_.load(std::memory_order_acquire); }

  void watch(Watcher& watcher, Signal& wake, int hz);
  void unwatch(Watcher& watcher);
  /// The newest picture if this watcher has not had it yet. `missed` counts those that it never took.
  Picture take(Watcher& watcher, uint64_t& missed);

 protected:
  Source();
  virtual void run() = 0;
  /// Breaks a wait inside `run` that `wake_fd` does not end.
  virtual void interrupt() {}

  bool is_stopping() const { return stopping_.load(std::memory_order_acquire); }
  int wake_fd() const { return wake_fd_; }
  void clear_wake() const;
  void set_size(int width, int height);
  void publish(Picture picture);

  struct Demand {
    /// Whether anybody watches, whether one of them has taken the newest picture and so waits for the next,
    /// and the highest rate asked for.
    bool watched = false;
    bool wanted = false;
    /// Somebody came who has nothing to look at.
    bool at_once = false;
    int hz = 1;
  };
  Demand demand();

 private:
  std::mutex lock_;
  std::vector<Watcher*> watchers_;
  /// Until every watcher has taken it.
  Picture newest_;
  uint64_t published_ = 0;
  bool at_once_ = false;

  std::atomic<int> width_{0};
  std::atomic<int> height_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  std::function<void()> on_lost_;
  std::mutex join_lock_;
  std::thread thread_;

  void wake() const;
  int wake_fd_ = -1;
};

struct SourceEntry {
  const char* kind;
  std::unique_ptr<Source> (*open)(const SourceConfig&);
};

/// Opens a source by its kind; throws `Fault` (stages `source`, `connect`, `extensions`, `capture`).
std::unique_ptr<Source> open_source(const SourceConfig& config);

std::unique_ptr<Source> open_x11_source(const SourceConfig& config);
std::unique_ptr<Source> open_test_source(const SourceConfig& config);

}  // namespace svc
