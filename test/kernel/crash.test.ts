// kill -9 and what comes after: the next start undoes all that was left, says so, and two hosts never share a folder.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { carriers, markersIn } from './markers.ts'

const script = fileURLToPath(new URL('crash-host.ts', import.meta.url))

interface Run {
  child: ChildProcess
  output: string
  told: Record<string, unknown>
  ended: Promise<{ code: number | null; signal: string | null }>
}

let configDir: string
const running = new Set<Run>()
beforeEach(async () => {
  configDir = await mkdtemp(join(tmpdir(), 'svc-host-crash-'))
  const undo = `import { rmSync } from 'node:fs'
export default { flag: { undo: ({ flag }) => rmSync(flag, { force: true }) } }\n`
  await writeFile(join(configDir, 'undo.mjs'), undo)
})
afterEach(async () => {
  for (const { child, ended } of running) {
    child.kill('SIGKILL')
    await ended
  }
  running.clear()
  for (const pid of markers.splice(0).flatMap(carriers)) process.kill(pid, 'SIGKILL')
  await rm(configDir, { recursive: true, force: true })
})

/** Starts a host and resolves when it is ready or has ended. */
async function launch(mode: string, ...handed: number[]): Promise<Run> {
  const flags = ['--conditions=svc-source', '--no-node-snapshot', '--disable-warning=ExperimentalWarning']
  const child = spawn(process.execPath, [...flags, script, configDir, mode], {
    stdio: ['ignore', 'pipe', 'pipe', ...handed],
  })
  const ended = once(child, 'exit').then(([code, signal]) => ({ code, signal }))
  const run: Run = { child, output: '', told: {}, ended }
  running.add(run)
  const ready = new Promise<void>(done => {
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        run.output += text
        for (const [, json] of run.output.matchAll(/TOLD (.*)\n/g)) Object.assign(run.told, JSON.parse(json!))
        if (run.told['ready']) done()
      })
    }
  })
  await Promise.race([ready, ended.then(() => new Promise(done => setTimeout(done, 20)))])
  return run
}

const kill = async (run: Run): Promise<void> => {
  run.child.kill('SIGKILL')
  await run.ended
}
const stop = async (run: Run): Promise<void> => {
  run.child.kill('SIGTERM')
  expect(await run.ended).toEqual({ code: 0, signal: null })
}
const markers: string[] = []
/** Waits for the shell, its child and the grandchild that has left them. */
async function treeOf(): Promise<string> {
  const [marker = ''] = await markersIn(configDir)
  markers.push(marker)
  expect(marker).not.toBe('')
  await expect.poll(() => carriers(marker).length, { timeout: 5000 }).toBe(3)
  return marker
}

test('after kill -9 the next start undoes processes, folder and flag, and says so', async () => {
  const first = await launch('everything')
  const { folder, flag } = first.told as { folder: string; flag: string }
  expect(existsSync(`${folder}/file`) && existsSync(flag)).toBe(true)
  const marker = await treeOf()
  await kill(first)
  expect(carriers(marker).length).toBe(3)
  expect(existsSync(folder)).toBe(true)

  // Without its extension: the undo module named in the record is enough.
  const second = await launch('empty')
  expect(second.told['ready']).toBe(true)
  expect(carriers(marker)).toEqual([])
  expect(existsSync(folder) || existsSync(flag)).toBe(false)
  for (const kind of ['process', 'flag', 'folder'])
    expect(second.output).toContain(`undone ${kind} of leaver`)
  expect(second.output).toContain('left 3 effects: undone process × 1, undone flag × 1, undone folder × 1')
  await stop(second)

  const third = await launch('empty')
  expect(third.output).not.toContain('undone')
  await stop(third)
})

test('an orderly stop leaves nothing for the next start', async () => {
  const first = await launch('everything')
  const { folder, flag } = first.told as { folder: string; flag: string }
  const marker = await treeOf()
  await stop(first)
  expect([carriers(marker), existsSync(folder), existsSync(flag)]).toEqual([[], false, false])
  const second = await launch('empty')
  expect(second.output).not.toContain('earlier run')
  await stop(second)
})

test('killed between record and change: the record is there, and undoing nothing is fine', async () => {
  const first = await launch('before-change')
  expect((await first.ended).signal).toBe('SIGKILL')
  expect(existsSync(join(configDir, 'flag'))).toBe(false)
  expect(await readFile(join(configDir, 'journal'), 'utf8')).toContain('"kind":"flag"')
  const second = await launch('empty')
  expect(second.output).toContain('undone flag of leaver')
  await stop(second)
})

test('an undo that fails keeps its record and says so; the next start tries again', async () => {
  await kill(await launch('everything'))
  const undo = await readFile(join(configDir, 'undo.mjs'), 'utf8')
  await writeFile(
    join(configDir, 'undo.mjs'),
    'export default { flag: { undo() { throw new Error("locked") } } }',
  )
  const second = await launch('empty')
  expect(second.output).toContain('could not undo flag of leaver: locked; its record stays')
  expect(second.output).toContain('failed to undo flag × 1')
  await stop(second)
  await writeFile(join(configDir, 'undo.mjs'), undo)
  const third = await launch('empty')
  expect(third.output).toContain('left 1 effects: undone flag × 1')
  expect(existsSync(join(configDir, 'flag'))).toBe(false)
  await stop(third)
})

test('a second host on the same folder is refused with the pid; after kill -9 the folder is free', async () => {
  const first = await launch('empty')
  const second = await launch('everything')
  expect((await second.ended).code).not.toBe(0)
  expect(second.output).toContain(
    `is in use by process ${first.child.pid}, a svc-host that is running; stop it first`,
  )
  expect(second.told['ready']).toBeUndefined()
  await kill(first)
  const third = await launch('empty')
  expect(third.told['ready']).toBe(true)
  await stop(third)
})

test('what the host itself was handed open, no child of its own gets', async () => {
  const file = openSync(join(configDir, 'undo.mjs'), 'r')
  // Beyond the first sixteen, which Node sees to.
  const run = await launch('descriptors', ...Array<number>(30).fill(file))
  closeSync(file)
  // The last is the folder that ls is reading.
  expect(run.told['descriptors']).toEqual(['0', '1', '2', '3'])
  await stop(run)
})

test('of starters at the same moment exactly one wins', async () => {
  const runs = await Promise.all(Array.from({ length: 4 }, () => launch('empty')))
  expect(runs.filter(({ told }) => told['ready']).length).toBe(1)
})

test('a stray throw and a stray rejection are counted at their owner and the host lives', async () => {
  const run = await launch('stray')
  expect(await run.ended).toEqual({ code: 0, signal: null })
  expect(run.told['errors']).toBe(2)
  expect(run.output).toContain('[leaver] stray error: thrown later')
  expect(run.output).toContain('[leaver] stray rejection: rejected later')
})
