// What a client that misses a frame gets: nothing while an answer is on its way, frames that refer past the
// loss, or a keyframe.
#pragma once
#include <cstdint>
#include <optional>

namespace svc {

/// Encode thread only. Decides by frame numbers and times that it is told.
class Recovery {
 public:
  /// `frame`, coded at `now_us`, is the first that needs none of the frames that a client asked about before
  /// it.
  void answered(uint32_t frame, int64_t now_us) {
    frame_ = frame;
    answered_us_ = now_us;
    from_.reset();
  }
  /// The same, and `frame` refers only to frames before `from`. So will those that follow for a round trip:
  /// any one of them that arrives will do, and a client need not ask again because the first was lost.
  void answered_from(uint32_t from, uint32_t frame, int64_t now_us, int64_t rtt_us) {
    answered(frame, now_us);
    from_ = from;
    until_us_ = now_us + rtt_us + kSlackUs;
  }
  /// `frame` was one of those that follow.
  void repeated(uint32_t frame) { frame_ = frame; }
  /// Nothing that old is kept any longer: the frames to come refer to the newest again.
  void stop_repeating() { from_.reset(); }
  /// The frame that the next one, too, is to refer past.
  std::optional<uint32_t> repeats(int64_t now_us) const { return now_us < until_us_ ? from_ : std::nullopt; }
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
  std::optional<uint32_t> from_;
  int64_t until_us_ = 0;
};

}  // namespace svc
