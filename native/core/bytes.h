// Big-endian integers in datagrams, and a reader that cannot run past the end.
#pragma once
#include <cstddef>
#include <cstdint>

namespace svc {

inline void put16(uint8_t* at, uint16_t v) {
  at[0] = static_cast<uint8_t>(v >> 8);
  at[1] = static_cast<uint8_t>(v);
}
inline void put32(uint8_t* at, uint32_t v) {
  put16(at, static_cast<uint16_t>(v >> 16));
  put16(at + 2, static_cast<uint16_t>(v));
}
inline void put64(uint8_t* at, uint64_t v) {
  put32(at, static_cast<uint32_t>(v >> 32));
  put32(at + 4, static_cast<uint32_t>(v));
}
inline uint16_t get16(const uint8_t* at) { return static_cast<uint16_t>(at[0] << 8 | at[1]); }
inline uint32_t get32(const uint8_t* at) { return uint32_t{get16(at)} << 16 | get16(at + 2); }
inline uint64_t get64(const uint8_t* at) { return uint64_t{get32(at)} << 32 | get32(at + 4); }

/// Bytes of somebody else's; never owns them.
struct View {
  const uint8_t* data = nullptr;
  size_t bytes = 0;

  bool has(size_t n) const { return bytes >= n; }
  View from(size_t n) const { return n > bytes ? View{} : View{data + n, bytes - n}; }
  View first(size_t n) const { return View{data, n < bytes ? n : bytes}; }
};

}  // namespace svc
