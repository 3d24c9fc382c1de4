// Rounds of switching everything off and on in random orders, in each realm: nothing is left behind, memory included.
import assert from 'node:assert/strict'
import { startHost, type TestHost } from 'svc-host/testing'
import { startBuiltIns } from '../contract/built-ins.ts'
import { examplesIn, type Realm } from '../harness/examples.ts'
import {
  atRest,
  childrenBytes,
  type Holdings,
  heapBytes,
  holdings,
  holdingsSettle,
  surfaceOf,
  toggleAll,
} from '../harness/toggling.ts'
import type { Sweep } from './main.ts'

/** The host keeps its newest events and lines of log, which are more from round to round until there are as many as it keeps. */
const slackBytes = 8 * 2 ** 20
const realms: readonly Realm[] = ['kernel', 'isolate', 'process']

interface Subject {
  readonly name: string
  readonly host: TestHost
  readonly ids: readonly string[]
  readonly surface: ReturnType<typeof surfaceOf>
}

async function subjectOf(name: string, host: TestHost): Promise<Subject> {
  const ids = host.extensions.list().map(({ id }) => id)
  const isOff = host.extensions.list().filter(({ state }) => state !== 'on')
  assert.deepEqual(
    isOff.map(({ id, why }) => `${id}: ${why}`),
    [],
  )
  for (let i = 0; i < 3; i++) await toggleAll(host, ids)
  return { name, host, ids, surface: surfaceOf(host) }
}

export const toggleSweep: Sweep = {
  name: 'toggle',
  rounds: 100,
  async begin() {
    const subjects = [await subjectOf('built-ins', await startBuiltIns())]
    for (const realm of realms)
      subjects.push(await subjectOf(`examples in ${realm}`, await startHost(examplesIn(realm), { realm })))
    const held: Holdings = await atRest()
    const bytes = await heapBytes()
    const apart = childrenBytes()
    return {
      async round(random, round) {
        for (const { name, host, ids, surface } of subjects) {
          await toggleAll(
            host,
            ids.toSorted(() => random() - 0.5),
          )
          assert.deepEqual(surfaceOf(host), surface, name)
          ;(host.logs as unknown[]).length = 0
        }
        assert.deepEqual(await holdingsSettle(held), held)
        const grown = (await heapBytes()) - bytes
        assert.ok(grown < slackBytes, `${grown} bytes more on the heap after ${round + 1} rounds`)
        const apartNow = childrenBytes()
        assert.ok(
          apartNow < apart * 1.5 + slackBytes,
          `sandboxes have grown from ${apart} to ${apartNow} bytes`,
        )
        return `${subjects.reduce((sum, { ids }) => sum + ids.length, 0)} extensions, ${Math.round(grown / 1024)} KiB more on the heap, ${holdings().descriptors} descriptors, ${Math.round(apartNow / 2 ** 20)} MiB apart`
      },
      async end() {
        for (const { host } of subjects) await host.stop()
      },
    }
  },
}
