// Health: what anyone may ask a host, without a credential, to learn that it is one and which.
import { z } from 'zod'

/** Version of the interface between the host and its native core library; `abi_version` on the wire. */
export const abiVersion = 1

/** The answer of `GET /health` (wire-decisions, "Health"). */
export const Health = z
  .object({
    status: z.literal('ok'),
    version: z.string().describe('release version of the host'),
    abi_version: z.int().describe('version of the native core library interface'),
  })
  .meta({ id: 'Health' })
