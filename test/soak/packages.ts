// kill -9 at a random moment of a package operation: the next start finds the state before it or the one after.
import { createKilling, type Killing, type Operation, operationNames } from '../harness/package-kills.ts'
import type { Sweep } from './main.ts'

export const packageSweep: Sweep = {
  name: 'packages',
  rounds: 60,
  async begin() {
    const killings = new Map<Operation, Killing>()
    return {
      async round(random, round) {
        const operation = operationNames[round % operationNames.length]!
        const killing = killings.get(operation) ?? (await createKilling(operation, 120_000))
        killings.set(operation, killing)
        const { found, killedAfterMs } = await killing.round(random() * 1.2)
        return `${operation} killed after ${killedAfterMs} ms, found as ${found}`
      },
      async end() {
        for (const killing of killings.values()) await killing.end()
      },
    }
  },
}
