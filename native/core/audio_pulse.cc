// Records from a PulseAudio server: the monitor of a session's sink, for as long as the source lives; in
// pieces of 5 ms while somebody listens. A server that is not there yet, or goes and comes back, is tried
// again; there is silence meanwhile.
#include <pulse/pulseaudio.h>

#include <algorithm>
#include <limits>

#include "audio_source.h"
#include "clock.h"
#include "fault.h"

namespace svc {

namespace {

constexpr int64_t kAgainUs = 200'000;
// While nobody listens: seldom enough to cost nothing, and soon enough for the server to be quick again when
// somebody does.
constexpr int64_t kUnheardChunkUs = 50'000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Opus has the channels of surround in the order of Vorbis (RFC 7845, 5.1.1.2); the server puts them so.
pa_channel_map map_of(int channels) {
  pa_channel_map map;
  pa_channel_map_init(&map);
  static constexpr pa_channel_position_t kStereo[] = {PA_CHANNEL_POSITION_FRONT_LEFT,
                                                      PA_CHANNEL_POSITION_FRONT_RIGHT};
  static constexpr pa_channel_position_t kFive[] = {
      PA_CHANNEL_POSITION_FRONT_LEFT, PA_CHANNEL_POSITION_FRONT_CENTER, PA_CHANNEL_POSITION_FRONT_RIGHT,
      PA_CHANNEL_POSITION_REAR_LEFT,  PA_CHANNEL_POSITION_REAR_RIGHT,   PA_CHANNEL_POSITION_LFE};
  static constexpr pa_channel_position_t kSeven[] = {
      PA_CHANNEL_POSITION_FRONT_LEFT, PA_CHANNEL_POSITION_FRONT_CENTER, PA_CHANNEL_POSITION_FRONT_RIGHT,
      PA_CHANNEL_POSITION_SIDE_LEFT,  PA_CHANNEL_POSITION_SIDE_RIGHT,   PA_CHANNEL_POSITION_REAR_LEFT,
      PA_CHANNEL_POSITION_REAR_RIGHT, PA_CHANNEL_POSITION_LFE};
  const pa_channel_position_t* from = channels == 8 ? kSeven : channels == 6 ? kFive : kStereo;
  map.channels = static_cast<uint8_t>(channels);
  for (int i = 0; i < channels; i++) map.map[i] = from[i];
  return map;
}

class PulseSource final : public AudioSource {
 public:
  explicit PulseSource(const AudioSourceConfig& config)
      : AudioSource(config.channels),
        server_("unix:" + config.server),
        cookie_(config.cookie),
        device_(config.device),
        loop_(pa_mainloop_new()) {
    if (!loop_) throw Fault("audio", "no-files", "no file descriptor is left; raise the limit of open files");
  }
  ~PulseSource() override {
    stop();
    pa_mainloop_free(loop_);
  }

 private:
  void run() override {
    while (!is_stopping()) {
      record();
      reset();
      if (is_stopping()) return;
      const uint32_t seen = wake_.current();
      if (!is_stopping()) wake_.wait(seen, kAgainUs);
    }
  }

  void interrupt() override {
    wake_.notify();
    pa_mainloop_wakeup(loop_);
  }

  /// From connecting to the loss of the server, of the device, or the end.
  void record() {
    pa_context* context = pa_context_new(pa_mainloop_get_api(loop_), "svc-host");
    if (!context) return;
    pa_context_load_cookie_from_file(context, cookie_.c_str());
    pa_stream* stream = nullptr;
    if (pa_context_connect(context, server_.c_str(), PA_CONTEXT_NOAUTOSPAWN, nullptr) == 0) {
      while (!is_stopping() && pa_mainloop_iterate(loop_, 1, nullptr) >= 0) {
        const pa_context_state_t state = pa_context_get_state(context);
        if (!PA_CONTEXT_IS_GOOD(state)) break;
        if (state != PA_CONTEXT_READY) continue;
        if (!stream && !(stream = open(context))) break;
        if (!PA_STREAM_IS_GOOD(pa_stream_get_state(stream))) break;
        const bool is_ready = pa_stream_get_state(stream) == PA_STREAM_READY;
        if (is_ready && has_listeners() != is_heard_) change_pieces(stream);
      }
    }
    if (stream) {
      pa_stream_set_read_callback(stream, nullptr, nullptr);
      pa_stream_disconnect(stream);
      pa_stream_unref(stream);
    }
    pa_context_disconnect(context);
    pa_context_unref(context);
  }

  pa_stream* open(pa_context* context) {
    const pa_sample_spec spec{PA_SAMPLE_FLOAT32NE, kAudioRate, static_cast<uint8_t>(channels())};
    const pa_channel_map map = map_of(channels());
    pa_stream* stream = pa_stream_new(context, "stream", &spec, &map);
    if (!stream) return nullptr;
    pa_stream_set_read_callback(
        stream, [](pa_stream* from, size_t, void* self) { static_cast<PulseSource*>(self)->read(from); },
        this);
    is_heard_ = has_listeners();
    heard_from_us_ = is_heard_ ? 0 : kNever;
    const pa_buffer_attr attr = pieces(spec);
    // The server's own latency follows what is asked for here, so a player with a large buffer cannot set it.
    const auto flags = static_cast<pa_stream_flags_t>(PA_STREAM_ADJUST_LATENCY | PA_STREAM_DONT_MOVE);
    if (pa_stream_connect_record(stream, device_.c_str(), &attr, flags) == 0) return stream;
    pa_stream_unref(stream);
    return nullptr;
  }

  pa_buffer_attr pieces(const pa_sample_spec& spec) const {
    const auto unset = static_cast<uint32_t>(-1);
    const pa_usec_t us = is_heard_ ? kChunkUs : kUnheardChunkUs;
    return {unset, unset, unset, unset, static_cast<uint32_t>(pa_usec_to_bytes(us, &spec))};
  }

  /// Somebody began to listen, or nobody does any more.
  void change_pieces(pa_stream* stream) {
    is_heard_ = !is_heard_;
    heard_from_us_ = kNever;
    reset();
    const pa_buffer_attr attr = pieces(*pa_stream_get_sample_spec(stream));
    const auto answered = [](pa_stream*, int, void* of) {
      auto* self = static_cast<PulseSource*>(of);
      // What was made in large pieces before has come by then; it would tell the clock wrong times.
      if (self->is_heard_) self->heard_from_us_ = now_us() + kUnheardChunkUs + kChunkUs;
    };
    pa_operation* const asked = pa_stream_set_buffer_attr(stream, &attr, answered, this);
    if (asked) pa_operation_unref(asked);
  }

  void read(pa_stream* stream) {
    const size_t frame_bytes = sizeof(float) * static_cast<size_t>(channels());
    // A null sink renders a block when the first sample of it is due, so that one is captured as it arrives.
    const auto waiting_us =
        static_cast<int64_t>(pa_stream_readable_size(stream) / frame_bytes) * 1'000'000 / kAudioRate;
    const int64_t now = now_us();
    int64_t first = now - std::max<int64_t>(0, waiting_us - kChunkUs);
    const void* data = nullptr;
    size_t bytes = 0;
    while (pa_stream_readable_size(stream) > 0 && pa_stream_peek(stream, &data, &bytes) == 0 && bytes > 0) {
      const size_t frames = now >= heard_from_us_ ? bytes / frame_bytes : 0;
      if (!data) hole_.assign(frames * static_cast<size_t>(channels()), 0.F);
      if (frames > 0) feed(data ? static_cast<const float*>(data) : hole_.data(), frames, first);
      first += static_cast<int64_t>(frames) * 1'000'000 / kAudioRate;
      pa_stream_drop(stream);
    }
  }

  std::string server_;
  std::string cookie_;
  std::string device_;
  pa_mainloop* loop_;
  Signal wake_;
  /// Whether the server was asked for small pieces, and when the first came that counts.
  bool is_heard_ = false;
  int64_t heard_from_us_ = kNever;
  std::vector<float> hole_;
};

}  // namespace

std::unique_ptr<AudioSource> open_pulse_source(const AudioSourceConfig& config) {
  return std::make_unique<PulseSource>(config);
}

}  // namespace svc
