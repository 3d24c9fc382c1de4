// A display backend without a display: its picture has any mode that it is asked for.
import type { DisplayBackend } from 'svc-host/api/displays'

const picture = { kind: 'test' } as const

export const testPicture: DisplayBackend = {
  id: 'test-picture',
  label: 'Generated test picture',
  owned: false,
  preference: null,
  available: async () => true,
  create: async () => ({
    picture,
    // Nothing can take it away but the pool.
    lost: new Promise(() => {}),
    resize: async () => picture,
    alive: async () => true,
    close: async () => {},
  }),
}
