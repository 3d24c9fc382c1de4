// Packages of strangers, written for one test: a folder with a manifest and a main module in JavaScript.
import { mkdtempSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Guests {
  /** Writes a package, by default with every permission that tests of others need, and returns its folder. `code` may use `z`, `defineExtension` and all else of the SDK as `sdk`. */
  write(id: string, code: string, manifest?: object): Promise<string>
  /** Likewise, with this body of the setup. */
  setup(id: string, body: string, manifest?: object): Promise<string>
  remove(): Promise<void>
}

export function createGuests(): Guests {
  const root = mkdtempSync(join(tmpdir(), 'svc-guests-'))
  const write: Guests['write'] = async (id, code, manifest = {}) => {
    const folder = join(root, id)
    await mkdir(folder, { recursive: true })
    const about = {
      id,
      version: '1.0.0',
      sdk: '^1.0.0',
      title: id,
      realm: 'isolate',
      main: 'index.js',
      permissions: ['events:*', 'hooks:*', 'routes'],
      ...manifest,
    }
    await writeFile(join(folder, 'extension.json'), JSON.stringify(about))
    const head = `import * as sdk from 'svc-host/sdk'
import { z } from 'zod'
const { defineExtension, event, hook, HttpError, reply, route, token } = sdk
const admin = { plugin: false, device: false }
`
    await writeFile(join(folder, 'index.js'), head + code)
    return folder
  }
  return {
    write,
    setup: (id, body, manifest) =>
      write(id, `export default defineExtension({ async setup(ctx) {\n${body}\n} })`, manifest),
    remove: () => rm(root, { recursive: true, force: true }),
  }
}
