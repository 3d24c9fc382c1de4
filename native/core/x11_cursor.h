// The pointer of an X display: its shape by XFixes, and drawing it into a captured picture.
#pragma once
#include <cstdint>
#include <vector>

#include "picture.h"
#include "x11.h"

namespace svc {

/// Draws premultiplied ARGB over a picture; what lies outside of it is left out.
void blend(const Picture& onto, const uint32_t* argb, int width, int height, int left, int top);

class XCursor {
 public:
  /// Asks to be told of changes of shape and of movement; throws `Fault` when the server lacks an extension.
  explicit XCursor(XConnection& x);

  /// True when this event means that the pointer looks different or lies elsewhere.
  bool concerns(const xcb_generic_event_t& event);
  /// Sent with the request for the picture, so that asking for the place costs no round trip of its own.
  xcb_query_pointer_cookie_t ask_place();
  void draw(const Picture& onto, xcb_query_pointer_cookie_t place);

 private:
  void load_shape();

  XConnection& x_;
  uint8_t xfixes_first_event_;
  uint8_t xinput_opcode_;
  bool shape_changed_ = true;
  int width_ = 0;
  int height_ = 0;
  int hot_x_ = 0;
  int hot_y_ = 0;
  std::vector<uint32_t> argb_;
};

}  // namespace svc
