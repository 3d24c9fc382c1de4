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

/// Calls `on(number, type, body)` for each event, in order, until it says false. False, and nothing was
/// handed on, when the payload is no whole list of 1 to 64 events.
template <typename On>
bool read_input(View payload, On on) {
  if (!payload.has(5)) return false;
  const uint32_t first = get32(payload.data);
  const uint32_t count = payload.data[4];
  if (count < 1 || count > 64) return false;
  const View events = payload.from(5);
  View rest = events;
  for (uint32_t i = 0; i < count; i++) {
    if (!rest.has(2) || !rest.has(2 + size_t{rest.data[1]})) return false;
    rest = rest.from(2 + size_t{rest.data[1]});
  }
  rest = events;
  for (uint32_t i = 0; i < count; i++) {
    const View body = rest.from(2).first(rest.data[1]);
    if (!on(first + i, static_cast<InputType>(rest.data[0]), body)) return true;
    rest = rest.from(2 + body.bytes);
  }
  return true;
}

}  // namespace svc
