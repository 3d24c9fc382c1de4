// Pixels of a picture into the planes that an encoder reads: BT.601, limited range, by libyuv.
#pragma once
#include <cstdint>
#include <vector>

#include "picture.h"

namespace svc {

/// Planar 4:2:0 of one size. Kept by a session between frames, so that the last picture can be coded again.
class Planes {
 public:
  /// Even numbers.
  Planes(int width, int height);

  int width() const { return width_; }
  int height() const { return height_; }
  uint8_t* y() { return data_.data(); }
  uint8_t* u() { return y() + y_bytes(); }
  uint8_t* v() { return u() + y_bytes() / 4; }
  int y_stride() const { return width_; }
  int uv_stride() const { return width_ / 2; }

 private:
  size_t y_bytes() const { return static_cast<size_t>(width_) * static_cast<size_t>(height_); }
  int width_;
  int height_;
  std::vector<uint8_t> data_;
};

/// Converts, and scales when the sizes differ: a display that was just resized keeps its session watchable
/// until the session's own mode follows.
class Converter {
 public:
  void convert(const Picture& from, Planes& to);

 private:
  /// At the picture's own size; only made when scaling.
  std::unique_ptr<Planes> unscaled_;
};

}  // namespace svc
