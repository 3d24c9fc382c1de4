// kill -9 in the middle of installing, updating, going back and removing: the next start finds the state before or the
// one after, never one between, and nothing else.
import { expect, test } from 'vitest'
import { createKilling, operationNames } from '../harness/package-kills.ts'
import { seeded } from '../soak/random.ts'

const random = seeded(20_261_122)

test.each(operationNames)(
  '%s, killed at five moments by a seed',
  async operation => {
    const killing = await createKilling(operation)
    try {
      for (let round = 0; round < 5; round++)
        expect(['before', 'after']).toContain((await killing.round(random())).found)
    } finally {
      await killing.end()
    }
  },
  // Six starts of a whole host.
  240_000,
)
