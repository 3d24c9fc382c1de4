// What all input sinks share: the queue, the grants, and letting go of everything in the end.
#include "input_sink.h"

#include <algorithm>
#include <cstring>

#include "clock.h"
#include "fault.h"
#include "thread.h"

namespace svc {

namespace {
struct SinkEntry {
  const char* kind;
  std::unique_ptr<InputSink> (*open)(const InputSinkConfig&);
};
// A new sink is one file and one line here.
const SinkEntry kSinks[] = {
    {"x11", open_x11_input},
};
// Longer than the longest text takes to type with keys that must be borrowed.
constexpr int64_t kGraceUs = 3'000'000;
}  // namespace

std::unique_ptr<InputSink> open_input_sink(const InputSinkConfig& config) {
  for (const SinkEntry& entry : kSinks) {
    if (config.kind == entry.kind) return entry.open(config);
  }
  throw Fault("input", "unknown-kind", "there is no input sink called " + config.kind);
}

void InputSink::start() {
  const std::lock_guard held(join_lock_);
  thread_ = start_thread("svc-input", Urgency::kRealtime, [this] { run(); });
}

void InputSink::stop() {
  const std::lock_guard joining(join_lock_);
  {
    const std::lock_guard held(lock_);
    stopping_ = true;
  }
  signal_.notify();
  if (!thread_.joinable()) return;
  wait_until([this] { return ended_; });
  thread_.join();
}

void InputSink::attach(std::shared_ptr<InputClient> client) {
  const std::lock_guard held(lock_);
  clients_.push_back(std::move(client));
}

void InputSink::detach(const std::shared_ptr<InputClient>& client) {
  {
    const std::lock_guard held(lock_);
    leaving_.push_back(client);
  }
  signal_.notify();
  wait_until([&] { return ended_ || std::find(clients_.begin(), clients_.end(), client) == clients_.end(); });
}

template <typename Holds>
void InputSink::wait_until(Holds holds) {
  int64_t until = now_us() + kGraceUs;
  while (true) {
    const uint32_t seen = detached_.current();
    {
      const std::lock_guard held(lock_);
      if (holds()) return;
    }
    const int64_t left = until - now_us();
    if (left <= 0) {
      interrupt();
      until = now_us() + kGraceUs;
      continue;
    }
    detached_.wait(seen, left);
  }
}

bool InputSink::push(InputClient& client, InputType type, View body) {
  {
    const std::lock_guard held(lock_);
    if (count_ == kQueue) return false;
    Queued& queued = queue_[(first_ + count_++) % kQueue];
    queued.client = &client;
    queued.event.type = type;
    queued.event.bytes = static_cast<uint8_t>(body.bytes);
    std::memcpy(queued.event.body, body.data, body.bytes);
  }
  signal_.notify();
  return true;
}

void InputSink::run() {
  bool last_round = false;
  while (!last_round) {
    const uint32_t seen = signal_.current();
    bool idle = true;
    {
      const std::lock_guard held(lock_);
      last_round = stopping_;
    }
    release_revoked();
    Queued queued;
    while (true) {
      {
        const std::lock_guard held(lock_);
        if (count_ == 0) break;
        queued = queue_[first_];
        first_ = (first_ + 1) % kQueue;
        count_--;
      }
      idle = false;
      handle(queued);
    }
    // What a client sent before it left is applied first; a held key is let go of last.
    std::vector<std::shared_ptr<InputClient>> leaving;
    {
      const std::lock_guard held(lock_);
      if (count_ == 0) leaving = last_round ? clients_ : leaving_;
    }
    for (const auto& client : leaving) release_all(*client);
    flush();
    {
      const std::lock_guard held(lock_);
      for (const auto& client : leaving) {
        std::erase(clients_, client);
        std::erase(leaving_, client);
      }
      ended_ = last_round;
    }
    if (!leaving.empty() || last_round) detached_.notify();
    if (idle && !last_round) signal_.wait(seen, -1);
  }
}

void InputSink::handle(const Queued& queued) {
  InputClient& client = *queued.client;
  const InputType type = queued.event.type;
  const uint32_t needed = grant_needed(type);
  // Asked here, not where it was received: a grant that was taken away meanwhile no longer counts.
  if ((client.grants.load(std::memory_order_acquire) & needed) != needed) {
    client.refused.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (queued.event.bytes < body_needed(type)) return;
  client.applied.fetch_add(1, std::memory_order_relaxed);
  if (type == InputType::kReleaseAll) return release_all(client);
  apply(client, type, View{queued.event.body, queued.event.bytes});
}

void InputSink::release_revoked() {
  std::vector<std::shared_ptr<InputClient>> clients;
  {
    const std::lock_guard held(lock_);
    for (const auto& client : clients_) {
      if (client->keys.any() || client->buttons.any()) clients.push_back(client);
    }
  }
  for (const auto& client : clients) {
    const uint32_t grants = client->grants.load(std::memory_order_acquire);
    if (!(grants & kKeyboard)) release_keys(*client);
    if (!(grants & kPointer)) release_buttons(*client);
  }
}

void InputSink::release_all(InputClient& client) {
  release_keys(client);
  release_buttons(client);
}

}  // namespace svc
