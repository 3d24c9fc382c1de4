// What a client that misses a frame gets: nothing while an answer is on its way, a frame that refers past the
// loss, or a keyframe.
#pragma once
#include <cstdint>
#include <optional>

namespace svc {

/// Encode thread only. Decides by frame numbers and times that it is told.
class Recovery {
 public:
  /// `frame`, sent at `now_us`, needs none of the frames that a client asked about before it.
  void answered(uint32_t frame, int64_t now_us) {
    frame_ = frame;
    answered_us_ = now_us;
  }
  /// Whether a loss that begins with `first_lost` still waits for an answer. Within a round trip of an answer
  /// that is newer than the loss the client cannot have seen it.
  bool is_due(uint32_t first_lost, int64_t now_us, int64_t rtt_us) const {
    return !frame_ || first_lost > *frame_ || now_us - answered_us_ >= rtt_us + kSlackUs;
  }

 private:
  // A client's own patience, and the time that a frame takes to be sent.
  static constexpr int64_t kSlackUs = 15'000;
  std::optional<uint32_t> frame_;
  int64_t answered_us_ = 0;
};

}  // namespace svc
