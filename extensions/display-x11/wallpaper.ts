// Draws the wallpaper by the server's own RENDER extension: no program to start, no picture to scale, any size at once.
import type { XConnection } from './connection.ts'
import { shorts, words } from './packet.ts'
import { type Colour, type Point, type Stop, sceneOf, type Triangle } from './scene.ts'

const changeWindowAttributes = 2
const createPixmap = 53
const freePixmap = 54
const clearArea = 61
const minor = {
  queryVersion: 0,
  queryPictFormats: 1,
  createPicture: 4,
  freePicture: 7,
  composite: 8,
  triangles: 11,
  fillRectangles: 26,
  createSolidFill: 33,
  createLinearGradient: 34,
  createRadialGradient: 35,
} as const
const over = 3

/** Triangles of one request; 24 bytes each, and a request holds 256 KiB. */
const trianglesAtOnce = 8000

/** 16.16 fixed point. */
const fixed = (...values: number[]): Buffer => words(...values.map(value => Math.round(value * 65536)))

/** Plain colours are multiplied by their opacity, those of a gradient are not. */
const plain = ([r, g, b, a]: Colour): Colour => [r * a, g * a, b * a, a]
const colourWords = (colour: Colour): Buffer => shorts(...colour.map(part => Math.round(part * 65535)))

const stopWords = (stops: readonly Stop[]): Buffer =>
  Buffer.concat([
    words(stops.length),
    fixed(...stops.map(({ at }) => at)),
    ...stops.map(({ colour }) => colourWords(colour)),
  ])

/** The ids of the two formats that drawing needs, from what QueryPictFormats answers. */
export function parseFormats(reply: Buffer): { rgb: number; mask: number } {
  const found = new Map<string, number>()
  const count = reply.readUInt32LE(8)
  if (32 + count * 28 > reply.length) throw new RangeError('the list of picture formats is cut off')
  for (let at = 32; at < 32 + count * 28; at += 28) {
    const [redShift, redMask, , , , , , alphaMask] = Array.from({ length: 8 }, (_, i) =>
      reply.readUInt16LE(at + 8 + i * 2),
    )
    const [isDirect, depth] = [reply[at + 4] === 1, reply[at + 5]!]
    if (!isDirect) continue
    if (depth === 24 && redShift === 16 && redMask === 0xff && alphaMask === 0)
      found.set('rgb', reply.readUInt32LE(at))
    if (depth === 8 && redMask === 0 && alphaMask === 0xff) found.set('mask', reply.readUInt32LE(at))
  }
  const [rgb, mask] = [found.get('rgb'), found.get('mask')]
  if (rgb === undefined || mask === undefined)
    throw new Error('the X server lacks the picture formats RGB24 and A8')
  return { rgb, mask }
}

/** Returns the function that makes the wallpaper of this size the background of the root window. */
export async function openWallpaper(
  x: XConnection,
): Promise<(width: number, height: number) => Promise<void>> {
  const render = await x.extension('RENDER')
  await x.ask(render, minor.queryVersion, words(0, 11))
  const formats = parseFormats(await x.ask(render, minor.queryPictFormats, new Uint8Array()))

  const send = (request: number, ...parts: Uint8Array[]): void =>
    x.send(render, request, Buffer.concat(parts))

  return async (width, height) => {
    const scene = sceneOf(width, height)
    const [pixmap, canvas] = [x.newId(), x.newId()]
    x.send(createPixmap, x.rootDepth, Buffer.concat([words(pixmap, x.root), shorts(width, height)]))
    send(minor.createPicture, words(canvas, pixmap, formats.rgb, 0))

    /** Makes a source, paints with it and frees it. */
    const paint = (request: number, body: readonly Uint8Array[], draw: (source: number) => void): void => {
      const source = x.newId()
      send(request, words(source), ...body)
      draw(source)
      send(minor.freePicture, words(source))
    }
    const area = (left: number, top: number, w: number, h: number) => (source: number) =>
      send(minor.composite, words(over, source, 0, canvas), shorts(left, top, 0, 0, left, top, w, h))
    const shape = (triangles: readonly Triangle[]) => (source: number) => {
      for (let i = 0; i < triangles.length; i += trianglesAtOnce) {
        const points: readonly Point[] = triangles.slice(i, i + trianglesAtOnce).flat()
        send(
          minor.triangles,
          words(over, source, canvas, formats.mask),
          shorts(0, 0),
          fixed(...points.flat()),
        )
      }
    }

    paint(
      minor.createLinearGradient,
      [fixed(0, 0, 0, height), stopWords(scene.sky)],
      area(0, 0, width, scene.horizon),
    )
    const { centre, radius, stops } = scene.glow
    const [left, top] = centre.map(at => Math.max(0, Math.floor(at - radius)))
    paint(
      minor.createRadialGradient,
      [fixed(...centre, ...centre, 0, radius), stopWords(stops)],
      area(left!, top!, Math.ceil(radius * 2), scene.horizon - top!),
    )
    for (const { colour, triangles, below = height } of scene.shapes) {
      const solid = colourWords(plain(colour))
      paint(minor.createSolidFill, [solid], shape(triangles))
      send(minor.fillRectangles, words(over, canvas), solid, shorts(0, below, width, height - below))
    }

    const backgroundPixmap = 1
    x.send(changeWindowAttributes, 0, words(x.root, backgroundPixmap, pixmap))
    x.send(clearArea, 0, Buffer.concat([words(x.root), shorts(0, 0, 0, 0)]))
    send(minor.freePicture, words(canvas))
    x.send(freePixmap, 0, words(pixmap))
    await x.sync()
  }
}
