// Software H.264 by libx264: no lookahead, no reordering, and every slice handed on as soon as it is coded.
#include <cstdint>

// Needs the integer types in front of it.
#include <x264.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "encoder.h"
#include "fault.h"

namespace svc {

namespace {

class X264Encoder final : public Encoder {
 public:
  explicit X264Encoder(const EncoderConfig& config)
      : macroblocks_(((config.width + 15) / 16) * ((config.height + 15) / 16)) {
    if (x264_param_default_preset(&param_, "ultrafast", "zerolatency") < 0) fail();
    param_.i_width = config.width;
    param_.i_height = config.height;
    param_.i_csp = X264_CSP_I420;
    param_.i_fps_num = static_cast<uint32_t>(config.hz);
    param_.i_fps_den = 1;
    param_.b_vfr_input = 0;
    // A keyframe comes when one is asked for and never else: on a timer it would only cost bits.
    param_.i_keyint_max = X264_KEYINT_MAX_INFINITE;
    param_.i_scenecut_threshold = 0;
    param_.b_repeat_headers = 1;
    param_.b_annexb = 1;
    param_.i_log_level = X264_LOG_NONE;
    // Old pictures are kept for a client that has lost newer ones; the search for motion still looks at one
    // alone.
    const int room = std::clamp(kMostMacroblocksKept / macroblocks_, 2, kMostKept);
    few_ = std::clamp(config.hz * kFewMs / 1000 + 1, 2, room);
    many_ = std::clamp(config.hz * kManyMs / 1000 + 1, 2, room);
    quiet_pictures_ = int64_t{config.hz} * kQuietSeconds;
    kept_ = few_;
    param_.i_dpb_size = kept_;
    // What libyuv's ARGBToI420 makes of a desktop's pixels: sRGB, BT.601 matrix, limited range.
    param_.vui.b_fullrange = 0;
    param_.vui.i_colorprim = 1;
    param_.vui.i_transfer = 13;
    param_.vui.i_colmatrix = 6;
    // Threads code bands of one frame side by side; beyond four, their slices cost more bits than they save
    // time.
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    param_.i_threads = std::clamp(std::min(cores, config.height / 128), 1, 4);
    param_.b_sliced_threads = param_.i_threads > 1;
    // Two slices a band: the first half of each leaves while the second is coded.
    const int rows = (config.height + 15) / 16;
    const int columns = (config.width + 15) / 16;
    const int slices = std::min(rows, 2 * param_.i_threads);
    param_.i_slice_max_mbs = columns * ((rows + slices - 1) / slices);
    set_rate(config.bitrate_kbps);
    param_.nalu_process = [](x264_t* h, x264_nal_t* nal, void* self) {
      static_cast<X264Encoder*>(self)->on_nal(h, nal);
    };
    x264_ = x264_encoder_open(&param_);
    if (!x264_) fail();
    x264_picture_init(&picture_);
    picture_.opaque = this;
  }
  ~X264Encoder() override { x264_encoder_close(x264_); }

  Coded encode(Planes& planes, bool keyframe, SliceSink& sink) override {
    sink_ = &sink;
    next_macroblock_ = 0;
    held_count_ = 0;
    picture_.i_type = keyframe ? X264_TYPE_IDR : X264_TYPE_AUTO;
    picture_.i_pts = pts_++;
    picture_.img.i_csp = X264_CSP_I420;
    picture_.img.i_plane = 3;
    picture_.img.plane[0] = planes.y();
    picture_.img.plane[1] = planes.u();
    picture_.img.plane[2] = planes.v();
    picture_.img.i_stride[0] = planes.y_stride();
    picture_.img.i_stride[1] = picture_.img.i_stride[2] = planes.uv_stride();
    is_usable_.push_back(true);
    if (keyframe) {
      is_usable_.assign(1, true);
      keyframe_pts_ = picture_.i_pts;
      fit_room();
    }
    if (is_usable_.size() > static_cast<size_t>(kept_)) is_usable_.pop_front();
    x264_nal_t* nals = nullptr;
    int count = 0;
    x264_picture_t out;
    const int bytes = x264_encoder_encode(x264_, &nals, &count, &picture_, &out);
    return {bytes > 0 && next_macroblock_ == macroblocks_, out.i_qpplus1 - 1};
  }

  void set_bitrate(int kbps) override {
    set_rate(kbps);
    x264_encoder_reconfig(x264_, &param_);
  }

  bool forget(uint32_t frames) override {
    const size_t gone = std::min<size_t>(frames, is_usable_.size());
    std::fill(is_usable_.end() - static_cast<ptrdiff_t>(gone), is_usable_.end(), false);
    asked_pts_ = pts_;
    if (std::find(is_usable_.begin(), is_usable_.end(), true) == is_usable_.end()) {
      if (is_usable_.size() == static_cast<size_t>(kept_)) wants_many_ = true;
      return false;
    }
    // libavcodec loses count where frame_num begins again among missing frames: it shows nothing for a round
    // of it.
    const int64_t newest = pts_ - 1 - keyframe_pts_;
    const int64_t round = frame_num_round();
    if (newest / round != (newest - static_cast<int64_t>(gone)) / round) return false;
    return x264_encoder_invalidate_reference(x264_, pts_ - static_cast<int64_t>(gone)) >= 0;
  }

  int fine_quantizer() const override { return 16; }

 private:
  // A loss is told within a round trip, its detection and a frame. On a short way few pictures are enough for
  // that, and memory and cache are spared the others; on a long one, now and then, it is told only the second
  // time.
  static constexpr int kFewMs = 70;
  static constexpr int kManyMs = 260;
  static constexpr int kMostKept = 16;
  static constexpr int kQuietSeconds = 60;
  // Macroblocks that decoders of level 5.1 have room for, which any that does 4K has.
  static constexpr int kMostMacroblocksKept = 184'320;

  /// After how many frames libx264 lets frame_num begin again.
  int frame_num_round() const {
    int round = 16;
    while (round <= kept_ + 1) round *= 2;
    return round;
  }

  /// A decoder is told how many pictures it has to keep in front of a keyframe, so the number changes there:
  /// up when a loss reached back further than they do, which takes a keyframe anyway; down when one is asked
  /// for after a long time without losses.
  void fit_room() {
    const bool was_quiet = pts_ - asked_pts_ > quiet_pictures_;
    const int wanted = wants_many_ ? many_ : was_quiet ? few_ : kept_;
    wants_many_ = false;
    if (wanted == kept_) return;
    param_.i_dpb_size = wanted;
    x264_t* const opened = x264_encoder_open(&param_);
    if (!opened) {
      // The stream goes on as it was.
      param_.i_dpb_size = kept_;
      return;
    }
    x264_encoder_close(x264_);
    x264_ = opened;
    kept_ = wanted;
  }

  struct HeldSlice {
    int first;
    int last;
    size_t length;
    std::vector<uint8_t> bytes;
  };

  [[noreturn]] static void fail() {
    throw Fault("encoder", "x264", "libx264 refused the mode; choose another size or rate");
  }

  void set_rate(int kbps) {
    param_.rc.i_rc_method = X264_RC_ABR;
    param_.rc.i_bitrate = kbps;
    param_.rc.i_vbv_max_bitrate = kbps;
    // Two frames: none can take longer than that on a link of just this rate.
    param_.rc.i_vbv_buffer_size = std::max(1, 2 * kbps / static_cast<int>(param_.i_fps_num));
  }

  /// Called by x264's threads side by side; the slices of the lower band wait here for those above.
  void on_nal(x264_t* h, x264_nal_t* nal) {
    const std::lock_guard held(order_);
    const bool is_slice = nal->i_type == NAL_SLICE || nal->i_type == NAL_SLICE_IDR;
    const bool in_turn = !is_slice || nal->i_first_mb == next_macroblock_;
    if (!in_turn && held_count_ == held_.size()) held_.emplace_back();
    std::vector<uint8_t>& into = in_turn ? scratch_ : held_[held_count_].bytes;
    // x264's own rule for the room that escaping may need.
    const size_t room = static_cast<size_t>(nal->i_payload) * 3 / 2 + 5 + 64;
    if (into.size() < room) into.resize(room);
    x264_nal_encode(h, into.data(), nal);
    const View coded{into.data(), static_cast<size_t>(nal->i_payload)};
    if (!is_slice) return sink_->coded(coded, false, false);
    if (!in_turn) {
      held_[held_count_].first = nal->i_first_mb;
      held_[held_count_].last = nal->i_last_mb;
      held_[held_count_++].length = coded.bytes;
      return;
    }
    pass_on(coded, nal->i_last_mb);
    for (bool found = true; found;) {
      found = false;
      for (size_t i = 0; i < held_count_; i++) {
        if (held_[i].first != next_macroblock_) continue;
        pass_on({held_[i].bytes.data(), held_[i].length}, held_[i].last);
        found = true;
      }
    }
  }

  void pass_on(View slice, int last_macroblock) {
    next_macroblock_ = last_macroblock + 1;
    sink_->coded(slice, true, next_macroblock_ == macroblocks_);
  }

  x264_param_t param_;
  x264_t* x264_ = nullptr;
  x264_picture_t picture_;
  int64_t pts_ = 0;
  int64_t keyframe_pts_ = 0;
  int macroblocks_;
  int few_ = 0;
  int many_ = 0;
  int kept_ = 0;
  bool wants_many_ = false;
  /// When a loss was told last, in pictures, and how many without one are a long time.
  int64_t asked_pts_ = 0;
  int64_t quiet_pictures_ = 0;
  /// Of the pictures that are kept, oldest first: whether the client may have them.
  std::deque<bool> is_usable_;

  std::mutex order_;
  SliceSink* sink_ = nullptr;
  int next_macroblock_ = 0;
  size_t held_count_ = 0;
  std::vector<HeldSlice> held_;
  std::vector<uint8_t> scratch_;
};

}  // namespace

bool probe_x264() { return true; }

std::unique_ptr<Encoder> open_x264(const EncoderConfig& config) {
  return std::make_unique<X264Encoder>(config);
}

}  // namespace svc
