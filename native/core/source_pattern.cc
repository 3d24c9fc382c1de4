// The generated test picture: moves at the mode's rate and carries its own number and time
// (native/README.md).
#include <poll.h>

#include <cstring>
#include <vector>

#include "clock.h"
#include "source.h"

namespace svc {

namespace {

constexpr uint32_t kBlack = 0xff000000;
constexpr uint32_t kWhite = 0xffffffff;

class TestSource final : public Source {
 public:
  explicit TestSource(const SourceConfig& config)
      : hz_(config.hz), pool_(std::make_shared<PicturePool>(config.width, config.height)) {
    set_size(config.width, config.height);
    paint_background();
  }
  ~TestSource() override { stop(); }

 private:
  int width_px() const { return pool_->width(); }
  int height_px() const { return pool_->height(); }

  /// Twice as wide as the picture and repeating, so that a moving picture is a copy from another column.
  void paint_background() {
    const int w = width_px();
    background_.resize(static_cast<size_t>(w) * 2 * static_cast<size_t>(height_px()));
    for (int y = 0; y < height_px(); y++) {
      for (int x = 0; x < w; x++) {
        // A sawtooth would have a hard edge that the scrolling drags through the picture.
        const int fold = x * 2 < w ? x * 2 : 2 * (w - x);
        const auto red = static_cast<uint32_t>(fold * 255 / (w + 1));
        const auto green = static_cast<uint32_t>(y * 255 / height_px());
        const uint32_t blue = ((x / 64) + (y / 64)) % 2 ? 160 : 64;
        const uint32_t pixel = kBlack | red << 16 | green << 8 | blue;
        background_[row(y) + static_cast<size_t>(x)] = pixel;
        background_[row(y) + static_cast<size_t>(x + w)] = pixel;
      }
    }
  }
  size_t row(int y) const { return static_cast<size_t>(y) * static_cast<size_t>(width_px()) * 2; }

  static void fill(uint8_t* pixels, int stride, int x, int y, int w, int h, uint32_t colour) {
    for (int i = 0; i < h; i++) {
      auto* line = reinterpret_cast<uint32_t*>(pixels + static_cast<ptrdiff_t>(y + i) * stride) + x;
      for (int j = 0; j < w; j++) line[j] = colour;
    }
  }

  /// `bits` squares of `side` pixels, most significant bit first, white for 1, in lines from the top left of
  /// `y` on.
  void write_bits(uint8_t* pixels, uint64_t value, int bits, int side, int y) const {
    const int per_line = width_px() / side;
    for (int i = 0; i < bits; i++) {
      const int x_at = i % per_line * side;
      const int y_at = y + i / per_line * side;
      if (y_at + side > height_px()) return;
      fill(pixels, pool_->stride(), x_at, y_at, side, side, value >> (bits - 1 - i) & 1 ? kWhite : kBlack);
    }
  }

  void paint(uint8_t* pixels, uint32_t number, int64_t clock_us) const {
    const int w = width_px();
    const int h = height_px();
    const int shift = static_cast<int>(number * 4 % static_cast<uint32_t>(w));
    for (int y = 0; y < h; y++) {
      std::memcpy(pixels + static_cast<ptrdiff_t>(y) * pool_->stride(),
                  &background_[row(y) + static_cast<size_t>(shift)], static_cast<size_t>(w) * 4);
    }
    // A square that bounces: its way back is the mirror of its way there.
    const int side = h / 6 / 2 * 2;
    const auto bounce = [](uint32_t step, int range) {
      if (range <= 0) return 0;
      const int at = static_cast<int>(step % static_cast<uint32_t>(2 * range));
      return at < range ? at : 2 * range - at;
    };
    fill(pixels, pool_->stride(), bounce(number * 7, w - side), bounce(number * 5, h - side), side, side,
         0xffffc020);
    if (w < 512) {
      write_bits(pixels, number, 32, 8, 0);
      return;
    }
    write_bits(pixels, number, 32, 16, 0);
    write_bits(pixels, static_cast<uint64_t>(clock_us), 64, w < 1024 ? 8 : 16, 16);
  }

  void run() override {
    uint32_t number = 0;
    int64_t due = now_us();
    while (!is_stopping()) {
      const Demand wants = demand();
      const int64_t now = now_us();
      int64_t wait_us = -1;
      if (wants.watched) {
        if (now >= due) {
          // A session that falls behind sees numbers missing, as it would with a game.
          if (wants.wanted) {
            if (const int slot = pool_->claim(); slot >= 0) {
              Picture picture(pool_, slot);
              paint(picture.pixels(), number, now);
              picture.set_times({now, now, now_us()});
              publish(std::move(picture));
            }
          }
          number++;
          const int64_t interval = 1'000'000 / hz_;
          due = now - due > 5 * interval ? now + interval : due + interval;
          continue;
        }
        wait_us = due - now;
      }
      pollfd wake{wake_fd(), POLLIN, 0};
      const timespec limit{wait_us / 1'000'000, (wait_us % 1'000'000) * 1000};
      // Only a change of who watches matters while waiting for the next tick.
      if (ppoll(&wake, 1, wait_us < 0 ? nullptr : &limit, nullptr) > 0) clear_wake();
    }
  }

  int hz_;
  std::shared_ptr<PicturePool> pool_;
  std::vector<uint32_t> background_;
};

}  // namespace

std::unique_ptr<Source> open_test_source(const SourceConfig& config) {
  return std::make_unique<TestSource>(config);
}

}  // namespace svc
