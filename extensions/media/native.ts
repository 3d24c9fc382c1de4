// The only door to the native engine: loads the addon, or says what to run.
import type * as Native from '../../native/index.ts'

export type NativeEngine = Pick<
  typeof Native,
  'openSource' | 'openAudioSource' | 'openInputSink' | 'openPlane' | 'codecs'
>
export type NativePlane = Native.Plane

export type NativeSource = Native.Source
export type NativeAudioSource = Native.AudioSource
export type NativeInputSink = Native.InputSink

/** Loads the engine; rejects with a sentence when its addon is not built or cannot be loaded. */
export const loadEngine = async (): Promise<NativeEngine> => {
  try {
    const engine = await import('../../native/index.ts')
    // The first call is what loads the addon, where the module itself has not.
    engine.codecs()
    return engine
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error)
    const advice = cause.includes('svc-host setup') ? '' : '; build it anew with "svc-host setup"'
    throw new Error(`the media engine cannot be loaded: ${cause}${advice}`, { cause: error })
  }
}
