// Control connections over real TLS sockets: what strangers, clumsy clients and hostile ones get to see.
import { mkdtempSync, rmSync } from 'node:fs'
import { connect as connectTcp } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { connect, type Identity, loadIdentity } from '../../sdk/stream/index.ts'
import { createQueue } from '../pairing/queue.ts'
import { createRoster } from '../pairing/roster.ts'
import { RosterFile } from '../pairing/schema.ts'
import { createPairing } from '../pairing/service.ts'
import { createServing } from '../pairing/serving.ts'
import { converse } from './conversation.ts'
import { createFrameReader, frame } from './frames.ts'
import { type Listener, openListener } from './listener.ts'
import { createPlane } from './plane.ts'
import { noSound } from './sound.ts'

const notReached = () => Promise.reject(new Error('nothing of this test may get here'))
const quiet = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
const document = {
  value: RosterFile.parse({}),
  exists: true,
  write: async (next: RosterFile) => {
    document.value = next
  },
}
const news = { completed: () => {}, granted: () => {}, changed: () => {}, expired: () => {} }
const roster = createRoster(document, news)
const serving = createServing()
/** How far the queue's clock is ahead. */
let laterMs = 0
const pairing = createPairing(roster, serving, () => {})
let ids = 0
const queue = createQueue({
  roster,
  serving,
  nowMs: () => performance.now() + laterMs,
  news: { pending: () => {}, denied: () => {} },
  newId: () => ids++,
})
const plane = createPlane({
  engine: { codecs: async () => ['h264'], openPlane: notReached, holdSound: notReached },
  media: { port: 1, open: notReached, stats: () => ({ received: 0, rejected: 0 }), close: async () => {} },
  pool: {
    acquire: () => Promise.reject(new Error('no display backend is there')),
    register: () => notReached,
    rooms: () => [],
    kept: async () => 0,
  },
  registry: { admit: async () => ({ refused: 'busy', message: 'full' }) },
  roster,
  sounds: noSound,
  idleTimeoutMs: 1000,
  log: quiet,
})

let folder: string
let client: Identity
let host: Identity
let listener: Listener
let stopServing: () => void

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'svc-control-'))
  client = await loadIdentity(join(folder, 'client'))
  host = await loadIdentity(join(folder, 'host'))
  const identity = {
    certificatePem: host.certificatePem,
    privateKeyPem: host.keyPem,
    fingerprint: host.fingerprint,
  }
  const about = { name: 'Den', id: '0123456789ABCDEF', version: '1.2.3', fingerprint: host.fingerprint }
  const isPaired = (fingerprint: string) => roster.find(fingerprint) !== undefined
  const limits = { stepMs: 300, pairStepMs: 600 }
  listener = await openListener(identity, 0, ({ channel, admitted: onAdmitted }) => {
    void converse(channel, { plane, pairing, queue, isPaired, host: about, log: quiet, onAdmitted, limits })
  })
  stopServing = pairing.serve()
})
afterAll(async () => {
  await listener?.close()
  rmSync(folder, { recursive: true, force: true })
})

/** A raw client: what it received until the host hung up. */
const open = async (options: ConnectionOptions = {}): Promise<TLSSocket> => {
  const socket = connectTls({
    host: '127.0.0.1',
    port: listener.port,
    cert: client.certificatePem,
    key: client.keyPem,
    ALPNProtocols: ['svc/1'],
    rejectUnauthorized: false,
    ...options,
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('secureConnect', resolve)
    socket.once('error', reject)
    socket.once('close', () => reject(new Error('hung up')))
  })
  return socket
}
const untilClosed = (socket: TLSSocket): Promise<any[]> => {
  const reader = createFrameReader()
  const messages: any[] = []
  socket.on('data', chunk => messages.push(...reader.push(chunk).map(body => JSON.parse(body.toString()))))
  socket.on('error', () => {})
  return new Promise(resolve => socket.once('close', () => resolve(messages)))
}
/** Sends these bytes and gives all that the host says until it hangs up. */
const talk = async (...bytes: Uint8Array[]): Promise<any[]> => {
  const socket = await open()
  const said = untilClosed(socket)
  socket.write(Buffer.concat(bytes))
  return said
}
const talkAs = async ({ certificatePem: cert, keyPem: key }: Identity): Promise<any[]> => {
  const socket = await open({ cert, key })
  const said = untilClosed(socket)
  socket.write(Buffer.concat([hello, start, { type: 'close', code: 'quit' }].map(frame)))
  return said
}
const hello = { type: 'hello', protocol: { min: 1, max: 1 }, name: 'Sofa', intent: 'stream' }
const start = { type: 'start', mode: { width: 640, height: 480, hz: 60 }, video: ['h264'], grants: 127 }
const welcome = {
  type: 'welcome',
  protocol: 1,
  host: { name: 'Den', id: '0123456789ABCDEF', version: '1.2.3' },
  paired: false,
}
const wait = { type: 'wait', for: 'approval', timeout_ms: 180_000 }
const protocolError = { type: 'close', code: 'protocol-error', message: expect.any(String) }

test('only TLS 1.3 with this protocol and a certificate gets as far as a message', async () => {
  await expect(open({ maxVersion: 'TLSv1.2' })).rejects.toThrow()
  await expect(open({ ALPNProtocols: ['h2'] })).rejects.toThrow()
  const without = await open({ cert: undefined, key: undefined } as ConnectionOptions)
  expect(await untilClosed(without)).toEqual([protocolError])
  const silent = await open({ ALPNProtocols: undefined } as ConnectionOptions).catch(() => undefined)
  if (silent) expect(await untilClosed(silent)).toEqual([])
})

test('a TLS session is never resumed', async () => {
  const first = await open()
  const session = new Promise<Buffer>(resolve => first.once('session', resolve))
  const said = untilClosed(first)
  first.write(frame(hello))
  const ticket = await Promise.race([session, said.then(() => undefined)])
  await said
  const again = await open(ticket ? { session: ticket } : {})
  expect(again.isSessionReused()).toBe(false)
  again.destroy()
})

test.each([
  [
    'a version that it does not speak',
    { ...hello, protocol: { min: 2, max: 9 } },
    [{ type: 'refuse', reason: 'version', message: expect.any(String) }],
  ],
  ['a start before hello', start, [protocolError]],
  ['a second hello', [hello, hello], [welcome, protocolError]],
  ['a resize before start', [hello, { type: 'resize', mode: start.mode }], [welcome, protocolError]],
  ['a confirmation without a share', [hello, { type: 'pair-confirm', tag: '' }], [welcome, protocolError]],
  [
    'a device that is not paired, and then leaves,',
    [hello, start, { type: 'close', code: 'quit' }],
    [welcome, wait],
  ],
  [
    'a device that is not paired, and does not want to wait,',
    [hello, { ...start, wait: false }],
    [welcome, { type: 'refuse', reason: 'not-paired', message: expect.any(String) }],
  ],
  [
    'a share without a window',
    [hello, { type: 'pair-share', share: 'x' }],
    [welcome, { type: 'refuse', reason: 'no-window', message: expect.any(String) }],
  ],
  ['silence after hello', hello, [welcome, { type: 'close', code: 'idle', message: expect.any(String) }]],
  [
    'unknown messages, then silence',
    [{ type: 'later' }, hello, { type: 'later' }],
    [welcome, { type: 'close', code: 'idle', message: expect.any(String) }],
  ],
  [
    'a ping, then a close',
    [hello, { type: 'ping', id: 7 }, { type: 'close', code: 'quit' }],
    [welcome, { type: 'pong', id: 7 }],
  ],
])('%s is answered by the protocol', async (_what, messages, answers) => {
  expect(await talk(...[messages].flat().map(frame))).toEqual(answers)
})

test.each([
  ['garbage inside TLS', Buffer.from('GET / HTTP/1.1\r\n\r\n'), [protocolError]],
  ['a frame that is no JSON', Buffer.from([0, 0, 0, 2, 0x7b, 0x7b]), [protocolError]],
  [
    'a frame cut short',
    frame(hello).subarray(0, 20),
    [{ type: 'close', code: 'idle', message: expect.any(String) }],
  ],
])('%s is refused', async (_what, bytes, answers) => {
  expect(await talk(bytes)).toEqual(answers)
})

test('garbage instead of TLS ends that connection only', async () => {
  const socket = connectTcp(listener.port, '127.0.0.1')
  socket.on('error', () => {})
  const closed = new Promise(resolve => socket.once('close', resolve))
  socket.write(Buffer.alloc(4096, 0x55))
  socket.resume()
  await closed
  expect(await talk(frame(hello), frame({ type: 'close', code: 'quit' }))).toEqual([welcome])
})

test('one address holds few connections, and has them again once they are closed', async () => {
  const held = await Promise.allSettled(Array.from({ length: 16 }, () => open()))
  const sockets = held.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []))
  expect(sockets.length).toBe(12)
  await Promise.all(sockets.map(untilClosed))
  await expect
    .poll(() => talk(frame(hello), frame({ type: 'close', code: 'quit' })).catch(() => []))
    .toEqual([welcome])
})

describe('a device that is not paired knocks and waits', () => {
  /** Knocks; what it has heard, and how the connection ends. */
  const knock = async (identity = client) => {
    const socket = await open({ cert: identity.certificatePem, key: identity.keyPem })
    const ended = untilClosed(socket)
    const heard: any[] = []
    const reader = createFrameReader()
    socket.on('data', chunk => heard.push(...reader.push(chunk).map(body => JSON.parse(body.toString()))))
    socket.write(Buffer.concat([frame(hello), frame(start)]))
    await expect.poll(() => heard.at(-1)).toEqual(wait)
    return { socket, heard, ended, say: (message: object) => socket.write(frame(message)) }
  }
  const only = () => {
    const [row, ...more] = queue.list()
    expect(more).toEqual([])
    return row!
  }
  const noChoice = { name: undefined, access: { grants: null, expiresInSecs: null } }
  const gone = { name: undefined, access: { grants: null, expiresInSecs: 0 } }
  const refused = (reason: string) => ({ type: 'refuse', reason, message: expect.any(String) })
  const closed = (code: string) => ({ type: 'close', code, message: expect.any(String) })
  afterEach(async () => {
    for (const { id } of queue.list()) await queue.deny(id)
    await roster.unpair('all')
  })

  test('until the operator lets it in; then it goes on where it was', async () => {
    const { heard, ended, say } = await knock()
    say({ type: 'ping', id: 9 })
    await expect.poll(() => heard.at(-1)).toEqual({ type: 'pong', id: 9 })
    expect(only()).toMatchObject({ name: 'Sofa', fingerprint: client.fingerprint, source: 'lan' })
    expect(await queue.approve(only().id, noChoice)).toMatchObject({ name: 'Sofa', grants: 127 })
    expect(queue.list()).toEqual([])
    // As far as this test's host goes: it has no room for a session.
    expect((await ended).at(-1)).toEqual(refused('busy'))
  })

  test('until the operator says no, or nobody answers', async () => {
    const first = await knock()
    await queue.deny(only().id)
    expect((await first.ended).at(-1)).toEqual(refused('denied'))
    const second = await knock()
    laterMs += 180_001
    queue.sweep()
    expect((await second.ended).at(-1)).toEqual(refused('no-answer'))
    expect(only().age_secs).toBe(180)
  })

  test('and an approval that leaves it without access does not let it in', async () => {
    const { ended } = await knock()
    await queue.approve(only().id, gone)
    expect((await ended).at(-1)).toEqual(refused('expired'))
    expect((await talk(frame(hello), frame({ ...start, wait: false }))).at(-1)).toEqual(refused('expired'))
    const again = await knock()
    expect(only()).toMatchObject({ access_level: 'full', expires_unix: expect.any(Number) })
    await roster.edit(client.fingerprint, { grants: 3 })
    expect(only().grants).toBe(3)
    await roster.edit(client.fingerprint, { expiresInSecs: 60 })
    expect((await again.ended).at(-1)).toEqual(refused('busy'))
  })

  test('on its newest connection only', async () => {
    const first = await knock()
    const second = await knock()
    expect((await first.ended).at(-1)).toEqual(closed('replaced'))
    await queue.approve(only().id, noChoice)
    expect((await second.ended).at(-1)).toEqual(refused('busy'))
  })

  test('and may be approved after it has hung up', async () => {
    const { socket, ended } = await knock()
    socket.destroy()
    await ended
    await queue.approve(only().id, noChoice)
    expect((await talk(frame(hello), frame(start))).at(-1)).toEqual(refused('busy'))
  })

  test('and anything else that it says meanwhile breaks the protocol', async () => {
    for (const message of [start, hello, { type: 'pair-share', share: '' }, { type: 'keyframe' }]) {
      const { ended, say } = await knock()
      say(message)
      expect((await ended).at(-1), message.type).toEqual(protocolError)
    }
  })

  test('where there is room to wait: four places for one address', async () => {
    const strangers = await Promise.all(
      Array.from({ length: 5 }, (_, i) => loadIdentity(join(folder, `stranger-${i}`))),
    )
    const waiting = []
    for (const stranger of strangers.slice(0, 4)) waiting.push(await knock(stranger))
    const { certificatePem: cert, keyPem: key } = strangers[4]!
    const fifth = await open({ cert, key })
    const said = untilClosed(fifth)
    fifth.write(Buffer.concat([frame(hello), frame(start)]))
    expect(await said).toEqual([welcome, refused('busy')])
    waiting[1]!.socket.destroy()
    await expect.poll(() => talkAs(strangers[4]!)).toContainEqual(wait)
    expect(queue.list().map(row => row.fingerprint)).not.toContain(strangers[1]!.fingerprint)
    for (const { say, ended } of waiting.filter((_, i) => i !== 1)) {
      say({ type: 'close', code: 'quit' })
      await ended
    }
  })

  test('as long as the plane is there', async () => {
    const { ended } = await knock()
    stopServing()
    expect((await ended).at(-1)).toEqual(closed('stopping'))
    expect(queue.list()).toEqual([])
    expect((await talk(frame(hello), frame(start))).at(-1)).toEqual(closed('stopping'))
    stopServing = pairing.serve()
  })
})

test('a second implementation pairs by PIN, and the PIN is spent whatever it sends', async () => {
  const address = { host: '127.0.0.1', port: listener.port, name: 'Sofa\u0007', intent: 'pair' } as const
  const access = { grants: null, expiresInSecs: null }
  pairing.arm({ fingerprint: null, ttlSecs: 60, access })
  const pin = pairing.status().pin!
  const wrong = await connect({ ...address, identity: client })
  const other = String((Number(pin) + 1) % 10_000).padStart(4, '0')
  await expect(wrong.pair(other)).rejects.toMatchObject({ code: 'wrong-pin' })
  expect(pairing.status().armed).toBe(false)
  const late = await connect({ ...address, identity: client })
  await expect(late.pair(pin)).rejects.toMatchObject({ code: 'no-window' })

  pairing.arm({ fingerprint: null, ttlSecs: 60, access })
  const soon = await connect({ ...address, identity: client })
  await expect(soon.pair(pairing.status().pin!)).rejects.toMatchObject({ code: 'pace' })
  await new Promise(resolve => setTimeout(resolve, 2000))
  const right = await connect({ ...address, identity: client })
  await right.pair(pairing.status().pin!)
  expect(roster.list()).toMatchObject([{ name: 'Sofa', fingerprint: client.fingerprint }])
  await expect(right.start({ mode: { width: 63, height: 480, hz: 60 } })).rejects.toMatchObject({
    code: 'mode',
  })

  const again = await connect({ ...address, intent: 'stream', identity: client })
  expect(again.isPaired).toBe(true)
  await expect(again.start({ mode: start.mode, video: ['av1'] })).rejects.toMatchObject({ code: 'no-codec' })
  const third = await connect({ ...address, intent: 'stream', identity: client })
  await expect(third.start({ mode: start.mode })).rejects.toMatchObject({ code: 'busy' })
})
