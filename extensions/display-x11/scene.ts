// The wallpaper as geometry: a dusk sky, hills in front of it and the host's name, for a screen of any size. Pure.

export type Point = readonly [x: number, y: number]
export type Triangle = readonly [Point, Point, Point]
/** Red, green, blue and opacity, each 0..1; not premultiplied. */
export type Colour = readonly [number, number, number, number]
export interface Stop {
  /** 0..1 along the gradient. */
  readonly at: number
  readonly colour: Colour
}

export interface Scene {
  /** Below this line, in pixels from the top, the hills hide everything. */
  readonly horizon: number
  /** From top to bottom. */
  readonly sky: readonly Stop[]
  readonly glow: { readonly centre: Point; readonly radius: number; readonly stops: readonly Stop[] }
  /** Painted in this order, each in one colour; `below`: all from this line down, too. */
  readonly shapes: readonly {
    readonly colour: Colour
    readonly triangles: readonly Triangle[]
    readonly below?: number
  }[]
}

const hex = (text: string, opacity = 1): Colour => {
  const [r, g, b] = [0, 2, 4].map(at => Number.parseInt(text.slice(at, at + 2), 16) / 255)
  return [r!, g!, b!, opacity]
}

/** A range of hills: its colour, where it lies (share of the height) and its waves (height share, length share, shift). */
const hills: readonly {
  colour: string
  base: number
  waves: readonly (readonly [number, number, number])[]
}[] = [
  {
    colour: '5b3f7d',
    base: 0.66,
    waves: [
      [0.05, 0.62, 0.4],
      [0.022, 0.23, 1.9],
      [0.006, 0.07, 0.3],
    ],
  },
  {
    colour: '412f69',
    base: 0.745,
    waves: [
      [0.045, 0.48, 2.6],
      [0.02, 0.19, 0.2],
      [0.005, 0.06, 1.1],
    ],
  },
  {
    colour: '2a2250',
    base: 0.83,
    waves: [
      [0.04, 0.71, 4.4],
      [0.016, 0.27, 3.3],
      [0.004, 0.08, 2.0],
    ],
  },
  {
    colour: '171537',
    base: 0.915,
    waves: [
      [0.035, 0.55, 1.3],
      [0.012, 0.21, 5.2],
    ],
  },
]

function ridge(range: (typeof hills)[number], width: number, height: number): Scene['shapes'][number] {
  // Waves are as long as on a 16:9 screen of this height, so that no shape is stretched.
  const unit = (height * 16) / 9
  const step = Math.max(4, Math.round(height / 90))
  const heightAt = (x: number): number =>
    range.waves.reduce(
      (y, [high, long, shift]) => y - high * Math.sin((x / unit / long) * 2 * Math.PI + shift),
      range.base,
    ) * height
  const line = Array.from(
    { length: Math.ceil(width / step) + 1 },
    (_, i): Point => [i * step, heightAt(i * step)],
  )
  const below = Math.min(height, Math.ceil(Math.max(...line.map(([, y]) => y))))
  const triangles = line.slice(1).flatMap((right, i): Triangle[] => {
    const left = line[i]!
    const [leftFoot, rightFoot]: [Point, Point] = [
      [left[0], below],
      [right[0], below],
    ]
    return [
      [left, right, leftFoot],
      [right, rightFoot, leftFoot],
    ]
  })
  return { colour: hex(range.colour), triangles, below }
}

/** Points of an arc; degrees, counter-clockwise from the right, y up. */
const arc = (cx: number, cy: number, rx: number, ry: number, from: number, to: number): Point[] =>
  Array.from({ length: 17 }, (_, i) => {
    const angle = ((from + ((to - from) * i) / 16) * Math.PI) / 180
    return [cx + rx * Math.cos(angle), cy + ry * Math.sin(angle)]
  })

/** Letters as strokes: y up, 0 the base line, 1 the height of an x. */
const letters: Readonly<Record<string, { readonly width: number; readonly strokes: readonly Point[][] }>> = {
  s: {
    width: 0.66,
    strokes: [[...arc(0.33, 0.75, 0.29, 0.25, 35, 270), ...arc(0.33, 0.25, 0.31, 0.25, 90, -145)]],
  },
  v: {
    width: 0.84,
    strokes: [
      [
        [0, 1],
        [0.42, 0],
        [0.84, 1],
      ],
    ],
  },
  c: { width: 0.8, strokes: [arc(0.5, 0.5, 0.5, 0.5, 48, 312)] },
  '-': {
    width: 0.5,
    strokes: [
      [
        [0.04, 0.5],
        [0.46, 0.5],
      ],
    ],
  },
  h: {
    width: 0.76,
    strokes: [
      [
        [0, 1.5],
        [0, 0],
      ],
      [[0, 0.6], ...arc(0.38, 0.62, 0.38, 0.38, 180, 0), [0.76, 0]],
    ],
  },
  o: { width: 1, strokes: [arc(0.5, 0.5, 0.5, 0.5, 0, 360)] },
  t: {
    width: 0.56,
    strokes: [
      [[0.2, 1.36], [0.2, 0.26], ...arc(0.46, 0.26, 0.26, 0.26, 180, 285)],
      [
        [0, 1],
        [0.54, 1],
      ],
    ],
  },
}
const letterGap = 0.36

/** A line with a round pen. */
function stroke(points: readonly Point[], pen: number): Triangle[] {
  const half = pen / 2
  const rims = points.map(([x, y]) =>
    Array.from({ length: 13 }, (_, i): Point => {
      const angle = (i / 6) * Math.PI
      return [x + half * Math.cos(angle), y + half * Math.sin(angle)]
    }),
  )
  const dots = rims.flatMap((rim, p) => rim.slice(1).map((to, i): Triangle => [points[p]!, rim[i]!, to]))
  const lines = points.slice(1).flatMap((to, i): Triangle[] => {
    const from = points[i]!
    const length = Math.hypot(to[0] - from[0], to[1] - from[1])
    if (length === 0) return []
    const [nx, ny] = [((from[1] - to[1]) / length) * half, ((to[0] - from[0]) / length) * half]
    const [a, b]: Point[] = [
      [from[0] + nx, from[1] + ny],
      [from[0] - nx, from[1] - ny],
    ]
    const [c, d]: Point[] = [
      [to[0] + nx, to[1] + ny],
      [to[0] - nx, to[1] - ny],
    ]
    return [
      [a!, b!, c!],
      [b!, c!, d!],
    ]
  })
  return [...lines, ...dots]
}

/** The name, its right end and base line at `end`; `size` is the height of an x in pixels. */
function wordmark(text: string, [right, base]: Point, size: number): Triangle[] {
  const glyphs = [...text].map(letter => letters[letter]!)
  const total = glyphs.reduce((sum, { width }) => sum + width + letterGap, -letterGap)
  let x = right - total * size
  return glyphs.flatMap(({ width, strokes }) => {
    const place = ([px, py]: Point): Point => [x + px * size, base - py * size]
    const triangles = strokes.flatMap(points => stroke(points.map(place), size * 0.19))
    x += (width + letterGap) * size
    return triangles
  })
}

/** The wallpaper of a screen of this size in pixels. */
export function sceneOf(width: number, height: number): Scene {
  const short = Math.min(width, height)
  return {
    horizon: Math.ceil(height * 0.76),
    sky: [
      { at: 0, colour: hex('10132e') },
      { at: 0.32, colour: hex('2b2560') },
      { at: 0.55, colour: hex('7a4183') },
      { at: 0.72, colour: hex('d9727a') },
      { at: 0.85, colour: hex('f2b184') },
      { at: 1, colour: hex('f2b184') },
    ],
    glow: {
      centre: [width * 0.68, height * 0.63],
      radius: short * 0.5,
      stops: [
        { at: 0, colour: hex('fff4dc', 0.95) },
        { at: 0.118, colour: hex('ffe6bd', 0.92) },
        { at: 0.124, colour: hex('ffcf9a', 0.42) },
        { at: 0.45, colour: hex('ff9f80', 0.14) },
        { at: 1, colour: hex('ff9f80', 0) },
      ],
    },
    shapes: [
      ...hills.map(range => ridge(range, width, height)),
      {
        colour: hex('ffffff', 0.62),
        triangles: wordmark('svc-host', [width - short * 0.05, height - short * 0.05], short * 0.026),
      },
    ],
  }
}
