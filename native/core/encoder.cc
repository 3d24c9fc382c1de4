// The table of encoders.
#include "encoder.h"

#include <algorithm>

#include "fault.h"

namespace svc {

namespace {
// A new encoder is one file and one line here; the first that probes well is taken for its codec.
const EncoderEntry kEncoders[] = {
    {"h264", "x264", probe_x264, open_x264},
};
}  // namespace

std::vector<std::string> codecs() {
  std::vector<std::string> found;
  for (const EncoderEntry& entry : kEncoders) {
    if (entry.probe() && std::find(found.begin(), found.end(), entry.codec) == found.end())
      found.emplace_back(entry.codec);
  }
  return found;
}

std::unique_ptr<Encoder> open_encoder(const EncoderConfig& config) {
  for (const EncoderEntry& entry : kEncoders) {
    if (config.codec == entry.codec && entry.probe()) return entry.open(config);
  }
  throw Fault("encoder", "no-encoder", "no encoder here does " + config.codec);
}

}  // namespace svc
