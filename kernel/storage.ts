// What an extension keeps: values by key in one file of its state folder; changes that come close together share a write.
import { join } from 'node:path'
import type { KeyValueStorage } from 'svc-host/sdk'
import { z } from 'zod'
import { openDocument } from './documents.ts'

const valueLimitBytes = 64 * 1024
const totalLimitBytes = 1024 * 1024
const keyPattern = /^(?!__proto__$)[\w.:/@-]{1,256}$/

const Kept = z.object({ version: z.int().default(1), values: z.record(z.string(), z.json()).default({}) })
type Values = z.output<typeof Kept>['values']

export function openStorage(configDir: string, id: string, warn: (message: string) => void): KeyValueStorage {
  let opened: ReturnType<typeof openDocument<typeof Kept>> | undefined
  let batch: { readonly changes: ((values: Values) => void)[]; readonly done: Promise<void> } | undefined
  const open = () =>
    (opened ??= openDocument(join(configDir, 'plugin-state', id, 'storage.json'), Kept, warn))

  const change = async (apply: (values: Values) => void): Promise<void> => {
    const file = await open()
    if (!batch) {
      const changes: ((values: Values) => void)[] = []
      const done = file.write(({ version, values: before }) => {
        batch = undefined
        const values = { ...before }
        for (const each of changes) each(values)
        if (JSON.stringify(values).length > totalLimitBytes)
          throw new Error(
            `storage of ${id} would be over ${totalLimitBytes} bytes; delete what is not needed`,
          )
        return { version, values }
      })
      batch = { changes, done }
    }
    batch.changes.push(apply)
    return batch.done
  }

  return {
    async get(key) {
      const { value } = await open()
      return Object.hasOwn(value.values, key) ? structuredClone(value.values[key]) : undefined
    },
    async set(key, value) {
      if (!keyPattern.test(key))
        throw new Error('a key of storage is 1 to 256 letters, digits or any of . : / @ _ -')
      const text = JSON.stringify(value) ?? 'null'
      if (Buffer.byteLength(text) > valueLimitBytes)
        throw new Error(`"${key}" is over ${valueLimitBytes} bytes; split it over several keys`)
      const copy = JSON.parse(text)
      await change(values => {
        values[key] = copy
      })
    },
    delete: key => change(values => void delete values[key]),
    keys: async () => Object.keys((await open()).value.values),
  }
}
