// How much parity a block gets: the loss that the client reports, and the binomial tail that it leaves.
#pragma once
#include <cstdint>

namespace svc {

/// What a client tells in one feedback message, since the start of the epoch (PROTOCOL.md, section 7).
struct LossReport {
  int64_t at_us;
  uint32_t received;
  uint32_t lost;
  uint32_t frames_lost;
};

/// The share of shards to be mended: rises with one report that chance cannot explain, falls slowly.
class LossEstimate {
 public:
  /// Takes reports in the order in which they were made.
  void report(const LossReport& report);
  /// Share of shards, 0 to 0.5, that parity is to be made for: what is lost, a margin, and more of both where
  /// losses come in bursts.
  double to_mend() const;
  /// Share of shards lost, as measured.
  double measured() const { return measured_; }

 private:
  // A line of which nothing is known yet.
  double loss_ = 0.01;
  double measured_ = 0;
  double shards_ = 0;
  double burst_ = 1;
  int64_t attacked_us_ = INT64_MIN / 2;
  bool has_last_ = false;
  LossReport last_{};
};

/// Least m, from one shard and `least_percent` of k up, with which a block of k data shards is beyond mending
/// less than once in 10,000 when each shard is lost with the probability `loss`. None at all when
/// `least_percent` is 0 and nothing is lost.
int parity_for(int k, double loss, int least_percent);

/// The same for a group of `k` packets of sound, and none while next to nothing is lost.
int sound_parity_for(int k, double loss);

/// Data shards that a block should have before it is closed. Little blocks leave early; larger ones need less
/// parity.
int shards_before_close(double loss);

}  // namespace svc
