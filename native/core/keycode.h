// Names of keys and characters: USB HID usages to X keycodes, UTF-8 to keysyms.
#pragma once
#include <cstdint>
#include <optional>

#include "bytes.h"

namespace svc {

/// X keycode of a usage of HID page 0x07, as Linux and its X servers number keys; 0 for a key that has none.
uint8_t keycode_of_usage(uint16_t usage);

/// The keysym whose key types this character.
uint32_t keysym_of_character(char32_t character);

/// Takes the next character off the front of UTF-8 text; nothing, and the text is empty, when it is
/// malformed.
std::optional<char32_t> next_character(View& text);

}  // namespace svc
