// One display's sound server: PulseAudio with a null sink, as the session's account, in the session's runtime folder.
// The sink's monitor is captured from the start on, because a server may need seconds for the first samples.
import { randomBytes } from 'node:crypto'
import { chown, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { DisplayRoom } from 'svc-host/api/displays'
import type { MediaEngine, SoundChannels, SoundSource } from 'svc-host/api/media'
import type { Log, Scope } from 'svc-host/sdk'
import { loadSink, pulseArguments, sinkName, useSink } from './pulse.ts'

export interface SoundServer {
  /** What programs need to find it. */
  readonly env: Readonly<Record<string, string>>
  /** Offers programs this many channels, and tells where to record them. */
  open(channels: SoundChannels): Promise<SoundSource>
  close(): Promise<void>
}

const cookieBytes = 256
/** Between a server's end that nobody asked for and the next start: doubled at each that comes soon. */
const firstDelayMs = 250
const longestDelayMs = 30_000
const steadyMs = 10_000

/** The server proves nothing else to this host than that it knows the cookie, and the host likewise. */
async function writeCookie(path: string, home: string): Promise<void> {
  await writeFile(path, randomBytes(cookieBytes), { mode: 0o400, flag: 'wx' })
  const { uid, gid } = await stat(home)
  if (process.getuid?.() === 0) await chown(path, uid, gid)
}

export async function startSoundServer(
  outer: Scope,
  room: DisplayRoom,
  engine: MediaEngine,
  log: Log,
): Promise<SoundServer> {
  const scope = outer.scope(`sound of ${room.name}`)
  try {
    return await start(scope, room, engine, log)
  } catch (error) {
    await scope.close()
    throw error
  }
}

async function start(
  scope: Scope & { close(): Promise<void> },
  room: DisplayRoom,
  engine: MediaEngine,
  log: Log,
): Promise<SoundServer> {
  const { HOME: home, XDG_RUNTIME_DIR: runtime } = room.env
  if (!home || !runtime) throw new Error(`${room.name} tells of no home and no runtime folder`)
  const folder = await scope.folder('sound server files', { mode: 0o755 })
  const cookie = join(folder, 'cookie')
  await writeCookie(cookie, home)
  // Where every client library looks of itself, so that programs which know nothing of us find it, and find it again.
  const socket = join(runtime, 'pulse', 'native')
  const sourceOf = (channels: SoundChannels): SoundSource => ({
    kind: 'pulse',
    server: socket,
    cookie,
    device: `${sinkName(channels)}.monitor`,
  })

  let channels: SoundChannels = 2
  let console: Writable | undefined
  const loaded = new Set<SoundChannels>()

  const read = (stream: Readable | null): void => {
    if (!stream) return
    const lines = createInterface({ input: stream })
    lines.on('line', line => log.debug(line.slice(0, 4096), { process: `${room.name} sound server` }))
  }
  const run = async (): Promise<void> => {
    for (let endedSoon = 0; ; ) {
      const startedMs = performance.now()
      loaded.clear()
      loaded.add(channels)
      const server = await scope.process('sound server', {
        command: 'pulseaudio',
        args: pulseArguments({ socket, cookie, channels }),
        env: room.env,
        cwd: home,
        unprivileged: true,
        folders: [...room.folders, folder],
        output: 'pipe',
        graceMs: 1000,
      })
      read(server.stdout)
      read(server.stderr)
      console = server.stdin ?? undefined
      const { code, signal } = await server.exited
      console = undefined
      if (scope.signal.aborted) return
      endedSoon = performance.now() - startedMs >= steadyMs ? 0 : endedSoon + 1
      const waitMs = Math.min(longestDelayMs, firstDelayMs * 2 ** endedSoon)
      log.warn(`the sound server of ${room.name} ended (${signal ?? code}); it starts again in ${waitMs} ms`)
      await delay(waitMs, undefined, { signal: scope.signal })
    }
  }
  run().catch(error => {
    if (!scope.signal.aborted) log.error(`${room.name} has no sound`, { err: error })
  })

  // The recorder stays open between streams: a program with a large buffer would set the server's pace otherwise.
  let letGo = await engine.holdSound(sourceOf(channels), channels)
  await scope.effect('recorder', () => () => letGo())
  let changing: Promise<unknown> = Promise.resolve()
  const change = async (wanted: SoundChannels): Promise<void> => {
    if (wanted === channels || scope.signal.aborted) return
    channels = wanted
    if (!loaded.has(wanted)) console?.write(loadSink(wanted))
    loaded.add(wanted)
    console?.write(useSink(wanted))
    const before = letGo
    letGo = await engine.holdSound(sourceOf(wanted), wanted)
    await before()
  }

  return {
    env: { PULSE_SERVER: `unix:${socket}` },
    open: async wanted => {
      changing = changing.then(() => change(wanted))
      await changing
      return sourceOf(wanted)
    },
    close: () => scope.close(),
  }
}
