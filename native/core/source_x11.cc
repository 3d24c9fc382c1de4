// Captures an X display into shared memory whenever it changes: damage sets the pace, not a clock.
#include <poll.h>
#include <xcb/damage.h>
#include <xcb/shm.h>
#include <xcb/xfixes.h>

#include <cstring>
#include <fcntl.h>

#include "clock.h"
#include "fault.h"
#include "source.h"
#include "x11.h"
#include "x11_cursor.h"

namespace svc {

namespace {

class X11Source final : public Source {
 public:
  explicit X11Source(const SourceConfig& config) : x_(config.display, config.xauthority) {
    require_format(config.display);
    x_.require(xcb_shm_id, "MIT-SHM");
    XReply<xcb_shm_query_version_reply_t> shm(
        xcb_shm_query_version_reply(x_, xcb_shm_query_version(x_), nullptr));
    if (!shm || shm->major_version < 1 || (shm->major_version == 1 && shm->minor_version < 2)) {
      throw Fault("extensions", "old-shm",
                  "the X server's MIT-SHM is older than 1.2 and takes no file descriptors");
    }
    x_.require(xcb_xfixes_id, "XFIXES");
    XReply<xcb_xfixes_query_version_reply_t> xfixes(
        xcb_xfixes_query_version_reply(x_, xcb_xfixes_query_version(x_, 4, 0), nullptr));
    damage_event_ = x_.require(xcb_damage_id, "DAMAGE").first_event + XCB_DAMAGE_NOTIFY;
    XReply<xcb_damage_query_version_reply_t> damage(
        xcb_damage_query_version_reply(x_, xcb_damage_query_version(x_, 1, 1), nullptr));
    if (config.cursor) cursor_ = std::make_unique<XCursor>(x_);
    const uint32_t structure = XCB_EVENT_MASK_STRUCTURE_NOTIFY;
    xcb_change_window_attributes(x_, x_.root(), XCB_CW_EVENT_MASK, &structure);
    damage_ = xcb_generate_id(x_);
    xcb_damage_create(x_, damage_, x_.root(), XCB_DAMAGE_REPORT_LEVEL_NON_EMPTY);
    if (!fit())
      throw Fault("capture", "no-capture",
                  "the X server of display " + config.display + " lets nothing be captured");
  }
  ~X11Source() override { stop(); }

 private:
  /// Everything after this reads 32-bit pixels, blue first.
  void require_format(const std::string& display) {
    const xcb_setup_t* setup = xcb_get_setup(x_);
    int bits = 0;
    for (auto format = xcb_setup_pixmap_formats_iterator(setup); format.rem; xcb_format_next(&format)) {
      if (format.data->depth == x_.screen().root_depth) bits = format.data->bits_per_pixel;
    }
    if (bits != 32 || x_.screen().root_depth < 24 || setup->image_byte_order != XCB_IMAGE_ORDER_LSB_FIRST) {
      throw Fault("capture", "bad-depth",
                  "display " + display + " has no 24-bit colour; start its X server with depth 24");
    }
  }

  /// Makes slots of the display's present size and hands them to the server.
  bool fit() {
    XReply<xcb_get_geometry_reply_t> root(
        xcb_get_geometry_reply(x_, xcb_get_geometry(x_, x_.root()), nullptr));
    if (!root) return false;
    if (pool_ && pool_->width() == root->width && pool_->height() == root->height) return true;
    auto pool = std::make_shared<PicturePool>(root->width, root->height);
    if (pool_) xcb_shm_detach(x_, segment_);
    segment_ = xcb_generate_id(x_);
    // xcb closes what it sends.
    const int fd = fcntl(pool->fd(), F_DUPFD_CLOEXEC, 0);
    const XReply<xcb_generic_error_t> error(
        xcb_request_check(x_, xcb_shm_attach_fd_checked(x_, segment_, fd, 0)));
    if (error || x_.has_failed()) return false;
    pool_ = std::move(pool);
    set_size(pool_->width(), pool_->height());
    return true;
  }

  void run() override {
    while (!is_stopping()) {
      read_events();
      if (x_.has_failed()) return;
      if (size_changed_) {
        size_changed_ = false;
        if (!fit()) return;
        changed_us_ = changed_us_ ? changed_us_ : now_us();
      }
      const int64_t wait_us = capture_if_due();
      // A reply may have brought events along, which the descriptor no longer tells of.
      if (wait_us == 0) continue;
      pollfd ready[2] = {{x_.fd(), POLLIN, 0}, {wake_fd(), POLLIN, 0}};
      const timespec limit{wait_us / 1'000'000, (wait_us % 1'000'000) * 1000};
      ppoll(ready, 2, wait_us < 0 ? nullptr : &limit, nullptr);
      if (ready[1].revents) clear_wake();
    }
  }

  void interrupt() override { x_.interrupt(); }

  void read_events() {
    while (XReply<xcb_generic_event_t> event{xcb_poll_for_event(x_)}) {
      const uint8_t type = event->response_type & 0x7f;
      const bool moved = cursor_ && cursor_->concerns(*event);
      if (type == damage_event_ || moved) {
        if (!changed_us_) changed_us_ = now_us();
        changed_again_ = true;
      } else if (type == XCB_CONFIGURE_NOTIFY) {
        size_changed_ =
            size_changed_ || reinterpret_cast<xcb_configure_notify_event_t&>(*event).window == x_.root();
      }
    }
  }

  /// Takes a picture if there is a new one and somebody waits for it; gives how long to wait, below 0 for an
  /// event.
  int64_t capture_if_due() {
    const Demand wants = demand();
    if (wants.at_once && !changed_us_) changed_us_ = now_us();
    if (!changed_us_ || !wants.watched || !(wants.wanted || wants.at_once)) return -1;
    const int64_t now = now_us();
    if (const int64_t early_us = cap_.delay_us(now, wants.hz); early_us > 0) {
      held_back_ = true;
      return early_us;
    }
    if (const int64_t wait_us = wants.at_once ? 0 : wait_for_next_us(now, wants.hz); wait_us > 0)
      return wait_us;
    held_back_ = false;
    next_by_us_ = 0;
    const int slot = pool_->claim();
    // Every slot is being read: one is given back within a few milliseconds.
    if (slot < 0) return 1000;
    cap_.spend(now, wants.hz);
    Picture picture(pool_, slot);
    // The damage is cleared before the picture is taken, so what changes in between is told of again.
    xcb_damage_subtract(x_, damage_, XCB_NONE, XCB_NONE);
    const auto image = xcb_shm_get_image_unchecked(
        x_, x_.root(), 0, 0, static_cast<uint16_t>(pool_->width()), static_cast<uint16_t>(pool_->height()),
        ~0U, XCB_IMAGE_FORMAT_Z_PIXMAP, segment_, static_cast<uint32_t>(pool_->offset(slot)));
    xcb_query_pointer_cookie_t place{};
    if (cursor_) place = cursor_->ask_place();
    const XReply<xcb_shm_get_image_reply_t> got(xcb_shm_get_image_reply(x_, image, nullptr));
    if (!got) {
      if (cursor_) xcb_discard_reply(x_, place.sequence);
      // The display became smaller just now; `fit` knows whether there still is one.
      size_changed_ = true;
      return 0;
    }
    if (cursor_) cursor_->draw(picture, place);
    picture.set_times({changed_us_, now, now_us()});
    changed_us_ = 0;
    publish(std::move(picture));
    return 0;
  }

  /// A change that had to wait for its turn waits a little longer for the next one: pictures go on in step
  /// with what draws them instead of each a part of an interval late.
  int64_t wait_for_next_us(int64_t now, int hz) {
    if (!held_back_) return 0;
    if (!next_by_us_) {
      next_by_us_ = now + 600'000 / hz;
      changed_again_ = false;
      // Only cleared damage is told of again.
      xcb_damage_subtract(x_, damage_, XCB_NONE, XCB_NONE);
      xcb_flush(x_);
    }
    return changed_again_ ? 0 : next_by_us_ - now;
  }

  XConnection x_;
  std::unique_ptr<XCursor> cursor_;
  uint8_t damage_event_ = 0;
  xcb_damage_damage_t damage_ = 0;
  xcb_shm_seg_t segment_ = 0;
  std::shared_ptr<PicturePool> pool_;
  bool size_changed_ = false;
  /// When something was first seen to have changed since the last picture; 0 for never.
  int64_t changed_us_ = 0;
  RateCap cap_;
  /// The change at hand came before its turn.
  bool held_back_ = false;
  /// Until when it waits for the one after it; 0: not yet.
  int64_t next_by_us_ = 0;
  bool changed_again_ = false;
};

}  // namespace

std::unique_ptr<Source> open_x11_source(const SourceConfig& config) {
  return std::make_unique<X11Source>(config);
}

}  // namespace svc
