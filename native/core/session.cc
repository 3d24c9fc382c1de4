// One session's life and its encode thread; what it receives is in session_receive.cc.
#include "session.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <exception>

#include "path.h"
#include "thread.h"

namespace svc {

namespace {
// A client that has lost its picture asks until it has one; more keyframes than this would only take its
// bits.
constexpr int64_t kKeyframeSpacingUs = 100'000;
// A picture that stopped changing is coded again, finer each time, until it is fine or this often.
constexpr int kMostRefines = 30;
// Not while pictures are only slow in coming: a video of 24 Hz has pauses of 42 ms.
constexpr int64_t kStillAfterUs = 70'000;
constexpr int64_t kRefineSpacingUs = 33'000;
}  // namespace

Session::Session(const SessionConfig& config)
    : config_(config),
      packetizer_({config.id, static_cast<uint8_t>(config.epoch), PathProbe::kLeastBytes, config.fec_percent},
                  config.keys.video_out, ring_),
      sender_(config.plane->socket(), peer_, ring_),
      path_in_(config.keys.path_in, false),
      input_in_(config.keys.input_in, false),
      probe_(config.max_datagram_bytes),
      rate_(config.bitrate_kbps),
      path_out_(config.keys.path_out, true),
      input_(std::make_shared<InputClient>()) {
  if (config.audio) {
    const AudioPacketizerConfig packets{config.id, static_cast<uint8_t>(config.epoch)};
    audio_ = std::make_unique<AudioSender>(*config.audio, packets, config.keys.audio_out,
                                           config.plane->socket(), peer_);
    audio_->set_source(config.audio_source);
  }
  OPENSSL_cleanse(&config_.keys, sizeof config_.keys);
  encoder_kbps_ = encoder_share(config.bitrate_kbps, packetizer_.overhead_percent());
  open_first_encoder();
  planes_ = std::make_unique<Planes>(config.mode.width, config.mode.height);
  bitrate_kbps_ = config.bitrate_kbps;
  bitrate_wanted_ = config.bitrate_kbps;
  input_->grants = config.grants;
}

Session::~Session() { close(); }

void Session::open_first_encoder() {
  const Mode& mode = config_.mode;
  const EncoderConfig encoder{config_.codec, mode.width, mode.height, mode.hz, encoder_kbps_};
  std::exception_ptr fault;
  // An encoder's own threads inherit name, signal mask and urgency of the one that opens it.
  start_thread("svc-encode", Urgency::kHigh, [&] {
    try {
      encoder_ = open_encoder(encoder);
    } catch (...) {
      fault = std::current_exception();
    }
  }).join();
  if (fault) std::rethrow_exception(fault);
}

void Session::start(Listener listener) {
  // Whoever closes while this starts waits, and finds all of it or nothing.
  const std::lock_guard closing(close_lock_);
  if (closed_) throw Fault("plane", "closed", "the session was closed before it had started");
  listener_ = std::move(listener);
  opened_us_ = heard_us_ = sampled_.at_us = now_us();
  sender_.set_bitrate(config_.bitrate_kbps);
  if (!config_.plane->add(config_.id, *this)) {
    throw Fault("plane", "session-exists", "a session of this id is open already; close it first");
  }
  if (config_.sink) config_.sink->attach(input_);
  started_ = true;
  sender_.start(
      {.on_first = [this] { listener_.on_streaming(static_cast<double>(now_us() - opened_us_) / 1000); },
       .on_tail = [this](uint32_t frame) { on_tail(frame); }});
  if (audio_) audio_->start();
  thread_ = start_thread("svc-encode", Urgency::kHigh, [this] { run(); });
}

void Session::close() {
  const std::lock_guard closing(close_lock_);
  if (closed_) return;
  closed_ = true;
  if (!started_) return;
  config_.plane->remove(config_.id);
  stopping_.store(true, std::memory_order_release);
  signal_.notify();
  if (thread_.joinable()) thread_.join();
  sender_.stop();
  if (audio_) audio_->stop();
  if (peer_.is_known()) {
    Address to;
    uint32_t version = 0;
    peer_.read(to, version);
    uint8_t payload[PathWriter::kRoom];
    PathWriter writer(payload);
    writer.add(PathType::kBye, 0);
    send_path(to, payload, writer.bytes());
  }
  if (config_.sink) config_.sink->detach(input_);
  end(Ended::kStopped);
}

void Session::end(Ended why) {
  if (ended_.exchange(true, std::memory_order_acq_rel)) return;
  // Without grants the sink lets go of what this client holds, whenever `close` may come.
  input_->grants.store(0, std::memory_order_release);
  if (config_.sink) config_.sink->notify();
  signal_.notify();
  listener_.on_ended(why);
}

void Session::set_grants(uint32_t grants) {
  if (ended_.load(std::memory_order_acquire)) return;
  input_->grants.store(grants, std::memory_order_release);
  if (config_.sink) config_.sink->notify();
}

void Session::set_audio_source(std::shared_ptr<AudioSource> source) {
  if (audio_) audio_->set_source(std::move(source));
}

void Session::resize(std::shared_ptr<Source> source, Mode mode, uint32_t generation) {
  Resize wish{std::move(source), mode, generation, std::nullopt};
  std::unique_lock held(resize_lock_);
  resized_.wait(held, [this] { return !resize_ || encode_gone_; });
  if (!encode_gone_) {
    resize_ = &wish;
    resize_wanted_.store(true, std::memory_order_release);
    signal_.notify();
    resized_.wait(held, [&] { return wish.done; });
  } else {
    wish.fault = Fault("resize", "ended", "the session has ended, so it cannot be resized");
  }
  if (wish.fault) throw *wish.fault;
}

void Session::run() {
  while (true) {
    const uint32_t seen = signal_.current();
    if (stopping_.load(std::memory_order_acquire) || ended_.load(std::memory_order_acquire)) break;
    const int64_t idle_us = step();
    if (idle_us != 0) signal_.wait(seen, idle_us);
  }
  if (watching_) config_.source->unwatch(watcher_);
  const std::lock_guard held(resize_lock_);
  encode_gone_ = true;
  if (resize_) {
    resize_->fault = Fault("resize", "ended", "the session ended before it could be resized");
    resize_->done = true;
    resize_ = nullptr;
  }
  resized_.notify_all();
}

int64_t Session::step() {
  if (resize_wanted_.exchange(false, std::memory_order_acq_rel)) apply_resize();
  apply_path();
  // What nobody can be sent is not worth capturing.
  if (!peer_.is_known()) return -1;
  if (!watching_) {
    config_.source->watch(watcher_, signal_, config_.mode.hz);
    watching_ = true;
  }
  if (config_.source->has_ended()) {
    end(Ended::kSourceLost);
    return 0;
  }

  int64_t now = now_us();
  // Another session may make the source faster than this one is.
  const int64_t early_us = cap_.delay_us(now, config_.mode.hz);
  uint64_t missed = 0;
  Picture picture = early_us <= 0 ? config_.source->take(watcher_, missed) : Picture();
  if (picture) {
    cap_.spend(now, config_.mode.hz);
    frames_dropped_.fetch_add(missed, std::memory_order_relaxed);
    const Picture::Times times = picture.times();
    now = now_us();
    converter_.convert(picture, *planes_);
    picture = Picture();
    convert_us_.add(now_us() - now);
    has_picture_ = true;
    pictured_us_ = now;
    encode(next_entry(now), false, times, now);
    refines_left_ = kMostRefines;
    refine_at_us_ = now + std::max<int64_t>(kStillAfterUs, 2'500'000 / config_.mode.hz);
    return 0;
  }
  // While the picture moves the next one is about to come; a still one must be coded once more.
  const int64_t entry_at_us = pictured_us_ + 1'500'000 / config_.mode.hz;
  if (has_picture_ && now >= entry_at_us) {
    if (const Entry entry = next_entry(now); entry != Entry::kNone) {
      encode(entry, true, {now, now, now}, now);
      refines_left_ = kMostRefines;
      refine_at_us_ = now + kRefineSpacingUs;
      return 0;
    }
  }
  int64_t idle_us = early_us > 0 ? early_us : -1;
  const auto wake_by = [&](int64_t at) { idle_us = idle_us < 0 ? at - now : std::min(idle_us, at - now); };
  const bool lacks = lost_from_.load(std::memory_order_acquire) >= 0;
  if (has_picture_ && lacks) wake_by(entry_at_us);
  if (has_picture_ && keyframe_wanted_.load(std::memory_order_acquire)) {
    wake_by(std::max(keyframe_allowed_us_, entry_at_us));
  }
  if (has_picture_ && refines_left_ > 0) {
    if (now >= refine_at_us_) {
      encode(next_entry(now), true, {now, now, now}, now);
      refine_at_us_ = now + kRefineSpacingUs;
      return 0;
    }
    wake_by(refine_at_us_);
  }
  return idle_us;
}

void Session::encode(Entry entry, bool repeat, const Picture::Times& times, int64_t taken_us) {
  const bool keyframe = entry == Entry::kKeyframe;
  const bool recovers = entry == Entry::kAnswers || entry == Entry::kRepeatsAnswer;
  if (!repeat) {
    queue_us_.add((times.begun_us - times.wanted_us) + (taken_us - times.done_us));
    capture_us_.add(times.done_us - times.begun_us);
  }
  const uint8_t flags =
      static_cast<uint8_t>((keyframe ? kKeyframe : 0) | (repeat ? kRepeat : 0) | (recovers ? kRecovers : 0));
  packetizer_.begin({frame_++, flags, static_cast<uint8_t>(config_.generation), times.begun_us});
  packetize_us_sum_ = 0;
  const int64_t begun = now_us();
  const Coded coded = encoder_->encode(*planes_, keyframe, *this);
  const int64_t done = now_us();
  if (!coded.ok) {
    end(Ended::kEncoderFailed);
    return;
  }
  encode_us_.add(done - begun - packetize_us_sum_);
  packetize_us_.add(packetize_us_sum_);
  if (keyframe) keyframe_allowed_us_ = done + kKeyframeSpacingUs;
  if (packetizer_.overflowed()) {
    // The client cannot use what follows a frame that is not whole.
    frames_dropped_.fetch_add(1, std::memory_order_relaxed);
    keyframe_wanted_.store(true, std::memory_order_release);
    keyframe_allowed_us_ = done + kKeyframeSpacingUs;
  } else if (keyframe) {
    recovery_.answered(frame_ - 1, done);
    keyframes_.fetch_add(1, std::memory_order_relaxed);
  } else if (recovers) {
    if (entry == Entry::kAnswers) {
      recovery_.answered_from(answered_from_, frame_ - 1, done, rtt_us_.load(std::memory_order_relaxed));
    } else {
      recovery_.repeated(frame_ - 1);
    }
    recoveries_.fetch_add(1, std::memory_order_relaxed);
  }
  (repeat ? frames_repeated_ : frames_new_).fetch_add(1, std::memory_order_relaxed);
  if (repeat) {
    refines_left_--;
    if (!keyframe && coded.quantizer <= encoder_->fine_quantizer()) refines_left_ = 0;
  }
}

void Session::coded(View bytes, bool slice_ends, bool frame_ends) {
  const int64_t begun = now_us();
  if (packetizer_.add(bytes, slice_ends, frame_ends)) sender_.notify();
  packetize_us_sum_ += now_us() - begun;
}

void Session::apply_resize() {
  Resize* wish;
  {
    const std::lock_guard held(resize_lock_);
    wish = resize_;
  }
  if (!wish) return;
  try {
    // Opened first: when that fails, the session goes on as it was.
    auto encoder =
        open_encoder({config_.codec, wish->mode.width, wish->mode.height, wish->mode.hz, encoder_kbps_});
    encoder_ = std::move(encoder);
    planes_ = std::make_unique<Planes>(wish->mode.width, wish->mode.height);
    if (watching_) config_.source->unwatch(watcher_);
    watching_ = false;
    config_.source = wish->source;
    config_.mode = wish->mode;
    config_.generation = wish->generation;
    has_picture_ = false;
    refines_left_ = 0;
    keyframe_allowed_us_ = 0;
    keyframe_wanted_.store(true, std::memory_order_release);
  } catch (const Fault& fault) {
    wish->fault = fault;
  }
  const std::lock_guard held(resize_lock_);
  wish->done = true;
  resize_ = nullptr;
  resized_.notify_all();
}

Sample Session::sample() {
  Totals now;
  const auto read = [](const auto& counter) { return counter.load(std::memory_order_relaxed); };
  now.at_us = now_us();
  now.frames_new = read(frames_new_);
  now.frames_repeated = read(frames_repeated_);
  now.frames_dropped = read(frames_dropped_);
  now.packets = read(sender_.counters.packets);
  now.wire = read(sender_.counters.wire_bytes);
  now.payload = read(sender_.counters.payload_bytes);
  now.parity = read(sender_.counters.parity_packets);
  now.send_dropped = read(sender_.counters.dropped);
  now.input_events = read(input_->applied);
  now.keyframes = read(keyframes_);
  now.recoveries = read(recoveries_);
  now.input_dropped = read(input_->refused) + read(input_dropped_);
  now.lost = read(lost_);
  now.recovered = read(recovered_);
  now.frames_lost = read(frames_lost_);
  now.audio_lost = read(audio_lost_);
  if (audio_) {
    now.audio_packets = read(audio_->counters.packets);
    now.audio_parity = read(audio_->counters.parity_packets);
    now.audio_wire = read(audio_->counters.wire_bytes);
    now.audio_dropped = read(audio_->counters.dropped);
  }
  const Totals& was = sampled_;
  Sample sample{
      .span_us = now.at_us - was.at_us,
      .stages = {{{"queue", queue_us_.take()},
                  {"capture", capture_us_.take()},
                  {"convert", convert_us_.take()},
                  {"encode", encode_us_.take()},
                  {"packetize", packetize_us_.take()},
                  {"send", sender_.send_us.take()}}},
      .host_us = sender_.host_us.take(),
      .frames_new = now.frames_new - was.frames_new,
      .frames_repeated = now.frames_repeated - was.frames_repeated,
      .frames_dropped = now.frames_dropped - was.frames_dropped,
      .packets_sent = now.packets - was.packets,
      .wire_bytes = now.wire - was.wire,
      .payload_bytes = now.payload - was.payload,
      .parity_packets = now.parity - was.parity,
      .send_dropped = now.send_dropped - was.send_dropped,
      .input_events = now.input_events - was.input_events,
      .input_dropped = now.input_dropped - was.input_dropped,
      .keyframes = now.keyframes - was.keyframes,
      .recoveries = now.recoveries - was.recoveries,
      .bitrate_kbps = read(bitrate_wanted_),
      .datagram_bytes = read(datagram_bytes_),
      .loss = read(loss_measured_),
      .parity_percent = read(parity_percent_),
      .pace_kbps = sender_.pace(),
      .has_feedback = has_feedback_.load(std::memory_order_acquire),
      .packets_lost = uint32_t{now.lost - was.lost},
      .fec_recovered = uint32_t{now.recovered - was.recovered},
      .frames_lost = uint32_t{now.frames_lost - was.frames_lost},
      .rtt_us = read(rtt_us_),
  };
  if (audio_) {
    const AudioSource::Stats source = audio_->source_stats();
    sample.audio = Sample::Audio{
        .packets = now.audio_packets - was.audio_packets,
        .parity_packets = now.audio_parity - was.audio_parity,
        .wire_bytes = now.audio_wire - was.audio_wire,
        .dropped_chunks = now.audio_dropped - was.audio_dropped,
        .lost_packets = uint32_t{now.audio_lost - was.audio_lost},
        .corrected_samples = source.corrected,
        .drift_ppm = source.drift_ppm,
    };
  }
  sampled_ = now;
  return sample;
}

}  // namespace svc
