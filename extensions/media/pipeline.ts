// One session's pipeline: the native session, its share of the capture, and the sampler that all readers share.
import type { Log } from 'svc-host/sdk'
import type { Pipeline, PipelineConfig, PipelineSample, PipelineTotals, SoundSource } from './api.ts'
import type { Capture, Captures } from './capture.ts'
import type { Held } from './counted.ts'
import type { NativeAudioSource, NativePlane } from './native.ts'

/** Length of the span that a sample is taken over. */
const sampleEveryMs = 2000
/** Least parity, so that a block has one shard of it on a clean line; the engine makes more as losses are measured. */
const fecPercent = 2

const add = (totals: PipelineTotals, sample: PipelineSample): PipelineTotals => ({
  frames_sent: totals.frames_sent + sample.frames_new + sample.frames_repeated,
  frames_dropped: totals.frames_dropped + sample.frames_dropped,
  input_events: totals.input_events + sample.input_events,
  input_dropped: totals.input_dropped + sample.input_dropped,
})

/** Opens a pipeline on a plane; `onClose` runs once, when it has closed. */
export const openPipeline = async (
  plane: NativePlane,
  captures: Captures,
  { picture, codec, sound, ...config }: PipelineConfig,
  log: Log,
  onClose: () => void,
): Promise<Pipeline> => {
  if (codec !== 'h264')
    throw new Error(`codec ${codec} cannot be encoded here; ask codecs() for those that can`)
  const holdSound = async (source: SoundSource | null | undefined) =>
    sound && source ? captures.holdSound(source, sound.channels) : undefined
  let capture: Capture = await captures.hold(picture, config.mode)
  let heard: Held<NativeAudioSource> | undefined
  const release = async (): Promise<void> => {
    await heard?.release()
    await capture.release()
  }
  const open = async () => {
    heard = await holdSound(sound?.source)
    return plane.openSession({
      ...config,
      codec,
      fecPercent,
      source: capture.source,
      inputSink: capture.inputSink,
      audio: sound ? { channels: sound.channels, frameMs: sound.frameMs } : null,
      audioSource: heard?.value ?? null,
    })
  }
  const session = await open().catch(async error => {
    await release()
    throw error
  })

  let newest: PipelineSample | undefined
  let totals: PipelineTotals = { frames_sent: 0, frames_dropped: 0, input_events: 0, input_dropped: 0 }
  const takeSample = (): void => {
    const sample = session.sample()
    newest = sample
    totals = add(totals, sample)
    log.debug('pipeline sample', { session: config.id, ...sample })
  }
  const sampler = setInterval(takeSample, sampleEveryMs).unref()

  let closing: Promise<void> | undefined
  const shut = async (): Promise<void> => {
    clearInterval(sampler)
    takeSample()
    try {
      await session.close()
    } finally {
      await release()
      onClose()
    }
  }

  let changing: Promise<unknown> = Promise.resolve()

  return {
    ended: session.ended,
    streaming: session.streaming,
    requestKeyframe: () => session.requestKeyframe(),
    setGrants: mask => session.setGrants(mask),
    setBitrate: kbps => session.setBitrate(kbps),

    resize: (next, mode, generation) => {
      const change = changing.then(async () => {
        if (closing) throw new Error('the pipeline is closed')
        const other = await captures.hold(next, mode)
        try {
          await session.resize(other.source, mode, generation)
        } catch (error) {
          await other.release()
          throw error
        }
        const before = capture
        capture = other
        await before.release()
      })
      changing = change.catch(() => {})
      return change
    },

    setSound: next => {
      const change = changing.then(async () => {
        if (closing) return
        const other = await holdSound(next)
        session.setAudioSource(other?.value ?? null)
        const before = heard
        heard = other
        await before?.release()
      })
      changing = change.catch(() => {})
      return change
    },

    sample: () => newest,
    totals: () => totals,
    close: () => {
      closing ??= changing.then(shut)
      return closing
    },
  }
}
