// Operators, devices, a failing disk and restarts in long random orders: what `npm test` tries for seconds, for hours.
import { holdsOverInterleavings } from '../harness/pairing-world.ts'
import type { Sweep } from './main.ts'

/** Orders of steps in one round. */
const runs = 500

export const pairingSweep: Sweep = {
  name: 'pairing',
  rounds: 200,
  begin: async () => ({
    round: async random => {
      await holdsOverInterleavings(runs, Math.floor(random() * 0x7fff_ffff))
      return `${runs} orders of steps`
    },
    end: async () => {},
  }),
}
