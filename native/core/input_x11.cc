// Puts input into an X display by XTEST.
#include <xcb/xtest.h>

#include <cmath>
#include <vector>

#include "input_sink.h"
#include "keycode.h"
#include "x11.h"
#include "x11_keyboard.h"

namespace svc {

namespace {

// X's numbers for the protocol's buttons 1 to 5, and for the four ways to scroll.
constexpr uint8_t kButtons[] = {0, 1, 2, 3, 8, 9};
constexpr uint8_t kScrollUp = 4;
constexpr uint8_t kScrollDown = 5;
constexpr uint8_t kScrollLeft = 6;
constexpr uint8_t kScrollRight = 7;
constexpr int kNotch = 120;

int16_t signed16(const uint8_t* at) { return static_cast<int16_t>(get16(at)); }

class X11Input final : public InputSink {
 public:
  explicit X11Input(const InputSinkConfig& config) : x_(config.display, config.xauthority) {
    x_.require(xcb_test_id, "XTEST");
    XReply<xcb_test_get_version_reply_t> version(
        xcb_test_get_version_reply(x_, xcb_test_get_version(x_, 2, 2), nullptr));
    const uint32_t structure = XCB_EVENT_MASK_STRUCTURE_NOTIFY;
    xcb_change_window_attributes(x_, x_.root(), XCB_CW_EVENT_MASK, &structure);
    keyboard_ = std::make_unique<XKeyboard>(x_);
    read_size();
  }
  ~X11Input() override {
    stop();
    keyboard_->restore();
  }

 protected:
  void apply(InputClient& client, InputType type, View body) override {
    if (x_.has_failed()) return;
    read_events();
    const uint8_t* at = body.data;
    switch (type) {
      case InputType::kKey:
        return key(client, keycode_of_usage(get16(at)), at[2] != 0);
      case InputType::kText:
        return text(client, body);
      case InputType::kPointerMove:
        // Detail 1: relative.
        fake(XCB_MOTION_NOTIFY, 1, signed16(at), signed16(at + 2));
        return;
      case InputType::kPointerTo:
        fake(XCB_MOTION_NOTIFY, 0, scale(get16(at), width_), scale(get16(at + 2), height_));
        return;
      case InputType::kButton:
        if (at[0] >= 1 && at[0] <= 5) button(client, kButtons[at[0]], at[1] != 0);
        return;
      case InputType::kScroll:
        client.scroll_x = turn(client.scroll_x + signed16(at), kScrollLeft, kScrollRight);
        client.scroll_y = turn(client.scroll_y + signed16(at + 2), kScrollUp, kScrollDown);
        return;
      default:
        return;
    }
  }

  void release_keys(InputClient& client) override {
    for (size_t code = 0; code < client.keys.size(); code++) {
      if (client.keys[code]) key(client, static_cast<uint8_t>(code), false);
    }
  }
  void release_buttons(InputClient& client) override {
    for (size_t number = 0; number < client.buttons.size(); number++) {
      if (client.buttons[number]) button(client, static_cast<uint8_t>(number), false);
    }
    client.scroll_x = client.scroll_y = 0;
  }
  void flush() override { xcb_flush(x_); }
  void interrupt() override { x_.interrupt(); }

 private:
  void fake(uint8_t type, uint8_t detail, int x = 0, int y = 0) {
    xcb_test_fake_input(x_, type, detail, XCB_CURRENT_TIME,
                        type == XCB_MOTION_NOTIFY && detail == 0 ? x_.root() : XCB_NONE,
                        static_cast<int16_t>(x), static_cast<int16_t>(y), 0);
  }

  /// A key that is down already is not pressed again: repeating is the server's work.
  void key(InputClient& client, uint8_t code, bool down) {
    if (code == 0 || client.keys[code] == down) return;
    client.keys[code] = down;
    fake(down ? XCB_KEY_PRESS : XCB_KEY_RELEASE, code);
  }

  void button(InputClient& client, uint8_t number, bool down) {
    if (client.buttons[number] == down) return;
    client.buttons[number] = down;
    fake(down ? XCB_BUTTON_PRESS : XCB_BUTTON_RELEASE, number);
  }

  void text(InputClient& client, View utf8) {
    std::vector<uint32_t> keysyms;
    while (const auto character = next_character(utf8)) keysyms.push_back(keysym_of_character(*character));
    keyboard_->type(keysyms, client.keys);
  }

  /// Whole notches are turned, the rest is kept for the next time.
  int turn(int sum, uint8_t back, uint8_t forth) {
    for (; sum >= kNotch; sum -= kNotch) click(forth);
    for (; sum <= -kNotch; sum += kNotch) click(back);
    return sum;
  }
  void click(uint8_t number) {
    fake(XCB_BUTTON_PRESS, number);
    fake(XCB_BUTTON_RELEASE, number);
  }

  static int scale(uint16_t place, int size) {
    return static_cast<int>(std::lround(static_cast<double>(place) * (size - 1) / 65535));
  }

  void read_events() {
    while (XReply<xcb_generic_event_t> event{xcb_poll_for_event(x_)}) {
      const uint8_t type = event->response_type & 0x7f;
      if (type == XCB_MAPPING_NOTIFY) keyboard_->on_mapping_notify();
      if (type != XCB_CONFIGURE_NOTIFY) continue;
      const auto& configured = reinterpret_cast<xcb_configure_notify_event_t&>(*event);
      if (configured.window != x_.root()) continue;
      width_ = configured.width;
      height_ = configured.height;
    }
  }

  void read_size() {
    XReply<xcb_get_geometry_reply_t> root(
        xcb_get_geometry_reply(x_, xcb_get_geometry(x_, x_.root()), nullptr));
    if (!root) return;
    width_ = root->width;
    height_ = root->height;
  }

  XConnection x_;
  std::unique_ptr<XKeyboard> keyboard_;
  int width_ = 1;
  int height_ = 1;
};

}  // namespace

std::unique_ptr<InputSink> open_x11_input(const InputSinkConfig& config) {
  return std::make_unique<X11Input>(config);
}

}  // namespace svc
