// How far back the encoder can refer when a client has lost pictures, and that it learns from losses.
#include <algorithm>

#include "core_test.h"
#include "encoder.h"

using namespace svc;

namespace {

/// Types of the units of the newest frame: 1 a slice, 5 one of a keyframe, 7 the parameters of the sequence.
class Units final : public SliceSink {
 public:
  void coded(View bytes, bool, bool) override {
    for (size_t i = 0; i + 3 < bytes.bytes; i++) {
      const uint8_t* at = bytes.data + i;
      if (at[0] == 0 && at[1] == 0 && at[2] == 1) types.push_back(at[3] & 31);
    }
  }
  bool has(int type) const { return std::find(types.begin(), types.end(), type) != types.end(); }
  std::vector<int> types;
};

/// 64 x 64, of a rate at which three pictures are few and eight many.
struct Stream {
  std::unique_ptr<Encoder> encoder = open_encoder({"h264", 64, 64, 30, 500});
  Planes planes{64, 64};
  Units units;
  int number = 0;

  void encode(int frames, bool keyframe = false) {
    for (int i = 0; i < frames; i++) {
      units.types.clear();
      for (int x = 0; x < 64; x++)
        planes.y()[number % 64 * 64 + x] = static_cast<uint8_t>(16 + number * 7 % 200);
      number++;
      CHECK(encoder->encode(planes, keyframe, units).ok);
      CHECK(units.has(keyframe || number == 1 ? 5 : 1));
    }
  }
};

}  // namespace

TEST(a_loss_told_soon_needs_no_keyframe) {
  Stream stream;
  stream.encode(1, true);
  stream.encode(9);
  CHECK(stream.encoder->forget(2));
  stream.encode(1);
  // Nothing is left that the client has.
  CHECK(!stream.encoder->forget(5));
}

TEST(a_loss_told_late_takes_one_keyframe_and_then_none) {
  Stream stream;
  stream.encode(1, true);
  stream.encode(9);
  CHECK(!stream.encoder->forget(6));
  stream.encode(1, true);
  CHECK(stream.units.has(7));
  stream.encode(200);
  stream.encode(1, true);
  stream.encode(9);
  CHECK(stream.encoder->forget(6));
  stream.encode(1);
  CHECK(!stream.units.has(5));
}

TEST(room_for_late_losses_is_given_up_after_a_long_time_without_any) {
  Stream stream;
  stream.encode(1, true);
  stream.encode(9);
  CHECK(!stream.encoder->forget(6));
  stream.encode(1, true);
  stream.encode(30 * 60 + 1);
  stream.encode(1, true);
  stream.encode(9);
  CHECK(!stream.encoder->forget(6));
  stream.encode(1, true);
  stream.encode(9);
  CHECK(stream.encoder->forget(6));
}
