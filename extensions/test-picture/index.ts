// The generated test picture as a display backend: nothing is started, the engine draws it.
import { DisplayPool } from 'svc-host/api/displays'
import { defineExtension } from 'svc-host/sdk'
import { testPicture } from './backend.ts'

export default defineExtension({
  deps: { pool: DisplayPool },
  setup: (ctx, { pool }) => ctx.effect('display backend test-picture', () => pool.register(testPicture)),
})
