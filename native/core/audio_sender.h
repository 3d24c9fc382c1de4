// One session's sound: listens to a source, codes, packs and sends, on a thread of its own.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "audio_encoder.h"
#include "audio_packetizer.h"
#include "audio_source.h"
#include "loss_control.h"
#include "peer.h"
#include "socket.h"

namespace svc {

struct AudioConfig {
  /// 2, 6 or 8.
  int channels;
  /// 5 or 10.
  int frame_ms;
};

/// Since the session began, but for the drift.
struct AudioCounters {
  std::atomic<uint64_t> packets{0};
  std::atomic<uint64_t> parity_packets{0};
  std::atomic<uint64_t> wire_bytes{0};
  /// Chunks of 5 ms that were captured and came too late to be sent.
  std::atomic<uint64_t> dropped{0};
};

class AudioSender {
 public:
  /// Throws `Fault` (stage `audio`).
  AudioSender(const AudioConfig& config, const AudioPacketizerConfig& packets, const MediaKey& key,
              UdpSocket& socket, Peer& peer);
  ~AudioSender() { stop(); }

  void start();
  void stop();
  /// Goes on with another source, or with none: null. Never waits for the thread.
  void set_source(std::shared_ptr<AudioSource> source);

  /// Share of datagrams that parity is to be made for, from the next group on. Never waits for the thread.
  void set_loss(double loss) { loss_.store(loss, std::memory_order_relaxed); }

  AudioCounters counters;
  /// Of the source in use; zeros without one.
  AudioSource::Stats source_stats();

 private:
  void run();
  void code(const AudioChunk& chunk);

  AudioConfig config_;
  UdpSocket& socket_;
  Peer& peer_;
  AudioEncoder encoder_;
  AudioPacketizer packetizer_;
  Signal signal_;
  std::atomic<bool> stopping_{false};
  std::atomic<double> loss_{LossEstimate().to_mend()};

  std::mutex source_lock_;
  std::shared_ptr<AudioSource> wanted_;

  // The thread's own.
  Address to_;
  uint32_t to_version_ = 0;
  std::vector<float> frame_;
  size_t filled_ = 0;
  int64_t frame_us_ = 0;
  bool frame_silent_ = true;
  /// Of silence in a row, milliseconds.
  int silent_ms_ = 0;
  int quiet_ms_ = 0;
  std::thread thread_;
};

}  // namespace svc
