// Input events (PROTOCOL.md, section 8): reading them, and the grant that each needs.
#pragma once
#include "bytes.h"

namespace svc {

enum class InputType : uint8_t {
  kKey = 1,
  kText = 2,
  kPointerMove = 3,
  kPointerTo = 4,
  kButton = 5,
  kScroll = 6,
  kPad = 7,
  kTouch = 8,
  kReleaseAll = 9,
};

enum Grant : uint32_t { kGamepad = 0x01, kPointer = 0x02, kKeyboard = 0x04 };

struct InputEvent {
  InputType type;
  uint8_t bytes;
  uint8_t body[255];
};

/// The bits that an event of this type needs; 0 for none, and for types that are not known.
constexpr uint32_t grant_needed(InputType type) {
  switch (type) {
    case InputType::kKey:
    case InputType::kText:
      return kKeyboard;
    case InputType::kPointerMove:
    case InputType::kPointerTo:
    case InputType::kButton:
    case InputType::kScroll:
    case InputType::kTouch:
      return kPointer;
    case InputType::kPad:
      return kGamepad;
    case InputType::kReleaseAll:
      return 0;
  }
  return 0;
}

/// Bytes that a body must have at least to be read; 255 is never too many.
constexpr size_t body_needed(InputType type) {
  switch (type) {
    case InputType::kKey:
      return 3;
    case InputType::kText:
      return 1;
    case InputType::kPointerMove:
    case InputType::kPointerTo:
    case InputType::kScroll:
      return 4;
    case InputType::kButton:
      return 2;
    default:
      return 0;
  }
}

/// Calls `on(number, type, body)` for each whole event, in order, until it says false. False when the payload is no
/// whole list of 1 to 64 events; what came before the break was handed on all the same.
template <typename On>
bool read_input(View payload, On on) {
  if (!payload.has(5)) return false;
  uint32_t number = get32(payload.data);
  const int count = payload.data[4];
  if (count < 1 || count > 64) return false;
  payload = payload.from(5);
  for (int i = 0; i < count; i++, number++) {
    if (!payload.has(2) || !payload.has(2 + size_t{payload.data[1]})) return false;
    const View body = payload.from(2).first(payload.data[1]);
    if (!on(number, static_cast<InputType>(payload.data[0]), body)) return true;
    payload = payload.from(2 + body.bytes);
  }
  return true;
}

}  // namespace svc
