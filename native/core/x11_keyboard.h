// Types characters on an X display, also those that its keyboard has no key for.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "x11.h"

namespace svc {

class XKeyboard {
 public:
  explicit XKeyboard(XConnection& x);

  /// The server's map changed: it is read again before the next character.
  void on_mapping_notify() { stale_ = true; }

  /// Presses and releases a key for each keysym, with Shift where the character needs it. `held` are the
  /// keycodes that the client holds down; a held Shift is lifted for characters that do not want it.
  void type(const std::vector<uint32_t>& keysyms, const std::bitset<256>& held);

  /// Gives borrowed keys back to nothing.
  void restore();

 private:
  struct Place {
    uint8_t code;
    bool shift;
  };
  struct Borrowed {
    uint8_t code;
    uint32_t keysym = 0;
    int64_t used_us = 0;
  };

  void load();
  std::optional<Place> find(uint32_t keysym) const;
  /// Puts what the map lacks onto spare keys, from `first` on; gives the number of keysyms that can be typed
  /// now.
  size_t borrow(const std::vector<uint32_t>& keysyms, size_t first);
  void put(uint8_t code, uint32_t keysym);
  void press(uint8_t code, bool down);

  XConnection& x_;
  bool stale_ = true;
  uint8_t first_code_ = 8;
  int per_code_ = 0;
  uint8_t shift_code_ = 0;
  std::vector<uint32_t> map_;
  std::vector<Borrowed> borrowed_;
};

}  // namespace svc
