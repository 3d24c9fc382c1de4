// `ctx.files` and `ctx.exec` behind a bridge: done by the host, as far as the permissions go.
import type { Executed, Files, Outside } from '../outside.ts'
import { decodeUtf8, encodeUtf8, fromBase64 } from './bytes.ts'
import { collect, sending } from './parcels.ts'
import { seed } from './random.ts'
import { answerTo, ask } from './wire.ts'

answerTo('seed', (text: string) => seed(fromBase64(text)))

const read = async (path: string): Promise<Uint8Array> =>
  collect(await ask<string | number>('readFile', path))

const files: Files = {
  read,
  readText: async path => decodeUtf8(await read(path)),
  async write(path, data) {
    const bytes = typeof data === 'string' ? encodeUtf8(data) : data
    await sending(bytes, crossing => ask<void>('writeFile', path, crossing))
  },
  list: folder => ask('listFolder', folder),
  stat: path => ask('statFile', path),
  remove: path => ask('removeFile', path),
  makeFolder: path => ask('makeFolder', path),
}

export const outside: Outside = {
  files,
  exec: (template, values = {}) => ask<Executed>('exec', template, values),
}
