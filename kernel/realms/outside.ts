// What an extension behind a bridge does outside: requests, files and command lines, each by the host and by its permissions.
import { randomBytes } from 'node:crypto'
import type { Context } from 'svc-host/sdk'
import { z } from 'zod'
import { Asked, createFetch } from '../../sdk/egress/fetch.ts'
import type { Cell } from './cell.ts'
import { createParcels } from './parcels.ts'
import { id, json, text } from './shapes.ts'
import { type Verb, verb } from './verb.ts'

/** Characters of what comes at once: base64 of a piece. */
const crossing = z.union([z.null(), z.string().max(128 * 1024), id])
const path = z.string().max(4096)

export function outsideVerbs(
  ctx: Context,
  cell: Cell,
  check: (permission: string) => void,
): [name: string, run: Verb][] {
  cell.tell('seed', [randomBytes(32).toString('base64')])
  const parcels = createParcels()
  const fetchFor = createFetch(check)
  const calls = new Map<number, AbortController>()
  return [
    ['parcel', verb([id, z.string().max(128 * 1024)], (number, piece) => parcels.add(number, piece))],
    ['dropParcel', verb([id], number => void parcels.take(number))],
    ['piece', verb([id], number => parcels.next(number))],
    [
      'fetch',
      verb([id, Asked, crossing], async (call, asked, body) => {
        const controller = new AbortController()
        calls.set(call, controller)
        try {
          const signal = AbortSignal.any([ctx.signal, controller.signal])
          const answer = await fetchFor(asked, parcels.take(body), signal)
          return { ...answer, body: parcels.give(answer.body) }
        } finally {
          calls.delete(call)
        }
      }),
    ],
    ['abortFetch', verb([id], call => calls.get(call)?.abort())],
    ['readFile', verb([path], async file => parcels.give(Buffer.from(await ctx.files.read(file))))],
    [
      'writeFile',
      verb([path, crossing], (file, data) => ctx.files.write(file, parcels.take(data) ?? new Uint8Array())),
    ],
    ['listFolder', verb([path], folder => ctx.files.list(folder))],
    ['statFile', verb([path], file => ctx.files.stat(file))],
    ['removeFile', verb([path], file => ctx.files.remove(file))],
    ['makeFolder', verb([path], folder => ctx.files.makeFolder(folder))],
    [
      'exec',
      verb([text, z.record(z.string(), json)], (template, values) => ctx.exec(template, values as never)),
    ],
  ]
}
