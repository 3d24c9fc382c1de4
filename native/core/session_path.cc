// What a session makes of the way to its client: losses, the bitrate it bears, the datagrams it takes.
#include <algorithm>

#include "path.h"
#include "session.h"

namespace svc {

namespace {
enum class Request : uint8_t { kKeyframe = 1, kRefresh = 2 };
// The encoder is told of changes of its share by more than this, in twentieths; each costs it a little.
constexpr int kWorthwhile = 20;
// A keyframe that was lost may be followed by another one this much sooner than one that was only asked for.
constexpr int64_t kSoonerUs = 50'000;
// What has not been heard for this long is not probed.
constexpr int64_t kProbedWithinUs = 1'500'000;
}  // namespace

void Session::request_keyframe() {
  keyframe_wanted_.store(true, std::memory_order_release);
  signal_.notify();
}

void Session::recover_from(uint32_t first_lost) {
  int64_t known = lost_from_.load(std::memory_order_acquire);
  while (known < 0 || first_lost < known) {
    if (lost_from_.compare_exchange_weak(known, first_lost, std::memory_order_acq_rel)) break;
  }
  signal_.notify();
}

void Session::set_bitrate(int kbps) {
  const std::lock_guard held(rate_lock_);
  rate_.wish(kbps);
  bitrate_wanted_.store(rate_.kbps(), std::memory_order_release);
  signal_.notify();
}

Session::Entry Session::next_entry(int64_t now) {
  const int64_t lost = lost_from_.exchange(-1, std::memory_order_acq_rel);
  const bool is_due =
      lost >= 0 && lost < frame_ &&
      recovery_.is_due(static_cast<uint32_t>(lost), now, rtt_us_.load(std::memory_order_relaxed));
  const std::optional<uint32_t> from = is_due ? static_cast<uint32_t>(lost) : recovery_.repeats(now);
  const bool recovers = from && encoder_->forget(frame_ - *from);
  if (is_due && !recovers) keyframe_wanted_.store(true, std::memory_order_release);
  if (from && !recovers) recovery_.stop_repeating();
  if (now >= keyframe_allowed_us_ - (is_due ? kSoonerUs : 0) &&
      keyframe_wanted_.exchange(false, std::memory_order_acq_rel)) {
    return Entry::kKeyframe;
  }
  if (!recovers) return Entry::kNone;
  answered_from_ = *from;
  return is_due ? Entry::kAnswers : Entry::kRepeatsAnswer;
}

void Session::apply_path() {
  packetizer_.set_path(loss_to_mend_.load(std::memory_order_relaxed),
                       datagram_bytes_.load(std::memory_order_relaxed));
  const int overhead = packetizer_.overhead_percent();
  parity_percent_.store(overhead, std::memory_order_relaxed);
  const int wanted = bitrate_wanted_.load(std::memory_order_acquire);
  if (wanted != bitrate_kbps_.load(std::memory_order_relaxed)) {
    bitrate_kbps_.store(wanted, std::memory_order_relaxed);
    sender_.set_bitrate(wanted);
  }
  const int share = encoder_share(wanted, overhead);
  if (std::abs(share - encoder_kbps_) * kWorthwhile <= encoder_kbps_) return;
  encoder_kbps_ = share;
  encoder_->set_bitrate(share);
}

void Session::on_feedback(View body, int64_t now) {
  LossReport report{now, get32(body.data + 4), get32(body.data + 8), get32(body.data + 16)};
  // Sound takes the same way; on a still screen nothing but it tells of losses.
  if (body.has(36)) {
    report.received += get32(body.data + 28);
    report.lost += get32(body.data + 32);
  }
  if (body.has(40)) sender_.set_path_rate(get32(body.data + 36));
  estimate_.report(report);
  loss_to_mend_.store(estimate_.to_mend(), std::memory_order_relaxed);
  loss_measured_.store(estimate_.measured(), std::memory_order_relaxed);
  if (audio_) audio_->set_loss(estimate_.to_mend());
  const uint32_t lost = report.lost - std::min(report.lost, reported_.lost);
  const uint32_t received = report.received - std::min(report.received, reported_.received);
  const uint32_t frames_lost = report.frames_lost - std::min(report.frames_lost, reported_.frames_lost);
  reported_ = report;
  const double share = lost + received == 0 ? 0 : static_cast<double>(lost) / (double{1} * lost + received);
  const std::lock_guard held(rate_lock_);
  rate_.report({now, share, frames_lost, static_cast<int32_t>(get32(body.data + 24))});
  bitrate_wanted_.store(rate_.kbps(), std::memory_order_release);
}

void Session::on_tail(uint32_t frame) {
  Address to;
  uint32_t version = 0;
  peer_.read(to, version);
  uint8_t payload[PathWriter::kRoom];
  PathWriter writer(payload);
  put32(writer.add(PathType::kSent, 4), frame);
  send_path(to, payload, writer.bytes());
}

void Session::on_request(View body) {
  if (!body.has(1)) return;
  const auto kind = static_cast<Request>(body.data[0]);
  if (kind == Request::kRefresh && body.has(9)) {
    recover_from(get32(body.data + 5));
  } else if (kind == Request::kKeyframe || kind == Request::kRefresh) {
    request_keyframe();
  }
}

void Session::probe(const Address& to, int64_t now) {
  if (now - heard_us_ > kProbedWithinUs) return;
  if (const size_t refused = sender_.take_too_long(); refused != 0) probe_.too_long(refused, now);
  if (const size_t bytes = probe_.due(now); bytes != 0) {
    uint8_t payload[kMaxDatagramBytes];
    const size_t body = bytes - kHeaderBytes - kTagBytes - 3;
    PathWriter writer(payload);
    uint8_t* at = writer.add(PathType::kProbe, static_cast<uint16_t>(body));
    std::fill_n(at, body, uint8_t{0});
    put32(at, probe_.id());
    if (!send_path(to, payload, writer.bytes())) probe_.too_long(bytes, now);
  }
  datagram_bytes_.store(probe_.bytes(), std::memory_order_relaxed);
}

}  // namespace svc
