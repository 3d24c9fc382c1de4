// The largest datagram that the way to the client takes, and its round trip: found by probes, decided without
// a clock.
#pragma once
#include <cstddef>
#include <cstdint>

namespace svc {

/// One probe is on its way at a time. Datagrams begin at 1200 bytes, which every path takes (RFC 8899's
/// BASE_PLPMTU), and grow once a larger one was acknowledged; three probes of the size in use that vanish
/// make them small again.
class PathProbe {
 public:
  static constexpr size_t kLeastBytes = 1200;

  explicit PathProbe(size_t wished_bytes)
      : wished_(wished_bytes < kLeastBytes ? kLeastBytes : wished_bytes) {}

  /// Size of the datagram to be sent as a probe now under `id()`, or 0.
  size_t due(int64_t now_us);
  uint32_t id() const { return id_; }
  /// The round trip in microseconds; 0 when this is no answer to what is on its way.
  int64_t acked(uint32_t id, int64_t now_us);
  /// The system refused a datagram as too long: down to the least at once, and the search begins below what
  /// failed.
  void too_long(size_t bytes, int64_t now_us);
  /// Size of datagrams to use.
  size_t bytes() const { return good_; }

 private:
  void lost();
  bool is_searching() const { return good_ + kStep <= bad_ - 1 && good_ < wished_; }

  // Closer than this the gain is not worth a probe.
  static constexpr size_t kStep = 16;

  size_t wished_;
  size_t good_ = kLeastBytes;
  /// Least size known not to pass, one more than wished when none is.
  size_t bad_ = wished_ + 1;
  uint32_t id_ = 0;
  size_t size_ = 0;
  int64_t sent_us_ = 0;
  int64_t next_us_ = 0;
  int64_t searched_us_ = 0;
  int64_t rtt_us_ = 0;
  int losses_ = 0;
};

}  // namespace svc
