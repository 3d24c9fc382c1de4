// The pointer of an X display. Movement is heard of by raw events of the input extension, so a still screen
// with a moving pointer needs no polling.
#include "x11_cursor.h"

#include <xcb/xfixes.h>
#include <xcb/xinput.h>

#include <algorithm>

namespace svc {

void blend(const Picture& onto, const uint32_t* argb, int width, int height, int left, int top) {
  const int x_from = std::max(0, -left);
  const int x_to = std::min(width, onto.width() - left);
  const int y_from = std::max(0, -top);
  const int y_to = std::min(height, onto.height() - top);
  for (int y = y_from; y < y_to; y++) {
    auto* line =
        reinterpret_cast<uint32_t*>(onto.pixels() + static_cast<ptrdiff_t>(top + y) * onto.stride()) + left;
    const uint32_t* from = argb + static_cast<ptrdiff_t>(y) * width;
    for (int x = x_from; x < x_to; x++) {
      const uint32_t over = from[x];
      const uint32_t rest = 255 - (over >> 24);
      if (rest == 255) continue;
      uint32_t mixed = 0xff000000;
      for (int shift = 0; shift < 24; shift += 8) {
        const uint32_t under = line[x] >> shift & 255;
        mixed |= std::min<uint32_t>(255, (over >> shift & 255) + (under * rest + 127) / 255) << shift;
      }
      line[x] = mixed;
    }
  }
}

XCursor::XCursor(XConnection& x) : x_(x) {
  xfixes_first_event_ = x.require(xcb_xfixes_id, "XFIXES").first_event;
  xinput_opcode_ = x.require(xcb_input_id, "XInputExtension").major_opcode;
  XReply<xcb_xfixes_query_version_reply_t> xfixes(
      xcb_xfixes_query_version_reply(x, xcb_xfixes_query_version(x, 4, 0), nullptr));
  XReply<xcb_input_xi_query_version_reply_t> xinput(
      xcb_input_xi_query_version_reply(x, xcb_input_xi_query_version(x, 2, 2), nullptr));
  xcb_xfixes_select_cursor_input(x, x.root(), XCB_XFIXES_CURSOR_NOTIFY_MASK_DISPLAY_CURSOR);
  struct {
    xcb_input_event_mask_t head;
    uint32_t mask;
  } wanted{{XCB_INPUT_DEVICE_ALL_MASTER, 1}, XCB_INPUT_XI_EVENT_MASK_RAW_MOTION};
  xcb_input_xi_select_events(x, x.root(), 1, &wanted.head);
}

bool XCursor::concerns(const xcb_generic_event_t& event) {
  const uint8_t type = event.response_type & 0x7f;
  if (type == xfixes_first_event_ + XCB_XFIXES_CURSOR_NOTIFY) {
    shape_changed_ = true;
    return true;
  }
  if (type != XCB_GE_GENERIC) return false;
  const auto& generic = reinterpret_cast<const xcb_ge_generic_event_t&>(event);
  return generic.extension == xinput_opcode_ && generic.event_type == XCB_INPUT_RAW_MOTION;
}

xcb_query_pointer_cookie_t XCursor::ask_place() { return xcb_query_pointer(x_, x_.root()); }

void XCursor::draw(const Picture& onto, xcb_query_pointer_cookie_t place) {
  if (shape_changed_) load_shape();
  XReply<xcb_query_pointer_reply_t> at(xcb_query_pointer_reply(x_, place, nullptr));
  if (!at || argb_.empty()) return;
  blend(onto, argb_.data(), width_, height_, at->root_x - hot_x_, at->root_y - hot_y_);
}

void XCursor::load_shape() {
  XReply<xcb_xfixes_get_cursor_image_reply_t> image(
      xcb_xfixes_get_cursor_image_reply(x_, xcb_xfixes_get_cursor_image(x_), nullptr));
  shape_changed_ = false;
  if (!image) {
    argb_.clear();
    return;
  }
  width_ = image->width;
  height_ = image->height;
  hot_x_ = image->xhot;
  hot_y_ = image->yhot;
  const uint32_t* pixels = xcb_xfixes_get_cursor_image_cursor_image(image.get());
  argb_.assign(pixels, pixels + xcb_xfixes_get_cursor_image_cursor_image_length(image.get()));
}

}  // namespace svc
