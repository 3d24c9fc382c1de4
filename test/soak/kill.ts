// kill -9 at a random moment between the start of a stream and its tenth second: the next start leaves nothing of it.
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { effectsOf, isAlive } from '../harness/effects.ts'
import { freePort, serve, startViewer, viewer } from '../harness/host.ts'
import type { Sweep } from './main.ts'

export const killSweep: Sweep = {
  name: 'kill',
  rounds: 50,
  async begin() {
    const folder = mkdtempSync(join(tmpdir(), 'svc-soak-kill-'))
    const [configDir, identity] = [join(folder, 'config'), join(folder, 'identity')]
    const ports = { mgmtPort: await freePort(), nativePort: await freePort() }
    const target = `127.0.0.1:${ports.nativePort}`
    const host = await serve({ configDir, ...ports })
    const paired = await viewer(identity, 'pair', target, '--pin', await host.arm())
    await host.stop()
    if (paired.code !== 0) throw new Error(`pairing failed: ${paired.err}`)
    return {
      async round(random) {
        const doomed = await serve({ configDir, ...ports })
        const watching = startViewer(identity, 'stream', target, '--mode', '1280x720@60', '--seconds', '20')
        await sleep(random() * (random() < 0.5 ? 1000 : 6000))
        await doomed.stop('SIGKILL')
        const { pids, folders } = effectsOf(configDir)
        watching.kill()
        const next = await serve({ configDir, ...ports })
        try {
          const survivors = pids.filter(isAlive)
          if (survivors.length) throw new Error(`processes outlived the crash: ${survivors.join(', ')}`)
          const kept = folders.filter(existsSync)
          if (kept.length) throw new Error(`folders outlived the crash: ${kept.join(', ')}`)
          const broken = readdirSync(configDir).filter(name => name.includes('.broken-'))
          if (broken.length) throw new Error(`files broke: ${broken.join(', ')}`)
          const roster = await next.api('GET', '/native/clients')
          if (roster.body.length !== 1)
            throw new Error(`the roster has ${roster.body.length} devices instead of one`)
        } finally {
          watching.kill()
          await next.stop()
        }
      },
      async end() {
        rmSync(folder, { recursive: true, force: true })
      },
    }
  },
}
