// The client's side of every layout and derivation against the native plane's vectors, which other code has made.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { audioParity, createAudioAssembler, parseAudioPayload } from './audio-assembler.ts'
import { generator, generatorString, initiate, pairingChannel, scalarMultVerified } from './cpace.ts'
import { createOpener, createSealer } from './datagram.ts'
import { createFrameAssembler } from './frame-assembler.ts'
import { encodeInput, type InputEvent, inputPayload } from './input-event.ts'
import { keyContext, mediaKey, mediaLabel, type StreamNumber } from './media-keys.ts'
import { encodePath, type PathMessage, parsePath } from './path-message.ts'
import { coefficient, parityOf, recover } from './reed-solomon.ts'
import { createReplayWindow } from './replay-window.ts'
import { parseVideoPayload, videoFlags } from './video-payload.ts'

const vectors = (name: string): any =>
  JSON.parse(
    readFileSync(new URL(`../../extensions/native-plane/vectors/${name}.json`, import.meta.url), 'utf8'),
  )
const bytes = (hex: string) => Buffer.from(hex, 'hex')
const hex = (value: Uint8Array) => Buffer.from(value).toString('hex')

describe('keys', () => {
  const { cases, label, length } = vectors('keys')
  it('derives the context, and splits what the exporter gives into key and IV', () => {
    expect(label).toBe(mediaLabel)
    for (const c of cases) {
      const context = keyContext(bytes(c.session), c.epoch, c.direction, c.stream)
      expect(hex(context)).toBe(c.context)
      const made = mediaKey(
        (n, l, x) =>
          n === length && l === label && hex(x) === c.context ? bytes(c.output) : Buffer.alloc(0),
        context,
      )
      expect([hex(made.key), hex(made.iv)]).toEqual([c.key, c.iv])
    }
  })
})

describe('datagrams', () => {
  const { seal, drop, replay } = vectors('datagram')
  const of = (c: { key: string; iv: string; session: string; epoch: number; stream: StreamNumber }) => ({
    session: bytes(c.session),
    epoch: c.epoch,
    stream: c.stream,
    key: { key: bytes(c.key), iv: bytes(c.iv) },
  })
  it('seals and opens', () => {
    for (const v of seal) {
      if (v.reserved === 0) {
        expect(hex(createSealer(of(v), BigInt(v.counter))(bytes(v.plaintext)))).toBe(v.datagram)
      }
      const opened = createOpener(of(v)).open(bytes(v.datagram))
      expect(opened).toMatchObject({ counter: BigInt(v.counter), isNewest: true })
      expect(typeof opened === 'string' ? opened : hex(opened.payload), v.name).toBe(v.plaintext)
    }
  })
  it('drops what is cut, changed, foreign or sealed otherwise, and opens the good one after all of them', () => {
    const opener = createOpener(of(drop))
    for (const { name, datagram } of drop.datagrams) {
      expect(['foreign', 'forged'], name).toContain(opener.open(bytes(datagram)))
    }
    expect(opener.open(bytes(drop.accepts.datagram))).toMatchObject({ counter: 42n })
    expect(opener.open(bytes(drop.accepts.datagram))).toBe('repeated')
  })
  it('keeps a replay window', () => {
    const window = createReplayWindow()
    for (const { counter, accept } of replay.arrivals) {
      expect(window.check(BigInt(counter)) === 'new', counter).toBe(accept)
      if (accept) window.accept(BigInt(counter))
    }
  })
})

describe('video blocks', () => {
  const { blocks, coefficients, headers, drop } = vectors('video-block')
  it('has the coefficients of the Cauchy matrix', () => {
    for (const { k, rows } of coefficients) {
      rows.forEach((row: number[], i: number) => {
        expect(row.map((_, j) => coefficient(k, i, j))).toEqual(row)
      })
    }
  })
  it('computes parity, and rebuilds data from parity alone', () => {
    for (const b of blocks) {
      const data: Buffer[] = b.data_shards.map(bytes)
      expect(parityOf(data, b.m).map(hex), b.name).toEqual(b.parity_shards)
      const lost = Math.min(b.k, b.m)
      const shards = [...data.map((s, i) => (i < lost ? undefined : s)), ...b.parity_shards.map(bytes)]
      expect(recover(shards, b.k)).toBe(lost)
      expect(hex(Buffer.concat(shards.slice(0, b.k) as Buffer[]).subarray(0, b.block_bytes))).toBe(b.data)
    }
  })
  it('reads headers', () => {
    for (const h of headers) {
      const read = parseVideoPayload(bytes(h.payload))
      expect(read, h.name).toMatchObject({
        frame: h.frame,
        block: h.block,
        idx: h.idx,
        k: h.k,
        m: h.m,
        generation: h.generation,
        blockBytes: h.block_bytes,
        captureUs: Number(h.capture_us),
      })
      expect(hex(read!.shard)).toBe(h.shard)
      const flags = [videoFlags.keyframe, videoFlags.lastBlock, videoFlags.repeat, videoFlags.recovers]
      expect(flags.map(flag => (read!.flags & flag) !== 0)).toEqual([
        h.keyframe,
        h.last_block,
        h.repeat,
        h.refresh,
      ])
    }
  })
  it('drops payloads that break a rule', () => {
    const assembler = createFrameAssembler()
    for (const { name, payload } of drop) {
      expect(parseVideoPayload(bytes(payload)), name).toBeUndefined()
      expect(assembler.push(bytes(payload), 0)).toEqual([])
    }
    expect(assembler.counts.malformed).toBe(drop.length)
    expect(assembler.heldBytes).toBe(0)
  })
})

describe('audio groups', () => {
  const { groups, drop } = vectors('audio-group')
  it('computes parity, and gives packets out with or without the first ones', () => {
    for (const g of groups) {
      expect(audioParity(g.packets.map(bytes), g.m).map(hex), g.name).toEqual(g.parity_shards)
      for (let lost = 0; lost <= Math.min(g.k, g.m); lost++) {
        const assembler = createAudioAssembler(g.frame_ms)
        const out = g.payloads.slice(lost).flatMap((p: string) => assembler.push(bytes(p), 0))
        expect(
          out.map((p: { data: Buffer }) => hex(p.data)),
          `${g.name}, ${lost} lost`,
        ).toEqual(g.packets)
        expect(out.map((p: { packet: number }) => p.packet)).toEqual(
          g.packets.map((_: string, i: number) => g.packet + i),
        )
        const times = g.packets.map((_: string, i: number) => Number(g.capture_us) + i * g.frame_ms * 1000)
        expect(out.map((p: { captureUs: number }) => p.captureUs)).toEqual(times)
      }
    }
  })
  it('drops payloads that break a rule', () => {
    for (const { name, payload } of drop) expect(parseAudioPayload(bytes(payload)), name).toBeUndefined()
  })
})

describe('input', () => {
  const { events, payloads } = vectors('input')
  it('encodes events and payloads', () => {
    for (const { name, event, encoded } of events) expect(hex(encodeInput(event)), name).toBe(encoded)
    for (const p of payloads) {
      expect(
        hex(
          inputPayload(
            p.first,
            p.events.map((e: InputEvent) => encodeInput(e)),
          ),
        ),
        p.name,
      ).toBe(p.payload)
    }
  })
})

describe('path', () => {
  const { messages, payloads, lenient } = vectors('path')
  const names: Record<string, string> = {
    client_us: 'clientUs',
    host_receive_us: 'hostReceiveUs',
    host_send_us: 'hostSendUs',
    newest_frame: 'newestFrame',
    first_lost: 'firstLost',
    frames_lost: 'framesLost',
    audio_lost: 'audioLost',
    delay_variation_us: 'delayVariationUs',
    audio_received: 'audioReceived',
    audio_datagrams_lost: 'audioDatagramsLost',
    path_kbps: 'pathKbps',
  }
  const message = (m: Record<string, unknown>): PathMessage =>
    Object.fromEntries(
      Object.entries(m).map(([key, value]) => [
        names[key] ?? key,
        key !== 'type' && typeof value === 'string' ? BigInt(value) : value,
      ]),
    ) as never
  it('encodes and reads messages', () => {
    for (const { name, message: m, encoded } of messages) {
      expect(hex(encodePath(message(m))), name).toBe(encoded)
      expect(parsePath(bytes(encoded)), name).toEqual([message(m)])
    }
    for (const { messages: list, payload } of payloads) {
      expect(hex(encodePath(...list.map(message)))).toBe(payload)
      expect(parsePath(bytes(payload))).toEqual(list.map(message))
    }
  })
  it('reads what it knows of a payload', () => {
    for (const l of lenient) expect(parsePath(bytes(l.payload)), l.name).toEqual(l.messages.map(message))
  })
})

describe('CPace', () => {
  const { draft, pairing, scalar_mult: mult, refused_shares: refused } = vectors('cpace')
  const input = (c: { PRS: string; CI: string; sid: string }) => ({
    prs: bytes(c.PRS),
    ci: bytes(c.CI),
    sid: bytes(c.sid),
  })
  it('agrees with the draft, as initiator', () => {
    expect(hex(generatorString(input(draft)))).toBe(draft.generator_string)
    expect(hex(generator(input(draft)))).toBe(draft.g)
    const exchange = initiate(input(draft), bytes(draft.ya), {
      own: bytes(draft.ADa),
      peer: bytes(draft.ADb),
    })
    expect(hex(exchange.share)).toBe(draft.Ya)
    expect(hex(exchange.finish(bytes(draft.Yb))!.isk)).toBe(draft.ISK)
    expect(hex(scalarMultVerified(bytes(mult.s), bytes(mult.X))!)).toBe(mult.result)
  })
  it('pairs: channel, tags, and the other side proven by its tag only', () => {
    for (const p of pairing) {
      expect(hex(pairingChannel(bytes(p.client_fingerprint), bytes(p.host_fingerprint)))).toBe(p.CI)
      expect(hex(Buffer.from(p.pin, 'ascii'))).toBe(p.PRS)
      const outcome = initiate(input(p), bytes(p.ya)).finish(bytes(p.Yb))!
      expect(hex(outcome.isk)).toBe(p.ISK)
      expect(hex(outcome.tag)).toBe(p.Ta)
      expect(outcome.verify(bytes(p.Tb))).toBe(true)
      expect(outcome.verify(bytes(p.Ta))).toBe(false)
      expect(outcome.verify(bytes(p.Tb).subarray(1))).toBe(false)
      const wrongPin = initiate({ ...input(p), prs: Buffer.from('4321') }, bytes(p.ya)).finish(bytes(p.Yb))!
      expect(wrongPin.verify(bytes(p.Tb))).toBe(false)
    }
  })
  it('refuses shares that are no group elements', () => {
    const exchange = initiate(input(draft))
    for (const { name, share } of refused) expect(exchange.finish(bytes(share)), name).toBeUndefined()
  })
})
