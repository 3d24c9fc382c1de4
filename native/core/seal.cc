// AES-128-GCM of datagrams by OpenSSL EVP (PROTOCOL.md, section 4).
#include "seal.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "datagram.h"
#include "fault.h"

namespace svc {

Cipher::Cipher(const MediaKey& key, bool seals) : context_(EVP_CIPHER_CTX_new()) {
  std::copy(key.begin() + 16, key.end(), iv_.begin());
  if (!context_ ||
      EVP_CipherInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, key.data(), nullptr, seals) != 1) {
    throw Fault("keys", "cipher", "OpenSSL has no AES-128-GCM here; check its installation");
  }
}

Cipher::~Cipher() { OPENSSL_cleanse(iv_.data(), iv_.size()); }

void Cipher::nonce(uint8_t out[12], uint64_t counter) const {
  put32(out, 0);
  put64(out + 4, counter);
  for (size_t i = 0; i < 12; i++) out[i] ^= iv_[i];
}

bool Cipher::seal(uint8_t* datagram, size_t payload_bytes, uint64_t counter) {
  uint8_t iv[12];
  nonce(iv, counter);
  uint8_t* payload = datagram + kHeaderBytes;
  int n = 0;
  EVP_CIPHER_CTX* c = context_.get();
  return EVP_EncryptInit_ex(c, nullptr, nullptr, nullptr, iv) == 1 &&
         EVP_EncryptUpdate(c, nullptr, &n, datagram, kHeaderBytes) == 1 &&
         EVP_EncryptUpdate(c, payload, &n, payload, static_cast<int>(payload_bytes)) == 1 &&
         EVP_EncryptFinal_ex(c, payload + payload_bytes, &n) == 1 &&
         EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, kTagBytes, payload + payload_bytes) == 1;
}

bool Cipher::open(uint8_t* datagram, size_t datagram_bytes, uint64_t counter) {
  if (datagram_bytes < kHeaderBytes + kTagBytes) return false;
  uint8_t iv[12];
  nonce(iv, counter);
  uint8_t* payload = datagram + kHeaderBytes;
  const size_t payload_bytes = datagram_bytes - kHeaderBytes - kTagBytes;
  int n = 0;
  EVP_CIPHER_CTX* c = context_.get();
  return EVP_DecryptInit_ex(c, nullptr, nullptr, nullptr, iv) == 1 &&
         EVP_DecryptUpdate(c, nullptr, &n, datagram, kHeaderBytes) == 1 &&
         EVP_DecryptUpdate(c, payload, &n, payload, static_cast<int>(payload_bytes)) == 1 &&
         EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, kTagBytes, payload + payload_bytes) == 1 &&
         EVP_DecryptFinal_ex(c, payload + payload_bytes, &n) == 1;
}

}  // namespace svc
