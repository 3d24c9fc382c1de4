// kill -9 at a random moment while a session comes up or streams: the next start leaves nothing of it.
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { effectsOf, isAlive } from '../harness/effects.ts'
import { freePort, type HostProcess, serve, startViewer, until, viewer } from '../harness/host.ts'
import type { Sweep } from './main.ts'

/** However busy the machine is: a sweep that may take hours waits for it. */
const withinMs = 120_000

/** What a moment is counted from, and how long after it at most; what happens by then takes its own time on each machine. */
const moments: readonly [
  name: string,
  begins: (host: HostProcess) => boolean | Promise<boolean>,
  mostMs: number,
][] = [
  ['the client began', () => true, 1500],
  [
    'the first effect',
    ({ configDir }) => existsSync(join(configDir, 'journal')) && effectsOf(configDir).folders.length > 0,
    1500,
  ],
  ['the stream began', async ({ api }) => (await api('GET', '/status')).body.video_streaming, 6000],
]

export const killSweep: Sweep = {
  name: 'kill',
  rounds: 50,
  async begin() {
    const folder = mkdtempSync(join(tmpdir(), 'svc-soak-kill-'))
    const [configDir, identity] = [join(folder, 'config'), join(folder, 'identity')]
    const ports = { mgmtPort: await freePort(), nativePort: await freePort() }
    const target = `127.0.0.1:${ports.nativePort}`
    const host = await serve({ configDir, ...ports, withinMs })
    const paired = await viewer(identity, 'pair', target, '--pin', await host.arm())
    await host.stop()
    if (paired.code !== 0) throw new Error(`pairing failed: ${paired.err}`)
    return {
      async round(random) {
        const doomed = await serve({ configDir, ...ports, withinMs })
        const watching = startViewer(identity, 'stream', target, '--mode', '1280x720@60', '--seconds', '600')
        const [moment, begins, mostMs] = moments[Math.floor(random() * moments.length)]!
        const afterMs = Math.round(random() * mostMs)
        try {
          await until(moment, () => begins(doomed), withinMs)
          await sleep(afterMs)
        } finally {
          await doomed.stop('SIGKILL')
          watching.kill()
        }
        const { pids, folders } = effectsOf(configDir)
        const next = await serve({ configDir, ...ports, withinMs })
        try {
          const survivors = pids.filter(isAlive)
          if (survivors.length) throw new Error(`processes outlived the crash: ${survivors.join(', ')}`)
          const kept = folders.filter(existsSync)
          if (kept.length) throw new Error(`folders outlived the crash: ${kept.join(', ')}`)
          const broken = readdirSync(configDir).filter(name => name.includes('.broken-'))
          if (broken.length) throw new Error(`files broke: ${broken.join(', ')}`)
          // Health is told as soon as anything is served; what keeps the roster may still be starting.
          const roster = await until(
            'the roster',
            async () => {
              const { status, body } = await next.api('GET', '/native/clients')
              return status === 200 && body
            },
            withinMs,
          )
          if (roster.length !== 1) throw new Error(`the roster has ${roster.length} devices instead of one`)
        } finally {
          await next.stop()
        }
        return `killed ${afterMs} ms after ${moment}, ${pids.length} processes and ${folders.length} folders undone`
      },
      async end() {
        rmSync(folder, { recursive: true, force: true })
      },
    }
  },
}
