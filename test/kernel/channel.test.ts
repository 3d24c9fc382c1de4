// The bridge to a child process, told alone: whatever bytes come, the host is told at most once, and nothing is thrown.
import { PassThrough } from 'node:stream'
import fc from 'fast-check'
import type { GuestProcess, Log } from 'svc-host/sdk'
import { expect, test } from 'vitest'
import { type Cell, createCell } from '../../kernel/realms/cell.ts'
import { createChannel } from '../../kernel/realms/channel.ts'
import { usageOf } from '../../kernel/realms/tree.ts'
import { fromChild } from '../../sdk/realm/child.ts'
import { encodePacket } from '../../sdk/realm/packets.ts'

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} }

interface Opened {
  readonly cell: Cell
  readonly output: PassThrough
  readonly stdout: PassThrough
  readonly lost: string[]
  readonly asked: unknown[]
  stops(): number
}

/** A cell whose child is played by the test. */
function open(log: Log = silent): Opened {
  const [stdin, stdout, stderr, output] = Array.from({ length: 4 }, () => new PassThrough())
  const lost: string[] = []
  const asked: unknown[] = []
  let count = 0
  const child: GuestProcess = {
    process: {
      pid: process.pid,
      // It ends when nobody has anything more to say to it.
      exited: new Promise(done => stdin!.once('end', () => done({ code: 0, signal: null }))),
      stdin: stdin!.resume(),
      stdout: stdout!,
      stderr: stderr!,
      pipes: [output!],
      stop: async () => {},
    },
    main: '/package/index.js',
    env: {},
    hasWalls: true,
    async stop() {
      count += 1
    },
  }
  const told = { report() {}, isSlow: () => false, lost: (why: string) => void lost.push(why) }
  const cell = createCell('process', told, hands => createChannel(child, log, hands))
  void cell.open((verb, args) => void asked.push([verb, ...args])).catch(() => {})
  return { cell, output: output!, stdout: stdout!, lost, asked, stops: () => count }
}
const packet = (kind: number, text: string): Buffer =>
  encodePacket({ kind, cell: 0, seq: 0, amount: 0, text })
const soon = (): Promise<void> => new Promise(done => setImmediate(() => setImmediate(done)))

test('any bytes are taken or end it, once', async () => {
  const message = fc.oneof(
    fc.tuple(fc.constant('do'), fc.integer(), fc.string(), fc.array(fc.jsonValue(), { maxLength: 3 })),
    fc.tuple(fc.constant('done'), fc.integer(), fc.boolean(), fc.jsonValue()),
    fc.jsonValue(),
  )
  const said = fc.array(message, { maxLength: 5 }).map(list => JSON.stringify(list))
  const kind = fc.oneof(
    fc.constantFrom(...Object.values<number>(fromChild)),
    fc.integer({ min: 0, max: 255 }),
  )
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 64 }).map(bytes => Buffer.from(bytes)),
    fc.tuple(kind, fc.oneof(said, fc.string())).map(([of, text]) => packet(of, text)),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 8 }), async pieces => {
      const { cell, output, lost, stops } = open()
      for (const each of pieces) output.write(each)
      await soon()
      expect(lost.length).toBeLessThanOrEqual(1)
      expect(cell.isGone()).toBe(lost.length === 1)
      if (cell.isGone()) expect(stops()).toBeGreaterThan(0)
      await cell.close()
      expect(stops()).toBeGreaterThan(0)
      await expect(cell.call(1, [])).rejects.toThrow('its process has ended')
    }),
    { numRuns: 60 },
  )
})

test('what it asks for is done in order, and asking for too much at once ends it', async () => {
  const { output, asked, lost, cell } = open()
  const ask = (from: number, count: number): string =>
    JSON.stringify(Array.from({ length: count }, (_, at) => ['do', from + at, 'log', [at]]))
  output.write(packet(fromChild.say, ask(1, 3)))
  await soon()
  expect(asked).toEqual([0, 1, 2].map(at => ['log', at]))
  output.write(packet(fromChild.say, ask(4, 1025)))
  await soon()
  expect(lost).toEqual(['it said something that the bridge does not know'])
  expect(cell.isGone()).toBe(true)
})

test('what it prints is logged line by line, so many lines in a second', async () => {
  const lines: string[] = []
  const { stdout, cell } = open({ ...silent, info: line => void lines.push(line) })
  stdout.write(`one\ntw`)
  stdout.write(`o\n${'x'.repeat(10_000)}\n`)
  stdout.write('line\n'.repeat(5000))
  await soon()
  expect(lines.slice(0, 2)).toEqual(['one', 'two'])
  expect(lines[2]!.length).toBe(4096)
  expect(lines.length).toBeLessThanOrEqual(100)
  expect(stdout.isPaused()).toBe(true)
  await cell.close()
})

test('CPU time and memory of a process and what it has started are told together', async () => {
  const kept = Buffer.alloc(64 * 2 ** 20, 1)
  const { cpuMs, memoryBytes } = await usageOf(process.pid)
  expect(memoryBytes).toBeGreaterThan(kept.length)
  expect(cpuMs).toBeGreaterThan(0)
  expect(await usageOf(2 ** 22 + 1)).toEqual({ cpuMs: 0, memoryBytes: 0 })
})
