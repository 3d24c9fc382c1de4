// Path messages (PROTOCOL.md, section 7): reading a client's and writing the host's.
#pragma once
#include "bytes.h"

namespace svc {

enum class PathType : uint8_t {
  kPing = 1,
  kPong = 2,
  kFeedback = 3,
  kRequest = 4,
  kInputAck = 5,
  kProbe = 6,
  kProbeAck = 7,
  kBye = 8,
  kSent = 9,
};

/// Calls `on(type, body)` for each whole message; stops at one that is cut off.
template <typename On>
void read_path(View payload, On on) {
  while (payload.has(3)) {
    const uint8_t type = payload.data[0];
    const size_t bytes = get16(payload.data + 1);
    if (!payload.has(3 + bytes)) return;
    on(static_cast<PathType>(type), payload.from(3).first(bytes));
    payload = payload.from(3 + bytes);
  }
}

/// Builds a payload of a few messages; the caller keeps within `kRoom`.
class PathWriter {
 public:
  static constexpr size_t kRoom = 256;
  explicit PathWriter(uint8_t* at) : start_(at), at_(at) {}

  /// Begins a message and gives its body to be filled.
  uint8_t* add(PathType type, uint16_t body_bytes) {
    at_[0] = static_cast<uint8_t>(type);
    put16(at_ + 1, body_bytes);
    uint8_t* body = at_ + 3;
    at_ = body + body_bytes;
    return body;
  }
  size_t bytes() const { return static_cast<size_t>(at_ - start_); }

 private:
  uint8_t* start_;
  uint8_t* at_;
};

}  // namespace svc
