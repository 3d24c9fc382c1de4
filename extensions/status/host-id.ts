// The persistent id of this host: made once, kept in a settings file of its own.
import { randomBytes } from 'node:crypto'
import type { Context } from 'svc-host/sdk'
import { z } from 'zod'

const HostId = z.object({
  version: z.int().default(1),
  uniqueid: z
    .string()
    .regex(/^[0-9A-F]{16}$/)
    .optional(),
})

/** The id in `<config>/host-id.json`, 16 uppercase hex characters; a write that fails leaves one for this run only. */
export async function openHostId(ctx: Pick<Context, 'document' | 'log'>): Promise<string> {
  const file = await ctx.document('host-id.json', HostId)
  if (file.value.uniqueid) return file.value.uniqueid
  const uniqueid = randomBytes(8).toString('hex').toUpperCase()
  await file.write({ ...file.value, uniqueid }).catch(error => {
    ctx.log.warn(
      `host-id.json cannot be written; this host will have another id after a restart: ${error.message}`,
    )
  })
  return uniqueid
}
