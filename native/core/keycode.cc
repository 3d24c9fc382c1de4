// The tables of keys and characters.
#include "keycode.h"

#include <cstddef>

namespace svc {

namespace {
// Linux's own numbers (input-event-codes.h) of HID usages 0x00 to 0xa4, as its HID driver assigns them; 0 is
// none.
constexpr uint8_t kEvdev[] = {
    0,   0,   0,   0,   30,  48,  46,  32,  18,  33,  34,  35,  23,  36,  37,  38,   // 0x00
    50,  49,  24,  25,  16,  19,  31,  20,  22,  47,  17,  45,  21,  44,  2,   3,    // 0x10
    4,   5,   6,   7,   8,   9,   10,  11,  28,  1,   14,  15,  57,  12,  13,  26,   // 0x20
    27,  43,  43,  39,  40,  41,  51,  52,  53,  58,  59,  60,  61,  62,  63,  64,   // 0x30
    65,  66,  67,  68,  87,  88,  99,  70,  119, 110, 102, 104, 111, 107, 109, 106,  // 0x40
    105, 108, 103, 69,  98,  55,  74,  78,  96,  79,  80,  81,  75,  76,  77,  71,   // 0x50
    72,  73,  82,  83,  86,  127, 116, 117, 183, 184, 185, 186, 187, 188, 189, 190,  // 0x60
    191, 192, 193, 194, 134, 138, 130, 132, 128, 129, 131, 137, 133, 135, 136, 113,  // 0x70
    115, 114, 0,   0,   0,   121, 0,   89,  93,  124, 92,  94,  95,  0,   0,   0,    // 0x80
    122, 123, 90,  91,  85,                                                          // 0x90
};
// 0xe0 to 0xe7: control, shift, alt and super, left and right.
constexpr uint8_t kModifiers[] = {29, 42, 56, 125, 97, 54, 100, 126};
}  // namespace

uint8_t keycode_of_usage(uint16_t usage) {
  uint8_t evdev = 0;
  if (usage < sizeof kEvdev) evdev = kEvdev[usage];
  if (usage >= 0xe0 && usage <= 0xe7) evdev = kModifiers[usage - 0xe0];
  // X counts from 8.
  return evdev == 0 ? 0 : static_cast<uint8_t>(evdev + 8);
}

uint32_t keysym_of_character(char32_t character) {
  switch (character) {
    case '\b':
      return 0xff08;
    case '\t':
      return 0xff09;
    case '\n':
    case '\r':
      return 0xff0d;
    case 0x1b:
      return 0xff1b;
    case 0x7f:
      return 0xffff;
    default:
      break;
  }
  const bool latin1 = (character >= 0x20 && character < 0x7f) || (character >= 0xa0 && character <= 0xff);
  return latin1 ? character : 0x01000000 | character;
}

std::optional<char32_t> next_character(View& text) {
  if (text.bytes == 0) return std::nullopt;
  const uint8_t lead = text.data[0];
  const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  char32_t character = length == 1 ? lead : lead & (0x7f >> length);
  bool good = length > 0 && text.has(length);
  for (size_t i = 1; good && i < length; i++) {
    good = text.data[i] >> 6 == 2;
    character = character << 6 | (text.data[i] & 0x3f);
  }
  // Overlong forms, surrogates and what lies beyond Unicode are no characters.
  good = good && character >= kLeast[length] && character <= 0x10ffff &&
         (character < 0xd800 || character > 0xdfff);
  text = good ? text.from(length) : View{};
  return good ? std::optional(character) : std::nullopt;
}

}  // namespace svc
