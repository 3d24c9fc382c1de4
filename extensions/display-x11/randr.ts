// The RandR extension: gives the screen of an X server exactly the size and rate of a mode.
import type { Mode } from 'svc-host/api/media'
import type { XConnection } from './connection.ts'
import { shorts, words } from './packet.ts'

const grabServer = 36
const ungrabServer = 37
const minor = {
  queryVersion: 0,
  setScreenSize: 7,
  createMode: 16,
  destroyMode: 17,
  addOutputMode: 18,
  deleteOutputMode: 19,
  setCrtcConfig: 21,
  getScreenResourcesCurrent: 25,
} as const

/** Timings of a mode, in pixels and lines; the least blanking that keeps start, end and total apart. */
export interface Modeline {
  readonly name: string
  readonly dotClockHz: number
  readonly hSyncStart: number
  readonly hSyncEnd: number
  readonly hTotal: number
  readonly vSyncStart: number
  readonly vSyncEnd: number
  readonly vTotal: number
}

const ours = 'svc-'

/** A headless screen has no beam: the blanking only has to make the rate come out, which is clock / (hTotal × vTotal). */
export function modelineOf({ width, height, hz }: Mode): Modeline {
  const hTotal = width + 3
  const vTotal = height + 3
  return {
    name: `${ours}${width}x${height}@${hz}`,
    // The field has 32 bits; beyond them the rate that the screen reports is lower, and nothing else changes.
    dotClockHz: Math.min(hTotal * vTotal * hz, 0xffffffff),
    hSyncStart: width + 1,
    hSyncEnd: width + 2,
    hTotal,
    vSyncStart: height + 1,
    vSyncEnd: height + 2,
    vTotal,
  }
}

/** What GetScreenResourcesCurrent answers; throws where the lengths in it do not fit. */
export function parseResources(reply: Buffer): {
  crtcs: number[]
  outputs: number[]
  modes: Map<string, number>
  configTime: number
} {
  const [crtcCount, outputCount, modeCount, namesLength] = [16, 18, 20, 22].map(at => reply.readUInt16LE(at))
  const idsAt = (at: number, count: number): number[] =>
    Array.from({ length: count }, (_, i) => reply.readUInt32LE(at + i * 4))
  const outputsAt = 32 + crtcCount! * 4
  const modesAt = outputsAt + outputCount! * 4
  let nameAt = modesAt + modeCount! * 32
  if (nameAt + namesLength! > reply.length) throw new RangeError('the list of modes is cut off')
  const modes = new Map<string, number>()
  for (let i = 0; i < modeCount!; i++) {
    const length = reply.readUInt16LE(modesAt + i * 32 + 26)
    modes.set(reply.toString('latin1', nameAt, nameAt + length), reply.readUInt32LE(modesAt + i * 32))
    nameAt += length
  }
  return {
    crtcs: idsAt(32, crtcCount!),
    outputs: idsAt(outputsAt, outputCount!),
    modes,
    configTime: reply.readUInt32LE(12),
  }
}

export interface Screen {
  /** Rejects with a sentence; the size is then as before or the server is gone. */
  setMode(mode: Mode): Promise<void>
}

export async function openScreen(x: XConnection): Promise<Screen> {
  const randr = await x.extension('RANDR')
  await x.ask(randr, minor.queryVersion, words(1, 5))

  const resources = async () =>
    parseResources(await x.ask(randr, minor.getScreenResourcesCurrent, words(x.root)))

  const createMode = async ({ width, height }: Mode, line: Modeline): Promise<number> => {
    const name = Buffer.from(line.name, 'latin1')
    const info = Buffer.concat([
      words(0),
      shorts(width, height),
      words(line.dotClockHz),
      shorts(
        line.hSyncStart,
        line.hSyncEnd,
        line.hTotal,
        0,
        line.vSyncStart,
        line.vSyncEnd,
        line.vTotal,
        name.length,
      ),
      words(0),
    ])
    const reply = await x.ask(randr, minor.createMode, Buffer.concat([words(x.root), info, name]))
    return reply.readUInt32LE(8)
  }

  const configure = async (
    crtc: number,
    configTime: number,
    mode: number,
    outputs: number[],
  ): Promise<void> => {
    const rotateNone = 1
    const body = [
      words(crtc, 0, configTime),
      shorts(0, 0),
      words(mode),
      shorts(rotateNone, 0),
      words(...outputs),
    ]
    const reply = await x.ask(randr, minor.setCrtcConfig, Buffer.concat(body))
    if (reply[1] !== 0) throw new Error(`the X server does not take the mode (status ${reply[1]})`)
  }

  return {
    async setMode(mode) {
      const line = modelineOf(mode)
      const { crtcs, outputs, modes, configTime } = await resources()
      const [crtc, output] = [crtcs[0], outputs[0]]
      if (crtc === undefined || output === undefined) throw new Error('the X server has no output')
      const id = modes.get(line.name) ?? (await createMode(mode, line))
      x.send(randr, minor.addOutputMode, words(output, id))
      // Nobody sees the moment at which the output is off.
      x.send(grabServer, 0, new Uint8Array())
      try {
        await configure(crtc, configTime, 0, [])
        const millimetres = (pixels: number): number => Math.max(1, Math.round((pixels * 25.4) / 96))
        const size = [
          shorts(mode.width, mode.height),
          words(millimetres(mode.width), millimetres(mode.height)),
        ]
        x.send(randr, minor.setScreenSize, Buffer.concat([words(x.root), ...size]))
        await configure(crtc, configTime, id, [output])
      } finally {
        x.send(ungrabServer, 0, new Uint8Array())
      }
      // Programs see the mode in force and the largest, not a trail of former ones.
      for (const [name, former] of modes) {
        if (!name.startsWith(ours) || former === id) continue
        x.send(randr, minor.deleteOutputMode, words(output, former))
        x.send(randr, minor.destroyMode, words(former))
      }
      await x.sync()
    },
  }
}
