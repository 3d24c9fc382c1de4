// Where a pipeline's picture and sound come from and its input goes: native sources and sinks, shared per display.
import type { Mode, PictureSource, SoundChannels, SoundSource } from './api.ts'
import { createCounted, type Held } from './counted.ts'
import type { NativeAudioSource, NativeEngine, NativeInputSink, NativeSource } from './native.ts'

/** One pipeline's share of a picture. */
export interface Capture {
  readonly source: NativeSource
  /** null: nothing takes input. */
  readonly inputSink: NativeInputSink | null
  release(): Promise<void>
}

export interface Captures {
  /** Each holder has the same capture; it lasts until all have let go. */
  holdSound(source: SoundSource, channels: SoundChannels): Promise<Held<NativeAudioSource>>
  hold(picture: PictureSource, mode: Mode): Promise<Capture>
}

/** Same key, same handle: a display is captured once, a generated picture once per mode. */
export const captureKey = (picture: PictureSource, mode: Mode): string =>
  picture.kind === 'x11'
    ? JSON.stringify(['x11', picture.display, picture.xauthority])
    : JSON.stringify(['test', mode.width, mode.height, mode.hz])

export const createCaptures = (engine: NativeEngine): Captures => {
  const sources = createCounted<NativeSource>()
  const sinks = createCounted<NativeInputSink>()
  const sounds = createCounted<NativeAudioSource>()

  const openSource = (picture: PictureSource, mode: Mode): Promise<NativeSource> =>
    picture.kind === 'x11'
      ? engine.openSource({ ...picture, cursor: true })
      : engine.openSource({ kind: 'test', width: mode.width, height: mode.height, hz: mode.hz })

  return {
    holdSound: (source, channels) => {
      const config = { ...source, channels }
      return sounds.hold(JSON.stringify(config), () => engine.openAudioSource(config))
    },
    hold: async (picture, mode) => {
      const key = captureKey(picture, mode)
      const source = await sources.hold(key, () => openSource(picture, mode))
      let sink: Held<NativeInputSink> | null = null
      try {
        if (picture.kind === 'x11') sink = await sinks.hold(key, () => engine.openInputSink(picture))
      } catch (error) {
        await source.release()
        throw error
      }
      return {
        source: source.value,
        inputSink: sink?.value ?? null,
        release: async () => {
          await sink?.release()
          await source.release()
        },
      }
    },
  }
}
