// Pairing as a whole, over interleavings of everything that can happen to it.
import { test } from 'vitest'
import { holdsOverInterleavings } from '../../test/harness/pairing-world.ts'

test('over any interleaving nobody is let in unasked, and nobody who waits is lost', async () => {
  await holdsOverInterleavings(60)
}, 60_000)
