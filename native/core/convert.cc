// Pixels into planes by libyuv: one pass when the sizes are equal, two when they are not.
#include "convert.h"

#include <libyuv.h>

namespace svc {

Planes::Planes(int width, int height) : width_(width), height_(height), data_(y_bytes() * 3 / 2) {}

namespace {
void convert_part(const Picture& from, Planes& to) {
  // libyuv's ARGB is the little-endian word: blue first in memory, as X has it.
  libyuv::ARGBToI420(from.pixels(), from.stride(), to.y(), to.y_stride(), to.u(), to.uv_stride(), to.v(),
                     to.uv_stride(), to.width(), to.height());
}
}  // namespace

void Converter::convert(const Picture& from, Planes& to) {
  const int width = from.width() & ~1;
  const int height = from.height() & ~1;
  if (width == to.width() && height == to.height()) return convert_part(from, to);
  if (!unscaled_ || unscaled_->width() != width || unscaled_->height() != height) {
    unscaled_ = std::make_unique<Planes>(width, height);
  }
  Planes& own = *unscaled_;
  convert_part(from, own);
  libyuv::I420Scale(own.y(), own.y_stride(), own.u(), own.uv_stride(), own.v(), own.uv_stride(), width,
                    height, to.y(), to.y_stride(), to.u(), to.uv_stride(), to.v(), to.uv_stride(), to.width(),
                    to.height(), libyuv::kFilterBox);
}

}  // namespace svc
