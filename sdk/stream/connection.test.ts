// The control connection at its edges, against a TLS peer that misbehaves on purpose. That a whole host streams is
// proven where there is one: test/e2e.

import { X509Certificate } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer as createTcp, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type TLSSocket } from 'node:tls'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { selfSigned } from './certificate.ts'
import { addressOf, type ConnectOptions, connect } from './connection.ts'
import { openControl } from './control.ts'
import { initiate, pairingChannel } from './cpace.ts'
import { createMessageReader, encodeMessage, messageBytes } from './framing.ts'
import { readHostMessage } from './host-message.ts'
import { fingerprintOf, type Identity, loadIdentity } from './identity.ts'

let dir: string
let identity: Identity
let servers: Server[] = []
const sockets: Socket[] = []
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'svc-connection-'))
  identity = await loadIdentity(dir)
})
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))))
  servers = []
  rmSync(dir, { recursive: true, force: true })
})

const listen = (server: Server): Promise<number> => {
  servers.push(server)
  return new Promise(resolve => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port))
  })
}
type Peer = (socket: TLSSocket) => void
const peerKey = selfSigned('peer')
const peerFingerprint = fingerprintOf(new X509Certificate(peerKey.certificatePem).raw)
const tlsPeer = (onConnection: Peer, alpn = ['svc/1'], made = peerKey) => {
  const server = createServer(
    {
      key: made.keyPem,
      cert: made.certificatePem,
      ALPNProtocols: alpn,
      requestCert: true,
      rejectUnauthorized: false,
    },
    socket => {
      sockets.push(socket)
      socket.on('error', () => {})
      onConnection(socket)
    },
  )
  server.on('tlsClientError', () => {})
  return listen(server)
}
const welcome = {
  type: 'welcome',
  protocol: 1,
  host: { name: 'Den', id: '0123456789ABCDEF', version: '0.1.0' },
  paired: false,
}
const to = (port: number, more: Partial<ConnectOptions> = {}) =>
  connect({ host: '127.0.0.1', port, identity, name: 'test', intent: 'pair', timeoutMs: 2000, ...more })
/** Reads what the client sends, one message at a time, and answers by a script. */
const script = (
  answers: readonly ((message: Record<string, unknown>, socket: TLSSocket) => void)[],
): Peer => {
  const left = [...answers]
  return socket => {
    const reader = createMessageReader()
    socket.on('data', chunk => {
      for (const message of reader.push(chunk)) left.shift()?.(message, socket)
    })
  }
}
const say = (message: object) => (_: unknown, socket: TLSSocket) =>
  void socket.write(encodeMessage(message as never))

describe('what answers', () => {
  it('nothing: unreachable', async () => {
    const server = createTcp()
    const port = await listen(server)
    await new Promise(resolve => server.close(resolve))
    servers = []
    await expect(to(port)).rejects.toMatchObject({ code: 'unreachable' })
  })
  it('no TLS, another protocol, or silence: typed', async () => {
    const plain = await listen(
      createTcp(socket => void sockets.push(socket.on('error', () => {}).end('HTTP/1.1 400\r\n\r\n'))),
    )
    await expect(to(plain)).rejects.toMatchObject({ code: 'not-a-host' })
    const http = await tlsPeer(() => {}, ['http/1.1'])
    await expect(to(http)).rejects.toMatchObject({ code: 'not-a-host' })
    const noAlpn = await tlsPeer(() => {}, [])
    await expect(to(noAlpn)).rejects.toMatchObject({ code: 'not-a-host' })
    const mute = await listen(createTcp(socket => void sockets.push(socket.on('error', () => {}))))
    await expect(to(mute, { timeoutMs: 200 })).rejects.toMatchObject({ code: 'unreachable' })
    const muteTls = await tlsPeer(() => {})
    await expect(to(muteTls, { timeoutMs: 300 })).rejects.toMatchObject({ code: 'timeout' })
  })
  it('aborted before, and while waiting', async () => {
    const port = await tlsPeer(() => {})
    await expect(to(port, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'aborted' })
    await expect(to(port, { signal: AbortSignal.timeout(150) })).rejects.toMatchObject({ code: 'aborted' })
  })
})

describe('trust', () => {
  it('sends nothing to a known address with another certificate, or to a stranger that was never paired', async () => {
    const seen: Buffer[] = []
    const port = await tlsPeer(socket => void socket.on('data', chunk => seen.push(chunk)))
    await expect(to(port, { intent: 'stream' })).rejects.toMatchObject({ code: 'not-paired' })
    const address = addressOf('127.0.0.1', port)
    await identity.hosts.pin({ address, fingerprint: 'a'.repeat(64), name: 'Den', id: 'x', pairedUnix: 1 })
    for (const intent of ['stream', 'pair'] as const) {
      await expect(to(port, { intent })).rejects.toMatchObject({ code: 'fingerprint-changed' })
    }
    expect(Buffer.concat(seen)).toHaveLength(0)
  })
  it('accepts a pinned certificate at a new address, and a fingerprint that the user gives', async () => {
    const port = await tlsPeer(script([say({ ...welcome, paired: true })]))
    await identity.hosts.pin({
      address: 'old:1',
      fingerprint: peerFingerprint,
      name: 'Den',
      id: 'x',
      pairedUnix: 1,
    })
    const known = await to(port, { intent: 'stream' })
    expect(known).toMatchObject({ isPaired: true, fingerprint: peerFingerprint, host: { name: 'Den' } })
    known.close()
    await identity.hosts.forget(peerFingerprint)
    const other = await tlsPeer(script([say(welcome)]))
    const given = await to(other, { intent: 'stream', expectFingerprint: peerFingerprint.toUpperCase() })
    expect(identity.hosts.byAddress(addressOf('127.0.0.1', other))?.fingerprint).toBe(peerFingerprint)
    given.close()
  })
})

describe('knocking', () => {
  const mode = { width: 640, height: 480, hz: 60 }
  const wait = { type: 'wait', for: 'approval', timeout_ms: 1000 }
  const started = {
    ...{
      type: 'started',
      session: '0011223344556677',
      epoch: 1,
      generation: 1,
      mode,
      video: { codec: 'h264' },
    },
    ...{ grants: 0, port: 9, bitrate_kbps: 1000, max_datagram_bytes: 1200, idle_timeout_ms: 1000 },
  }
  const knocking = async (port: number) => {
    const waits: [string, number | undefined][] = []
    const connection = await to(port, { intent: 'stream', knock: true })
    const begun = connection.start({ mode, onWait: (...wait) => void waits.push(wait) })
    return { waits, begun }
  }
  it('waits for as long as the host says, and pins a host that was never met once it has let the device in', async () => {
    let letIn = () => {}
    const port = await tlsPeer(
      script([
        say(welcome),
        (message, socket) => {
          say(wait)(message, socket)
          letIn = () => say(started)(message, socket)
        },
      ]),
    )
    const { waits, begun } = await knocking(port)
    await vi.waitUntil(() => waits.length > 0)
    expect(waits).toEqual([['approval', 1000]])
    expect(identity.hosts.list()).toEqual([])
    letIn()
    const session = await begun
    expect(session.started).toMatchObject({ session: started.session, grants: 0 })
    expect(identity.hosts.list()).toMatchObject([{ fingerprint: peerFingerprint, name: 'Den' }])
    await session.close()
  })
  it.each(['denied', 'no-answer', 'outside-lan', 'busy', 'expired'])(
    'ends with "%s", and pins nothing',
    async reason => {
      const refuse = (message: Record<string, unknown>, socket: TLSSocket) => {
        if (reason !== 'outside-lan') say(wait)(message, socket)
        say({ type: 'refuse', reason })(message, socket)
      }
      const { begun } = await knocking(await tlsPeer(script([say(welcome), refuse])))
      await expect(begun).rejects.toMatchObject({
        code: reason,
        message: expect.stringContaining(`(${reason}): `),
      })
      expect(identity.hosts.list()).toEqual([])
    },
  )
  it('is not what a client does unasked', async () => {
    const heard: unknown[] = []
    const expired = (message: Record<string, unknown>, socket: TLSSocket) => {
      heard.push(message['wait'])
      say({ type: 'refuse', reason: 'expired' })(message, socket)
    }
    const port = await tlsPeer(script([say(welcome), expired]))
    const stranger = await to(port, { intent: 'stream', expectFingerprint: peerFingerprint })
    await expect(stranger.start({ mode })).rejects.toMatchObject({ code: 'expired' })
    expect(heard).toEqual([false])
    const stubborn = await tlsPeer(script([say(welcome), say(wait)]))
    const other = await to(stubborn, { intent: 'stream' })
    await expect(other.start({ mode })).rejects.toMatchObject({ code: 'not-paired' })
  })
  it('is given up with the caller’s signal', async () => {
    const port = await tlsPeer(script([say(welcome), say(wait)]))
    const connection = await to(port, { intent: 'stream', knock: true })
    const stop = new AbortController()
    const begun = connection.start({ mode, signal: stop.signal, onWait: () => stop.abort() })
    await expect(begun).rejects.toMatchObject({ code: 'aborted' })
  })
})

describe('messages', () => {
  const head = (length: number) => {
    const bytes = Buffer.alloc(4)
    bytes.writeUInt32BE(length)
    return bytes
  }
  it.each([
    ['a length out of range', Buffer.concat([head(70_000), Buffer.alloc(100)])],
    ['a length of 1', head(1)],
    ['no JSON', Buffer.concat([head(5), Buffer.from('{"typ')])],
    ['no UTF-8', Buffer.concat([head(14), Buffer.from('{"type":"\xff\xfe"}  ', 'latin1')])],
    ['an array', Buffer.concat([head(2), Buffer.from('[]')])],
    ['no type', Buffer.concat([head(2), Buffer.from('{}')])],
    ['a field of the wrong type', encodeMessage({ ...welcome, paired: 'yes' } as never)],
  ])('broken by %s close the connection as a protocol error', async (_name, bytes) => {
    const closed = Promise.withResolvers<Record<string, unknown>>()
    const port = await tlsPeer(
      script([(_hello, socket) => void socket.write(bytes), message => closed.resolve(message)]),
    )
    await expect(to(port)).rejects.toMatchObject({ code: 'protocol-error' })
    expect(await closed.promise).toMatchObject({ type: 'close', code: 'protocol-error' })
  })
  it('cut off in the middle are a lost link; a refusal, a close and an unexpected message are typed', async () => {
    const whole = encodeMessage(welcome)
    const cut = await tlsPeer(script([(_hello, socket) => void socket.end(whole.subarray(0, 20))]))
    await expect(to(cut)).rejects.toMatchObject({ code: 'lost' })
    const refuse = await tlsPeer(
      script([say({ type: 'refuse', reason: 'pace', message: 'slowly', retry_after_ms: 900 })]),
    )
    await expect(to(refuse)).rejects.toMatchObject({ code: 'pace', retryAfterMs: 900 })
    const strange = await tlsPeer(script([say({ type: 'refuse', reason: 'moon-phase' })]))
    await expect(to(strange)).rejects.toMatchObject({ code: 'host-error' })
    const close = await tlsPeer(script([say({ type: 'close', code: 'stopping', message: 'bye' })]))
    await expect(to(close)).rejects.toMatchObject({ code: 'stopping' })
    const wrong = await tlsPeer(script([say({ type: 'wait', for: 'approval' })]))
    await expect(to(wrong)).rejects.toMatchObject({ code: 'protocol-error' })
  })
  it('arrive however they are cut, and unknown types and fields are ignored', async () => {
    const bytes = Buffer.concat([
      encodeMessage({ type: 'weather' }),
      encodeMessage({ ...welcome, mood: 'good' } as never),
    ])
    const port = await tlsPeer(
      script([
        async (_hello, socket) => {
          for (const byte of bytes) {
            socket.write(Buffer.from([byte]))
            await new Promise(resolve => setImmediate(resolve))
          }
        },
      ]),
    )
    const connection = await to(port)
    expect(connection.host.name).toBe('Den')
    connection.close()
  })
  it('of any bytes never make the reader throw anything but a protocol error, nor hold more than one message', () => {
    const chunk = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.json({ maxDepth: 2 }).map(text => {
        const body = Buffer.from(text)
        return Buffer.concat([head(body.length), body])
      }),
      fc.integer({ min: 0, max: 0xffffffff }).map(head),
    )
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 30 }), chunks => {
        const reader = createMessageReader()
        for (const bytes of chunks) {
          try {
            for (const message of reader.push(bytes)) readHostMessage(message)
          } catch (error) {
            expect(error).toMatchObject({ code: 'protocol-error' })
            return
          }
          expect(reader.pendingBytes).toBeLessThanOrEqual(messageBytes.most + 4 + 40)
        }
      }),
      { numRuns: 300, seed: 9 },
    )
  })
  it('of every known type with any fields are read or refused as a protocol error', () => {
    const types = [
      'welcome',
      'pair-share',
      'pair-confirm',
      'wait',
      'started',
      'refuse',
      'resized',
      'bitrate',
      'cursor',
      'rumble',
      'close',
      'ping',
      'grants',
      '__proto__',
      'constructor',
    ]
    const value = fc.oneof(
      fc.integer(),
      fc.string(),
      fc.boolean(),
      fc.constant(null),
      fc.object({ maxDepth: 1 }),
    )
    const fields = fc.dictionary(
      fc.constantFrom(
        'protocol',
        'host',
        'paired',
        'share',
        'tag',
        'mode',
        'video',
        'session',
        'id',
        'rgba',
        'width',
        'height',
        'code',
        'kbps',
        'for',
        'timeout_ms',
      ),
      value,
    )
    fc.assert(
      fc.property(fc.constantFrom(...types), fields, (type, rest) => {
        try {
          readHostMessage({ ...rest, type })
        } catch (error) {
          expect(error).toMatchObject({ code: 'protocol-error' })
        }
      }),
      { numRuns: 500, seed: 13 },
    )
  })
})

describe('pairing', () => {
  /** The host's half, from the same primitives with the roles turned; its tag is wrong on demand. */
  const host =
    (pin: string, tampering: (tag: Buffer) => Buffer): Peer =>
    socket => {
      const certificate = socket.getPeerCertificate().raw
      const exchange = initiate({
        prs: Buffer.from(pin),
        ci: pairingChannel(
          Buffer.from(fingerprintOf(certificate), 'hex'),
          Buffer.from(peerFingerprint, 'hex'),
        ),
        sid: socket.exportKeyingMaterial(32, 'EXPORTER-svc/1-pair', Buffer.alloc(0)),
      })
      script([
        say(welcome),
        say({ type: 'pair-share', share: Buffer.from(exchange.share).toString('base64') }),
        (message, s) => {
          const echoed = Buffer.from(String(message['tag']), 'base64')
          say({ type: 'pair-confirm', tag: tampering(echoed).toString('base64') })(message, s)
        },
      ])(socket)
    }
  it('does not pin a host that sends back the client’s own tag, or any other that it cannot know', async () => {
    for (const tampering of [(tag: Buffer) => tag, () => Buffer.alloc(32), () => Buffer.alloc(0)]) {
      const connection = await to(await tlsPeer(host('1234', tampering)))
      await expect(connection.pair('1234')).rejects.toMatchObject({ code: 'host-unproven' })
    }
    expect(identity.hosts.list()).toEqual([])
  })
  it('refuses a share that is no group element, a PIN that is none, and passes refusals on', async () => {
    const bad = await to(
      await tlsPeer(
        script([say(welcome), say({ type: 'pair-share', share: Buffer.alloc(32).toString('base64') })]),
      ),
    )
    await expect(bad.pair('1234')).rejects.toMatchObject({ code: 'bad-share' })
    const five = await to(await tlsPeer(script([say(welcome)])))
    await expect(five.pair('12345')).rejects.toMatchObject({ code: 'bad-argument' })
    const closed = await to(
      await tlsPeer(script([say(welcome), say({ type: 'refuse', reason: 'no-window', message: '' })])),
    )
    await expect(closed.pair('1234')).rejects.toMatchObject({
      code: 'no-window',
      message: expect.stringContaining('window'),
    })
  })
})

describe('the TLS exporter', () => {
  it('gives both sides the same bytes, others for another context', async () => {
    const theirs = Promise.withResolvers<TLSSocket>()
    const port = await tlsPeer(socket => theirs.resolve(socket))
    const control = await openControl({ host: '127.0.0.1', port, identity, timeoutMs: 2000 })
    const peer = await theirs.promise
    const context = Buffer.from('8f1c00a1b2c3d4e5000000010101', 'hex')
    const ours = control.exporter(28, 'EXPORTER-svc/1-media', context)
    expect(ours.equals(peer.exportKeyingMaterial(28, 'EXPORTER-svc/1-media', context))).toBe(true)
    expect(ours.equals(control.exporter(28, 'EXPORTER-svc/1-media', Buffer.alloc(14)))).toBe(false)
    control.end()
  })
})
