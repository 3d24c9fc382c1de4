// AES-128-GCM of datagrams: one OpenSSL context for each key, reused for every packet.
#pragma once
#include <openssl/evp.h>

#include <array>
#include <memory>

#include "bytes.h"

namespace svc {

/// AES-128-GCM key, then IV (PROTOCOL.md, section 3).
using MediaKey = std::array<uint8_t, 28>;

namespace detail {
struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
};
}  // namespace detail

/// One direction of one stream. Not for two threads at once.
class Cipher {
 public:
  Cipher(const MediaKey& key, bool seals);
  ~Cipher();
  Cipher(const Cipher&) = delete;
  Cipher& operator=(const Cipher&) = delete;

  /// `datagram` holds the header and `payload_bytes` of plain text; the tag is written behind them.
  bool seal(uint8_t* datagram, size_t payload_bytes, uint64_t counter);
  /// Opens in place behind the header; false when the datagram is not authentic.
  bool open(uint8_t* datagram, size_t datagram_bytes, uint64_t counter);

 private:
  void nonce(uint8_t out[12], uint64_t counter) const;
  std::unique_ptr<EVP_CIPHER_CTX, detail::FreeCipher> context_;
  std::array<uint8_t, 12> iv_;
};

}  // namespace svc
