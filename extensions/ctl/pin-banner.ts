// A PIN in digits that can be read from across the room.

/** Each row of a digit as three bits, the leftmost highest. */
const rows: Record<string, readonly number[]> = {
  '0': [0b111, 0b101, 0b101, 0b101, 0b111],
  '1': [0b010, 0b110, 0b010, 0b010, 0b111],
  '2': [0b111, 0b001, 0b111, 0b100, 0b111],
  '3': [0b111, 0b001, 0b111, 0b001, 0b111],
  '4': [0b101, 0b101, 0b111, 0b001, 0b001],
  '5': [0b111, 0b100, 0b111, 0b001, 0b111],
  '6': [0b111, 0b100, 0b111, 0b101, 0b111],
  '7': [0b111, 0b001, 0b010, 0b010, 0b010],
  '8': [0b111, 0b101, 0b111, 0b101, 0b111],
  '9': [0b111, 0b101, 0b111, 0b001, 0b111],
}

/** Five lines; `ink` is one dot, drawn twice since characters are about twice as high as wide. */
export const pinBanner = (pin: string, ink: string): string =>
  [0, 1, 2, 3, 4]
    .map(row =>
      [...pin]
        .map(digit => [4, 2, 1].map(bit => ((rows[digit]?.[row] ?? 0) & bit ? ink + ink : '  ')).join(''))
        .join('   ')
        .trimEnd(),
    )
    .map(line => `    ${line}`.trimEnd())
    .join('\n')
