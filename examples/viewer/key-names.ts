// Names of keys as in KeyboardEvent.code, and their USB HID usages (page 0x07).

const rows: readonly (readonly [first: number, names: string])[] = [
  [4, 'KeyA KeyB KeyC KeyD KeyE KeyF KeyG KeyH KeyI KeyJ KeyK KeyL KeyM'],
  [17, 'KeyN KeyO KeyP KeyQ KeyR KeyS KeyT KeyU KeyV KeyW KeyX KeyY KeyZ'],
  [30, 'Digit1 Digit2 Digit3 Digit4 Digit5 Digit6 Digit7 Digit8 Digit9 Digit0'],
  [40, 'Enter Escape Backspace Tab Space Minus Equal BracketLeft BracketRight Backslash'],
  [51, 'Semicolon Quote Backquote Comma Period Slash CapsLock F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12'],
  [70, 'PrintScreen ScrollLock Pause Insert Home PageUp Delete End PageDown'],
  [79, 'ArrowRight ArrowLeft ArrowDown ArrowUp NumLock'],
  [100, 'IntlBackslash ContextMenu'],
  [224, 'ControlLeft ShiftLeft AltLeft MetaLeft ControlRight ShiftRight AltRight MetaRight'],
]

const usages = new Map(
  rows.flatMap(([first, names]) => names.split(' ').map((name, i) => [name, first + i] as const)),
)

/** The usage of a key by name, or by number such as `0x28`; undefined for neither. */
export const keyUsage = (name: string): number | undefined => {
  if (/^0x[0-9a-f]{1,4}$/i.test(name)) return Number(name)
  return usages.get(name)
}
