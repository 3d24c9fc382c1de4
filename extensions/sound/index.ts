// Sound of sessions: a private sound server for each display, its programs told of it, its sound offered to planes.
import { DisplayPool, displayClear, displayPrepare } from 'svc-host/api/displays'
import { MediaEngine } from 'svc-host/api/media'
import { defineExtension } from 'svc-host/sdk'
import { SessionSound } from './api.ts'
import { createSounds } from './sounds.ts'

export default defineExtension({
  deps: { engine: MediaEngine, pool: DisplayPool },
  setup(ctx, { engine, pool }) {
    const sounds = createSounds(ctx, engine, ctx.log)
    // A display that was there before has programs that look for the server where it will be.
    for (const room of pool.rooms()) void sounds.begin(room)
    ctx.tap(displayPrepare, async room => ({ ...room, env: { ...room.env, ...(await sounds.begin(room)) } }))
    ctx.tap(displayClear, room => sounds.end(room.slot))
    ctx.provide(SessionSound, { open: sounds.open })
  },
})
