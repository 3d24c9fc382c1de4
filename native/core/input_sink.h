// Where input goes: one thread for each sink, shared by the sessions of a display; keys are held for each of
// them.
#pragma once
#include <array>
#include <atomic>
#include <bitset>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "input.h"
#include "wake_signal.h"

namespace svc {

struct InputSinkConfig {
  /// `x11`.
  std::string kind;
  std::string display;
  std::string xauthority;
};

/// One session's hands on a sink. The atomics are anybody's, the rest belongs to the sink's thread.
struct InputClient {
  std::atomic<uint32_t> grants{0};
  std::atomic<uint64_t> applied{0};
  std::atomic<uint64_t> refused{0};

  /// Sink's own codes: what this client holds down.
  std::bitset<256> keys;
  std::bitset<32> buttons;
  /// 1/120 of a notch that are left over.
  int scroll_x = 0;
  int scroll_y = 0;
};

class InputSink {
 public:
  /// Every sink calls `stop` in its own destructor: what applies events is its own.
  virtual ~InputSink() = default;

  void start();
  /// Releases what is held, ends the thread and waits for it; may be called again.
  void stop();

  void attach(std::shared_ptr<InputClient> client);
  /// Returns once everything that the client held is released.
  void detach(const std::shared_ptr<InputClient>& client);
  /// False when the queue is full: the event was not taken and should be offered again.
  bool push(InputClient& client, InputType type, View body);
  /// After a change of a client's grants.
  void notify() { signal_.notify(); }

 protected:
  /// All of these run on the sink's thread.
  virtual void apply(InputClient& client, InputType type, View body) = 0;
  virtual void release_keys(InputClient& client) = 0;
  virtual void release_buttons(InputClient& client) = 0;
  /// What was applied must reach the system now.
  virtual void flush() = 0;
  /// From any thread: a system that does not answer is given up, for good.
  virtual void interrupt() = 0;

 private:
  struct Queued {
    InputClient* client;
    InputEvent event;
  };
  static constexpr size_t kQueue = 512;

  void run();
  /// Waits until `holds` does, which is asked under the lock; a sink that hangs longer than its grace is
  /// interrupted.
  template <typename Holds>
  void wait_until(Holds holds);
  void handle(const Queued& queued);
  void release_revoked();
  void release_all(InputClient& client);

  Signal signal_;
  Signal detached_;
  std::mutex lock_;
  std::vector<std::shared_ptr<InputClient>> clients_;
  std::vector<std::shared_ptr<InputClient>> leaving_;
  std::unique_ptr<Queued[]> queue_ = std::make_unique<Queued[]>(kQueue);
  size_t first_ = 0;
  size_t count_ = 0;
  bool stopping_ = false;
  bool ended_ = false;
  std::mutex join_lock_;
  std::thread thread_;
};

/// Throws `Fault` (stages `input`, `connect`, `extensions`).
std::unique_ptr<InputSink> open_input_sink(const InputSinkConfig& config);

std::unique_ptr<InputSink> open_x11_input(const InputSinkConfig& config);

}  // namespace svc
