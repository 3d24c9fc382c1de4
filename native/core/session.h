// One session's pipeline: source, convert, encode, packetize, seal, send; and what its client sends back.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "audio_sender.h"
#include "clock.h"
#include "encoder.h"
#include "fault.h"
#include "histogram.h"
#include "input_sink.h"
#include "loss_control.h"
#include "packetizer.h"
#include "path_probe.h"
#include "plane.h"
#include "rate_control.h"
#include "recovery.h"
#include "replay.h"
#include "sender.h"
#include "source.h"

namespace svc {

enum class Ended : int { kStopped = 1, kSourceLost, kEncoderFailed, kPeerGone, kPeerBye };

struct Mode {
  int width;
  int height;
  int hz;
};

struct SessionKeys {
  MediaKey video_out;
  MediaKey audio_out;
  MediaKey path_out;
  MediaKey input_in;
  MediaKey path_in;
};

struct SessionConfig {
  uint64_t id;
  uint32_t epoch;
  uint32_t generation;
  SessionKeys keys;
  std::shared_ptr<Plane> plane;
  std::shared_ptr<Source> source;
  /// Null: no input.
  std::shared_ptr<InputSink> sink;
  Mode mode;
  std::string codec;
  /// Most video on the wire, parity with it.
  int bitrate_kbps;
  /// Bits of wire-decisions "Grants".
  uint32_t grants;
  size_t max_datagram_bytes;
  int64_t idle_timeout_us;
  /// Least parity shards per hundred data shards; losses bring more.
  int fec_percent;
  /// Nothing: no sound, for good.
  std::optional<AudioConfig> audio;
  /// Null: silence until there is one.
  std::shared_ptr<AudioSource> audio_source;
};

/// What is left for the encoder of `kbps` on the wire when parity takes that much in addition.
constexpr int encoder_share(int kbps, int parity_percent) { return kbps * 100 / (100 + parity_percent); }

/// Deltas since the previous sample, but for what is said otherwise.
struct Sample {
  struct Stage {
    const char* name;
    Histogram::Quantiles us;
  };
  int64_t span_us;
  std::array<Stage, 6> stages;
  Histogram::Quantiles host_us;
  uint64_t frames_new;
  uint64_t frames_repeated;
  uint64_t frames_dropped;
  uint64_t packets_sent;
  uint64_t wire_bytes;
  uint64_t payload_bytes;
  uint64_t parity_packets;
  uint64_t send_dropped;
  uint64_t input_events;
  uint64_t input_dropped;
  uint64_t keyframes;
  /// Frames that refer past what the client had lost.
  uint64_t recoveries;
  /// Now: what the way to the client is thought to bear, and the datagrams that it takes.
  int bitrate_kbps;
  size_t datagram_bytes;
  /// Share of video shards that is lost on the way, as parity takes it to be; parity shards per hundred data
  /// shards.
  double loss;
  int parity_percent;
  /// Video beyond a burst leaves at this rate.
  int pace_kbps;
  /// From the client's reports; not there before the first.
  bool has_feedback;
  uint64_t packets_lost;
  uint64_t fec_recovered;
  uint64_t frames_lost;
  /// Newest round trip; 0 before the first.
  uint32_t rtt_us;
  /// Not there without sound.
  struct Audio {
    uint64_t packets;
    uint64_t parity_packets;
    uint64_t wire_bytes;
    uint64_t dropped_chunks;
    /// From the client's reports: packets that parity could not bring back.
    uint64_t lost_packets;
    /// Since the source was opened; the drift is the newest.
    uint64_t corrected_samples;
    double drift_ppm;
  };
  std::optional<Audio> audio;
};

class Session final : private Receiver, private SliceSink {
 public:
  /// Opens the encoder; throws `Fault` (stages `encoder`, `keys`).
  explicit Session(const SessionConfig& config);
  ~Session();

  struct Listener {
    /// Once, from any engine thread.
    std::function<void(Ended)> on_ended;
    /// At most once: milliseconds from `start` to the first video packet that was sent.
    std::function<void(double)> on_streaming;
  };
  /// Starts the threads; throws `Fault` (stage `plane`) when the plane has a session of this id.
  void start(Listener listener);
  /// Ends everything and waits for it; may be called again.
  void close();

  // These never wait for an engine thread.
  void request_keyframe();
  /// The client could not put frame `first_lost` together, so that nothing since is of use to it.
  void recover_from(uint32_t first_lost);
  void set_grants(uint32_t grants);
  void set_bitrate(int kbps);
  /// Null: silence. Without sound from the start nothing happens.
  void set_audio_source(std::shared_ptr<AudioSource> source);
  Sample sample();

  /// Waits until the next frame is one of the new mode; throws `Fault` and goes on as before when that cannot
  /// be.
  void resize(std::shared_ptr<Source> source, Mode mode, uint32_t generation);

 private:
  struct Resize {
    std::shared_ptr<Source> source;
    Mode mode;
    uint32_t generation;
    std::optional<Fault> fault;
    bool done = false;
  };

  // Encode thread.
  void run();
  /// Does what is due; gives how long nothing will be due, in microseconds, below 0 for ever.
  int64_t step();
  void open_first_encoder();
  void apply_resize();
  enum class Entry { kNone, kAnswers, kRepeatsAnswer, kKeyframe };
  /// How the client can go on with the next frame; asked right before that is coded.
  Entry next_entry(int64_t now);
  void encode(Entry entry, bool repeat, const Picture::Times& times, int64_t taken_us);
  void apply_path();
  void coded(View bytes, bool slice_ends, bool frame_ends) override;

  // The plane's receive thread.
  bool receive(const Header& header, uint8_t* datagram, size_t bytes, const Address& from,
               int64_t now) override;
  void tick(int64_t now) override;
  /// Nothing has followed `frame` for a while: if it is lost, nothing else would tell.
  void on_tail(uint32_t frame);
  void on_path(View payload, size_t datagram_bytes, int64_t now);
  void on_input(View payload);
  void on_feedback(View body, int64_t now);
  void on_request(View body);
  void probe(const Address& to, int64_t now);

  /// False when the system found the datagram too long for the way out.
  bool send_path(const Address& to, const uint8_t* payload, size_t bytes);
  void end(Ended why);

  SessionConfig config_;
  Listener listener_;
  int64_t opened_us_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ended_{false};
  Signal signal_;
  Peer peer_;

  PacketRing ring_;
  Packetizer packetizer_;
  Sender sender_;
  std::unique_ptr<AudioSender> audio_;
  std::thread thread_;
  std::mutex close_lock_;
  bool closed_ = false;
  bool started_ = false;

  // Asked for from outside, done by the encode thread.
  std::atomic<bool> keyframe_wanted_{true};
  /// Below 0: nothing is missed.
  std::atomic<int64_t> lost_from_{-1};
  std::atomic<int> bitrate_wanted_{0};
  std::atomic<bool> resize_wanted_{false};
  std::mutex resize_lock_;
  std::condition_variable resized_;
  Resize* resize_ = nullptr;
  bool encode_gone_ = false;

  // Encode thread only.
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<Planes> planes_;
  Converter converter_;
  Watcher watcher_;
  bool watching_ = false;
  bool has_picture_ = false;
  RateCap cap_;
  uint32_t frame_ = 0;
  int64_t keyframe_allowed_us_ = 0;
  Recovery recovery_;
  /// The loss that the frame being coded answers.
  uint32_t answered_from_ = 0;
  int64_t pictured_us_ = 0;
  int encoder_kbps_ = 0;
  int64_t refine_at_us_ = -1;
  int refines_left_ = 0;
  int64_t packetize_us_sum_ = 0;

  // Receive thread only.
  Cipher path_in_;
  Cipher input_in_;
  ReplayWindow path_window_;
  ReplayWindow input_window_;
  uint32_t input_next_ = 0;
  PathProbe probe_;
  LossEstimate estimate_;
  LossReport reported_{};
  int64_t heard_us_ = 0;

  std::mutex rate_lock_;
  RateControl rate_;

  std::mutex path_lock_;
  Cipher path_out_;
  uint64_t path_counter_ = 0;

  std::shared_ptr<InputClient> input_;

  Histogram queue_us_;
  Histogram capture_us_;
  Histogram convert_us_;
  Histogram encode_us_;
  Histogram packetize_us_;
  std::atomic<uint64_t> frames_new_{0};
  std::atomic<uint64_t> frames_repeated_{0};
  std::atomic<uint64_t> frames_dropped_{0};
  std::atomic<uint64_t> input_dropped_{0};
  std::atomic<uint64_t> keyframes_{0};
  std::atomic<uint64_t> recoveries_{0};
  std::atomic<int> bitrate_kbps_{0};
  std::atomic<bool> has_feedback_{false};
  std::atomic<uint32_t> lost_{0};
  std::atomic<uint32_t> recovered_{0};
  std::atomic<uint32_t> frames_lost_{0};
  std::atomic<uint32_t> audio_lost_{0};
  std::atomic<uint32_t> rtt_us_{0};
  std::atomic<double> loss_measured_{0};
  std::atomic<double> loss_to_mend_{LossEstimate().to_mend()};
  std::atomic<size_t> datagram_bytes_{PathProbe::kLeastBytes};
  std::atomic<int> parity_percent_{0};

  /// Totals at the previous sample; the sampling thread's own.
  struct Totals {
    int64_t at_us = 0;
    uint64_t audio_packets = 0, audio_parity = 0, audio_wire = 0, audio_dropped = 0;
    uint64_t frames_new = 0, frames_repeated = 0, frames_dropped = 0, packets = 0, wire = 0, payload = 0,
             parity = 0, send_dropped = 0, input_events = 0, input_dropped = 0, keyframes = 0, recoveries = 0;
    uint32_t lost = 0, recovered = 0, frames_lost = 0, audio_lost = 0;
  } sampled_;
};

}  // namespace svc
