// The examples that are extensions, and the realms that each of them runs in: read by every test that looks at all of them.
import { existsSync, readdirSync } from 'node:fs'
import { resolve } from 'node:path'

export type Realm = 'kernel' | 'isolate' | 'process'

/** Where an example is not for all realms. */
const only: Readonly<Record<string, readonly Realm[]>> = {
  // Its own test builds it first.
  'native-addon': [],
  // The methods of the service that it provides are not described for other realms.
  'replaces-a-builtin': ['kernel'],
}

export interface Example {
  readonly id: string
  readonly folder: string
  readonly realms: readonly Realm[]
}

export const examples: readonly Example[] = readdirSync('examples')
  .filter(id => existsSync(`examples/${id}/extension.json`))
  .map(id => ({ id, folder: resolve('examples', id), realms: only[id] ?? ['kernel', 'isolate', 'process'] }))

/** Folders of those that run in a realm. */
export const examplesIn = (realm: Realm): string[] =>
  examples.filter(({ realms }) => realms.includes(realm)).map(({ folder }) => folder)
