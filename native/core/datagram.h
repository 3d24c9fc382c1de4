// The 20 bytes in front of every sealed payload (PROTOCOL.md, section 4).
#pragma once
#include <optional>

#include "bytes.h"

namespace svc {

enum class Stream : uint8_t { kVideo = 1, kAudio = 2, kInput = 3, kPath = 4 };

constexpr size_t kHeaderBytes = 20;
constexpr size_t kTagBytes = 16;
constexpr uint8_t kVersion = 1;

struct Header {
  Stream stream;
  uint8_t epoch;
  uint64_t session;
  uint64_t counter;
};

inline void write_header(uint8_t* at, const Header& header) {
  at[0] = static_cast<uint8_t>(kVersion << 4 | static_cast<uint8_t>(header.stream));
  at[1] = header.epoch;
  put16(at + 2, 0);
  put64(at + 4, header.session);
  put64(at + 12, header.counter);
}

/// Nothing for what is too short to be sealed, or of another version.
inline std::optional<Header> read_header(View datagram) {
  if (!datagram.has(kHeaderBytes + kTagBytes) || datagram.data[0] >> 4 != kVersion) return std::nullopt;
  const uint8_t* at = datagram.data;
  return Header{static_cast<Stream>(at[0] & 15), at[1], get64(at + 4), get64(at + 12)};
}

}  // namespace svc
