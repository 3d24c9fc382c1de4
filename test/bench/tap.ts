// The tap: every datagram of a pipeline as it arrives, with the kernel's time, without standing in its way.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { buildProgram } from '../player/build.ts'
import { end, startReady } from './process.ts'

const here = fileURLToPath(new URL('.', import.meta.url))

export interface Heard {
  /** CLOCK_MONOTONIC, microseconds. */
  readonly atUs: number
  /** One UDP payload, or several of one size that were sent in one piece. */
  readonly data: Buffer
}

/** Listens on the loopback interface to what goes to, or comes from, a UDP port; `stop` gives what was heard. */
export async function startTap(
  way: 'to' | 'from',
  port: number,
  file: string,
): Promise<{ stop(): Promise<Heard[]> }> {
  const child = await startReady(await buildProgram('tap', [], here), [way, String(port), file], {})
  let heard: Heard[] | undefined
  return {
    stop: async () => {
      if (heard) return heard
      await end(child)
      if (child.exitCode !== 0) throw new Error(`the tap ended with ${child.exitCode}`)
      const bytes = readFileSync(file)
      heard = []
      for (let at = 0; at + 12 <= bytes.length; ) {
        const length = bytes.readUInt32LE(at + 8)
        heard.push({
          atUs: Number(bytes.readBigUInt64LE(at)) / 1000,
          data: bytes.subarray(at + 12, at + 12 + length),
        })
        at += 12 + length
      }
      return heard
    },
  }
}
