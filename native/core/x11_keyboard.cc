// Types characters on an X display: with the keys that it has, else on spare keys that are given the
// character first.
#include "x11_keyboard.h"

#include <time.h>
#include <xcb/xtest.h>

#include <algorithm>

#include "clock.h"

namespace svc {

namespace {
constexpr uint32_t kShiftLeft = 0xffe1;
constexpr uint8_t kShiftRightCode = 62;
// A program reads the new map some time after it was told of the change. Before that the key would mean
// nothing to it, and a key that is given another character too soon would mean that one.
constexpr int64_t kSettleUs = 30'000;
constexpr int64_t kKeepUs = 300'000;
constexpr size_t kMostBorrowed = 16;

void sleep_us(int64_t us) {
  if (us <= 0) return;
  const timespec limit{us / 1'000'000, (us % 1'000'000) * 1000};
  nanosleep(&limit, nullptr);
}

bool is_letter_with_cases(uint32_t keysym) {
  return (keysym >= 'a' && keysym <= 'z') || (keysym >= 'A' && keysym <= 'Z') ||
         (keysym >= 0xc0 && keysym <= 0xfe && keysym != 0xd7 && keysym != 0xdf && keysym != 0xf7);
}
}  // namespace

XKeyboard::XKeyboard(XConnection& x) : x_(x) { load(); }

void XKeyboard::load() {
  const xcb_setup_t* setup = xcb_get_setup(x_);
  first_code_ = setup->min_keycode;
  const auto count = static_cast<uint8_t>(setup->max_keycode - setup->min_keycode + 1);
  XReply<xcb_get_keyboard_mapping_reply_t> reply(
      xcb_get_keyboard_mapping_reply(x_, xcb_get_keyboard_mapping(x_, first_code_, count), nullptr));
  if (!reply) return;
  const bool first_time = map_.empty();
  per_code_ = reply->keysyms_per_keycode;
  const uint32_t* keysyms = xcb_get_keyboard_mapping_keysyms(reply.get());
  map_.assign(keysyms, keysyms + xcb_get_keyboard_mapping_keysyms_length(reply.get()));
  const auto shift = find(kShiftLeft);
  shift_code_ = shift ? shift->code : 0;
  stale_ = false;
  if (!first_time) return;
  for (int code = count - 1; code >= 0 && borrowed_.size() < kMostBorrowed; code--) {
    const auto from = map_.begin() + code * per_code_;
    if (std::all_of(from, from + per_code_, [](uint32_t keysym) { return keysym == 0; })) {
      borrowed_.push_back({static_cast<uint8_t>(first_code_ + code)});
    }
  }
}

std::optional<XKeyboard::Place> XKeyboard::find(uint32_t keysym) const {
  if (per_code_ == 0) return std::nullopt;
  const size_t codes = map_.size() / static_cast<size_t>(per_code_);
  // Without Shift is better than with it, wherever the key lies.
  for (int level = 0; level < std::min(2, per_code_); level++) {
    for (size_t code = 0; code < codes; code++) {
      if (map_[code * static_cast<size_t>(per_code_) + static_cast<size_t>(level)] == keysym) {
        return Place{static_cast<uint8_t>(first_code_ + code), level == 1};
      }
    }
  }
  return std::nullopt;
}

void XKeyboard::put(uint8_t code, uint32_t keysym) {
  const uint32_t both[2] = {keysym, keysym};
  xcb_change_keyboard_mapping(x_, 1, code, 2, both);
  for (int level = 0; level < per_code_; level++) {
    map_[static_cast<size_t>((code - first_code_) * per_code_ + level)] = level < 2 ? keysym : 0;
  }
}

size_t XKeyboard::borrow(const std::vector<uint32_t>& keysyms, size_t first) {
  bool changed = false;
  const int64_t begun = now_us();
  size_t i = first;
  for (; i < keysyms.size(); i++) {
    if (const auto place = find(keysyms[i])) {
      for (Borrowed& key : borrowed_) key.used_us = key.code == place->code ? begun : key.used_us;
      continue;
    }
    const auto oldest =
        std::min_element(borrowed_.begin(), borrowed_.end(),
                         [](const Borrowed& a, const Borrowed& b) { return a.used_us < b.used_us; });
    // All spare keys are needed for what comes before this one: type that first.
    if (oldest == borrowed_.end() || oldest->used_us == begun) break;
    if (oldest->keysym != 0) sleep_us(oldest->used_us + kKeepUs - now_us());
    put(oldest->code, keysyms[i]);
    oldest->keysym = keysyms[i];
    oldest->used_us = begun;
    changed = true;
  }
  if (changed) {
    xcb_flush(x_);
    sleep_us(kSettleUs);
  }
  return i;
}

void XKeyboard::type(const std::vector<uint32_t>& keysyms, const std::bitset<256>& held) {
  if (stale_) load();
  XReply<xcb_query_pointer_reply_t> state(
      xcb_query_pointer_reply(x_, xcb_query_pointer(x_, x_.root()), nullptr));
  if (!state) return;
  const bool caps_lock = state->mask & XCB_MOD_MASK_LOCK;
  for (size_t done = 0; done < keysyms.size();) {
    const size_t ready = borrow(keysyms, done);
    // A keyboard without a single spare key: this character cannot be typed.
    if (ready == done) {
      done++;
      continue;
    }
    for (; done < ready; done++) {
      const auto place = find(keysyms[done]);
      if (!place) continue;
      const bool shift = place->shift != (caps_lock && is_letter_with_cases(keysyms[done]));
      const bool has_left = shift_code_ != 0 && held[shift_code_];
      const bool has_right = held[kShiftRightCode];
      if (shift && !has_left && !has_right) press(shift_code_, true);
      if (!shift && has_left) press(shift_code_, false);
      if (!shift && has_right) press(kShiftRightCode, false);
      press(place->code, true);
      press(place->code, false);
      if (shift && !has_left && !has_right) press(shift_code_, false);
      if (!shift && has_left) press(shift_code_, true);
      if (!shift && has_right) press(kShiftRightCode, true);
    }
    xcb_flush(x_);
  }
  const int64_t now = now_us();
  for (Borrowed& key : borrowed_) {
    if (std::find(keysyms.begin(), keysyms.end(), key.keysym) != keysyms.end()) key.used_us = now;
  }
}

void XKeyboard::press(uint8_t code, bool down) {
  if (code == 0) return;
  xcb_test_fake_input(x_, down ? XCB_KEY_PRESS : XCB_KEY_RELEASE, code, XCB_CURRENT_TIME, XCB_NONE, 0, 0, 0);
}

void XKeyboard::restore() {
  for (const Borrowed& key : borrowed_) {
    if (key.keysym == 0) continue;
    sleep_us(key.used_us + kKeepUs - now_us());
    put(key.code, 0);
  }
  xcb_flush(x_);
}

}  // namespace svc
