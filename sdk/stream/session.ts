// One streaming session: frames and sound out, input in, until either side ends it. PROTOCOL.md, sections 2.4 to 8.
import { type AudioPacket, createAudioAssembler } from './audio-assembler.ts'
import { createBoundedQueue } from './bounded-queue.ts'
import { nowUs } from './clock.ts'
import type { Control } from './control.ts'
import { datagramOverhead } from './datagram.ts'
import { createDelayVariation } from './delay-variation.ts'
import { aborted, StreamError } from './error.ts'
import { createFrameAssembler, lossDelayUs, type VideoFrame } from './frame-assembler.ts'
import type { HostMessage, Mode, Started } from './host-message.ts'
import { type InputEvent, textEvents } from './input-event.ts'
import { createInputSender, resendMs } from './input-sender.ts'
import { openMediaLink } from './media-link.ts'
import { requestKinds } from './path-message.ts'
import { createPathRate } from './path-rate.ts'
import type { SessionEnd, SessionListener, StreamSession } from './session-face.ts'
import { sessionStats } from './session-stats.ts'
import { parseVideoPayload } from './video-payload.ts'

/** Feedback period while video arrives, milliseconds (section 7). */
const feedbackMs = 100
/**
 * A refresh that was asked for and has not come is asked for again after this, microseconds: requests get lost too, and
 * they are small.
 */
const refreshAgainUs = 5_000
/** The same when so many have gone unheard: the path is down, and what is sent then is of no use. */
const manyRequests = 20
const refreshLaterUs = 20_000
/** A keyframe, after a round trip and this: each costs the picture more, microseconds. */
const keyframeSlackUs = 60_000
/** Round trip to reckon with before the first was measured, microseconds. */
const unknownRttUs = 100_000
/** How long a datagram may be late beyond the latest of late, microseconds. */
const patienceUs = 4_000

/** Begins to stream over an admitted connection; the caller has received `started`. */
export const openSession = async (
  control: Control,
  started: Started,
  listener: SessionListener,
  signal?: AbortSignal,
): Promise<StreamSession> => {
  const openedUs = nowUs()
  const frames = createBoundedQueue<VideoFrame>(240, 64 * 1024 * 1024, frame => frame.data.length)
  const packets = createBoundedQueue<AudioPacket>(400, 8 * 1024 * 1024, packet => packet.data.length)
  const assembler = createFrameAssembler()
  const audio = createAudioAssembler(started.audio?.frameMs ?? 5)
  const input = createInputSender()
  const delay = createDelayVariation()
  const progress = {
    firstFrameUs: undefined as number | undefined,
    lastFrameUs: 0,
    maxGapUs: 0,
    overflowed: 0,
    requests: 0,
  }
  const inputWaiters = new Set<() => void>()
  const resizeWaiters: { resolve: (mode: Mode) => void; reject: (error: StreamError) => void }[] = []
  let end: SessionEnd | undefined
  let resolveEnded: (end: SessionEnd) => void
  const ended = new Promise<SessionEnd>(resolve => {
    resolveEnded = resolve
  })
  let lossTimer: NodeJS.Timeout | undefined
  let requested = { atUs: 0, from: -1, times: 0 }
  let fedBack = 0
  const pathRate = createPathRate()

  const newestFrame = () => Math.max(0, assembler.counts.newestWhole)
  const requestKeyframe = () =>
    link.sendPath({ type: 'request', kind: requestKinds.keyframe, newestFrame: newestFrame() })

  /** Asks for what the decoder lacks, at once when that is new; gives when to ask again. */
  const ask = (now: number): number | undefined => {
    const lacking = assembler.lacking(now)
    if (!lacking) return undefined
    const { firstLost } = lacking
    const rttUs = link.clock.rttUs ?? unknownRttUs
    const isSame = requested.from === (firstLost ?? -1)
    const times = isSame ? requested.times : 0
    const refreshUs = times < manyRequests ? refreshAgainUs : refreshLaterUs
    const againUs = firstLost === undefined ? rttUs + keyframeSlackUs : refreshUs
    if (isSame && now - requested.atUs < againUs) return requested.atUs + againUs
    if (!isSame) progress.requests++
    requested = { atUs: now, from: firstLost ?? -1, times: times + 1 }
    if (firstLost === undefined) requestKeyframe()
    else link.sendPath({ type: 'request', kind: requestKinds.refresh, newestFrame: newestFrame(), firstLost })
    return now + againUs
  }

  const give = (due: readonly VideoFrame[]) => {
    for (const frame of due) {
      progress.firstFrameUs ??= frame.arrivalUs
      if (progress.lastFrameUs)
        progress.maxGapUs = Math.max(progress.maxGapUs, frame.arrivalUs - progress.lastFrameUs)
      progress.lastFrameUs = frame.arrivalUs
      delay.sample(frame.captureUs, frame.arrivalUs)
      if (frames.push(frame)) continue
      progress.overflowed += frames.clear() + 1
      assembler.skipToKeyframe()
    }
  }

  /** Applies the loss rule, now and when it is next due. */
  const settle = () => {
    clearTimeout(lossTimer)
    const now = nowUs()
    assembler.patienceUs = 1.25 * link.reordering.lateUs(now) + patienceUs
    give(assembler.tick(now))
    const askUs = ask(now) ?? Number.POSITIVE_INFINITY
    const dueUs = Math.min(askUs, assembler.deadlineUs ?? Number.POSITIVE_INFINITY)
    if (dueUs < Number.POSITIVE_INFINITY && !end)
      lossTimer = setTimeout(settle, Math.max(1, Math.ceil((dueUs - now) / 1000)))
  }

  const flushInput = () => {
    const payload = input.payload(link.maxPayloadBytes)
    if (payload) link.sendInput(payload)
  }

  const link = await openMediaLink({
    remoteAddress: control.remoteAddress,
    port: started.port,
    session: started.session,
    epoch: started.epoch,
    exporter: control.exporter,
    maxDatagramBytes: started.maxDatagramBytes,
    onVideo: (payload, arrivalUs) => {
      const shard = parseVideoPayload(payload)
      if (shard) pathRate.sample(shard, payload.length + datagramOverhead, arrivalUs)
      give(assembler.push(payload, arrivalUs))
      if (assembler.deadlineUs !== undefined || assembler.needsKeyframe) settle()
    },
    onAudio: (payload, arrivalUs) => {
      for (const packet of audio.push(payload, arrivalUs)) {
        if (!packets.push(packet)) {
          packets.clear()
          packets.push(packet)
        }
      }
    },
    onPath: message => {
      if (message.type === 'input-ack') {
        const before = input.waiting
        input.acknowledge(message.next)
        if (input.waiting < before) flushInput()
        if (input.waiting === 0) for (const done of inputWaiters) done()
      } else if (message.type === 'sent') {
        give(assembler.announce(message.frame, nowUs()))
        settle()
      } else if (message.type === 'bye') {
        // Its close message is on the way and names the reason; it must not wait for ever.
        setTimeout(() => finish({ code: 'ended', message: 'the host said goodbye' }), 500).unref()
      }
    },
  })

  const finish = (why: SessionEnd, isBye = false): Promise<void> => {
    if (end) return Promise.resolve()
    end = why
    clearTimeout(lossTimer)
    clearInterval(inputTimer)
    clearInterval(feedbackTimer)
    signal?.removeEventListener('abort', onAbort)
    frames.end()
    packets.end()
    for (const done of inputWaiters) done()
    for (const waiter of resizeWaiters.splice(0)) waiter.reject(new StreamError(why.code, why.message))
    control.end()
    const closed = link.close(isBye)
    resolveEnded(why)
    return closed
  }

  const inputTimer = setInterval(flushInput, resendMs)
  const feedbackTimer = setInterval(() => {
    const now = nowUs()
    if (now - link.lastArrivalUs > started.idleTimeoutMs * 1000) {
      const message = `nothing has come from the host for ${started.idleTimeoutMs} ms`
      void finish({ code: 'lost', message })
      return
    }
    settle()
    if (link.counts.video + link.counts.audio === fedBack) return
    fedBack = link.counts.video + link.counts.audio
    link.sendPath({
      type: 'feedback',
      newestFrame: newestFrame(),
      received: link.counts.video,
      lost: link.reordering.lost(now, lossDelayUs),
      recovered: assembler.counts.recovered,
      framesLost: assembler.counts.lostFrames,
      audioLost: audio.counts.lost,
      delayVariationUs: delay.take(now),
      audioReceived: link.counts.audio,
      audioDatagramsLost: link.audioReordering.lost(now, lossDelayUs),
      pathKbps: pathRate.kbps,
    })
  }, feedbackMs)
  const onAbort = () => void quit()
  const quit = (): Promise<void> => {
    if (end) return Promise.resolve()
    control.send({ type: 'close', code: 'quit', message: 'the client has ended the session' })
    const why = signal?.aborted ? aborted(signal).message : 'the client has ended the session'
    return finish({ code: 'quit', message: why }, true)
  }
  if (signal?.aborted) void quit()
  else signal?.addEventListener('abort', onAbort)

  const onMessage = (message: HostMessage) => {
    if (message.type === 'ping') control.send({ type: 'pong', id: message.id })
    else if (message.type === 'cursor') listener.onCursor?.(message.cursor)
    else if (message.type === 'rumble') listener.onRumble?.(message)
    else if (message.type === 'grants') listener.onGrants?.(message.grants)
    else if (message.type === 'bitrate') listener.onBitrate?.(message.kbps)
    else if (message.type === 'resize-refused') {
      const why = `the host keeps the mode: ${message.message || 'it gave no reason'}`
      resizeWaiters.shift()?.reject(new StreamError('mode', why))
    } else if (message.type === 'resized') {
      resizeWaiters.shift()?.resolve(message.mode)
      listener.onResized?.(message.mode, message.generation)
    }
  }
  const listen = async () => {
    while (!end) onMessage(await control.receive())
  }
  listen().catch((error: unknown) => {
    const why =
      error instanceof StreamError ? error : new StreamError('error', String(error), { cause: error })
    void finish({ code: why.code, message: why.message })
  })

  const sendInput = (...events: readonly InputEvent[]) => {
    if (end) return
    const wasIdle = input.waiting === 0
    for (const event of events) input.add(event)
    // What follows while the first is on its way leaves with the next acknowledgement, or 20 ms later.
    if (wasIdle) flushInput()
  }

  return {
    started,
    frames,
    audio: packets,
    sendInput,
    sendText: text => sendInput(...textEvents(text)),
    inputDone: waitSignal =>
      new Promise((resolve, reject) => {
        if (end || input.waiting === 0) return resolve()
        if (waitSignal?.aborted) return reject(aborted(waitSignal))
        const done = () => {
          inputWaiters.delete(done)
          waitSignal?.removeEventListener('abort', stop)
          resolve()
        }
        const stop = () => {
          inputWaiters.delete(done)
          reject(aborted(waitSignal!))
        }
        inputWaiters.add(done)
        waitSignal?.addEventListener('abort', stop, { once: true })
      }),
    requestKeyframe,
    resize: (mode, waitSignal) =>
      new Promise((resolve, reject) => {
        if (end) return reject(new StreamError(end.code, end.message))
        if (waitSignal?.aborted) return reject(aborted(waitSignal))
        waitSignal?.addEventListener('abort', () => reject(aborted(waitSignal)), { once: true })
        resizeWaiters.push({ resolve, reject })
        control.send({ type: 'resize', mode })
      }),
    setBitrate: kbps => control.send({ type: 'bitrate', kbps }),
    reportPresented: ({ decoded, presented, decodeUsP50 }) =>
      control.send({ type: 'stats', decoded, presented, decode_us_p50: decodeUsP50 }),
    stats: () => sessionStats({ openedUs, started, link, assembler, audio, progress }),
    latencyUs: frame => {
      const { offsetUs } = link.clock
      return offsetUs === undefined ? undefined : frame.arrivalUs + offsetUs - frame.captureUs
    },
    ended,
    close: quit,
  }
}
