// The media engine as a service: planes and their pipelines, all of them closed when it goes.
import type { Log } from 'svc-host/sdk'
import type { MediaEngine, MediaPlane, Pipeline } from './api.ts'
import { createCaptures } from './capture.ts'
import type { NativeEngine } from './native.ts'
import { openPipeline } from './pipeline.ts'

export interface Media extends MediaEngine {
  /** Closes every plane with its pipelines. */
  close(): Promise<void>
}

export const createMedia = (engine: NativeEngine, log: Log): Media => {
  const captures = createCaptures(engine)
  const planes = new Set<MediaPlane>()

  return {
    codecs: async () => engine.codecs(),
    holdSound: async (source, channels) => (await captures.holdSound(source, channels)).release,

    openPlane: async config => {
      const native = await engine.openPlane(config)
      const pipelines = new Set<Pipeline>()
      const opening = new Set<Promise<unknown>>()
      let closing: Promise<void> | undefined

      const shut = async (): Promise<void> => {
        await Promise.allSettled(opening)
        await Promise.allSettled([...pipelines].map(pipeline => pipeline.close()))
        await native.close()
        planes.delete(plane)
      }
      const plane: MediaPlane = {
        port: native.port,
        stats: () => native.stats(),
        open: pipelineConfig => {
          if (closing) return Promise.reject(new Error('the plane is closed'))
          const opened = openPipeline(native, captures, pipelineConfig, log, () => pipelines.delete(pipeline))
          let pipeline: Pipeline
          const run = opened.then(done => {
            pipeline = done
            pipelines.add(done)
            return done
          })
          opening.add(run)
          const settled = () => opening.delete(run)
          run.then(settled, settled)
          return run
        },
        close: () => {
          closing ??= shut()
          return closing
        },
      }
      planes.add(plane)
      return plane
    },

    close: async () => {
      await Promise.allSettled([...planes].map(plane => plane.close()))
    },
  }
}
