// What the pipeline asks of an encoder, and the table of those there are.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "bytes.h"
#include "convert.h"

namespace svc {

struct EncoderConfig {
  /// `h264`; later others.
  std::string codec;
  int width;
  int height;
  /// Rate that the bitrate is shared out over.
  int hz;
  int bitrate_kbps;
};

/// Receives a frame's bytes as they are coded: in order, from one thread at a time, but not always the same
/// one.
class SliceSink {
 public:
  virtual void coded(View bytes, bool slice_ends, bool frame_ends) = 0;

 protected:
  ~SliceSink() = default;
};

struct Coded {
  bool ok;
  /// Mean quantizer of the frame, in the codec's own scale; falls as the picture gets better.
  int quantizer;
};

class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Codes one frame, all of it handed to `sink` before this returns. The first one is always a keyframe.
  virtual Coded encode(Planes& planes, bool keyframe, SliceSink& sink) = 0;
  virtual void set_bitrate(int kbps) = 0;
  /// The last `frames` frames never arrived whole: the next one refers only to older ones. False when none of
  /// those is left, so that only a keyframe can go on.
  virtual bool forget(uint32_t frames) = 0;
  /// At or below this quantizer coding the same picture again would show nobody anything.
  virtual int fine_quantizer() const = 0;
};

struct EncoderEntry {
  const char* codec;
  const char* name;
  bool (*probe)();
  std::unique_ptr<Encoder> (*open)(const EncoderConfig&);
};

/// Codecs that an encoder here can do, in the order of the table.
std::vector<std::string> codecs();
/// Throws `Fault` with stage `encoder`.
std::unique_ptr<Encoder> open_encoder(const EncoderConfig& config);

bool probe_x264();
std::unique_ptr<Encoder> open_x264(const EncoderConfig& config);

}  // namespace svc
