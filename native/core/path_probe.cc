// Search for the path's datagram size: the wish first, as most paths take it, then by halves.
#include "path_probe.h"

#include <algorithm>

namespace svc {

namespace {
constexpr int64_t kSpacingUs = 500'000;
constexpr int64_t kPatienceUs = 300'000;
constexpr int kLosses = 3;
// A path changes; what did not pass is tried again after this.
constexpr int64_t kSearchAgainUs = 60'000'000;
}  // namespace

size_t PathProbe::due(int64_t now_us) {
  if (size_ != 0) {
    if (now_us - sent_us_ < std::max(kPatienceUs, 3 * rtt_us_)) return 0;
    lost();
  }
  if (now_us < next_us_) return 0;
  if (bad_ <= wished_ && now_us - searched_us_ > kSearchAgainUs) bad_ = wished_ + 1;
  if (!is_searching())
    size_ = good_;
  else if (bad_ > wished_)
    size_ = wished_;
  else
    size_ = (good_ + bad_) / 2;
  id_++;
  sent_us_ = now_us;
  next_us_ = now_us + kSpacingUs;
  return size_;
}

int64_t PathProbe::acked(uint32_t id, int64_t now_us) {
  if (size_ == 0 || id != id_) return 0;
  rtt_us_ = std::max<int64_t>(1, now_us - sent_us_);
  losses_ = 0;
  if (size_ > good_) {
    good_ = size_;
    // The search goes on at once.
    if (is_searching()) next_us_ = now_us;
  }
  size_ = 0;
  return rtt_us_;
}

void PathProbe::lost() {
  const size_t size = size_;
  size_ = 0;
  // Soon again, for nothing is known until then.
  next_us_ = 0;
  if (++losses_ < kLosses) return;
  losses_ = 0;
  if (size > good_) {
    bad_ = size;
    searched_us_ = sent_us_;
  } else if (good_ > kLeastBytes) {
    too_long(good_, sent_us_);
  }
}

void PathProbe::too_long(size_t bytes, int64_t now_us) {
  if (bytes <= kLeastBytes) return;
  bad_ = std::min(bad_, bytes);
  searched_us_ = now_us;
  if (good_ >= bad_) good_ = kLeastBytes;
  if (size_ >= bad_) size_ = 0;
}

}  // namespace svc
