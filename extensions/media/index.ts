// Media: the native engine as a service that planes open pipelines on.
import { hostCollect } from 'svc-host/api/status'
import { defineExtension } from 'svc-host/sdk'
import { MediaEngine } from './api.ts'
import { loadEngine } from './native.ts'
import { createMedia } from './service.ts'

export default defineExtension({
  async setup(ctx) {
    const media = createMedia(await loadEngine(), ctx.log)
    await ctx.effect('planes and pipelines', () => () => media.close())
    ctx.provide(MediaEngine, media)
    ctx.tap(hostCollect, async facts => ({ ...facts, codecs: [...(await media.codecs())] }))
  },
})
