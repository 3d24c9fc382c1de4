// What a catalog is on the wire: an index as sources publish it, and the answers of the API about it.
import { z } from 'zod'

const text = (max: number) => z.string().max(max)
const id = z
  .string()
  .regex(/^[a-z][a-z0-9]*(-[a-z0-9]+)*$/)
  .max(64)
const pkg = z
  .string()
  .regex(/^(@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*$/)
  .max(214)
const sha512 = z.string().regex(/^sha512-[A-Za-z0-9+/]{86}==$/)
const platform = z.enum(['linux', 'windows', 'macos'])

const IndexEntry = z.object({
  id,
  pkg,
  title: text(64),
  description: text(2000).default(''),
  author: text(128).default(''),
  version: text(64),
  integrity: sha512,
  platforms: z.array(platform).default(['linux']),
  categories: z.array(text(32)).max(16).default([]),
  icon: text(48).optional(),
  homepage: z
    .url({ protocol: /^https$/ })
    .max(2048)
    .optional(),
  license: text(64).optional(),
  /** The oldest host that it runs on. */
  minHost: text(64).optional(),
  /** Unix seconds. */
  reviewedAt: z.int().optional(),
})
export type IndexEntry = z.output<typeof IndexEntry>

/** The document that a source publishes; its signature lies beside it under the same address with `.sig` added. */
export const Index = z.object({
  version: z.literal(1),
  /** Rises with each issue; an older one than is known is refused. */
  serial: z.int().nonnegative(),
  plugins: z.array(IndexEntry).max(5000),
  blocked: z
    .array(z.object({ pkg, versions: text(128), reason: text(500) }))
    .max(5000)
    .default([]),
})
export type Index = z.output<typeof Index>

export const sourceName = z
  .string()
  .regex(/^[a-z][a-z0-9-]*$/, 'must be lower-case letters, digits and hyphens')
  .max(32)

/** The address of an index: HTTPS, or plain HTTP on this machine. */
const address = z
  .string()
  .max(2048)
  .refine(given => {
    const url = URL.parse(given)
    return (
      url?.protocol === 'https:' ||
      (url?.protocol === 'http:' && /^(localhost|127\.[\d.]+|\[::1\])$/.test(url.hostname))
    )
  }, 'must be an https address')
export const publicKey = z
  .string()
  .regex(/^ed25519:[A-Za-z0-9+/]{43}=$/, 'must be ed25519: and the base64 of 32 bytes')

export const SourceInput = z
  .object({ url: address, public_key: publicKey.optional() })
  .meta({ id: 'PluginSourceInput' })
export type SourceInput = z.output<typeof SourceInput>

export const SourceRow = z
  .object({
    name: z.string(),
    url: z.string(),
    builtin: z.boolean(),
    signed: z.boolean().describe('its index must carry the signature of its key'),
    stale: z.boolean().describe('not read for over an hour, or not at all'),
    entry_count: z.int(),
    fetched_at: z.int().optional().describe('Unix seconds'),
    error: z.string().optional().describe('why it could not be read the last time'),
    public_key: z.string().optional(),
  })
  .meta({ id: 'PluginSource' })
export type SourceRow = z.output<typeof SourceRow>

const CatalogEntry = z
  .object({
    id: z.string(),
    pkg: z.string(),
    title: z.string(),
    description: z.string(),
    author: z.string(),
    version: z.string(),
    source: z.string(),
    tier: z.enum(['verified', 'external']),
    platforms: z.array(platform),
    compatible: z.boolean(),
    update_available: z.boolean(),
    categories: z.array(z.string()),
    icon: z.string().optional(),
    homepage: z.string().optional(),
    license: z.string().optional(),
    min_host: z.string().optional(),
    reviewed_at: z.int().optional(),
    incompatible_reason: z.string().optional(),
    installed_version: z.string().optional(),
    blocked: z.string().optional(),
  })
  .meta({ id: 'PluginCatalogEntry' })
export type CatalogEntry = z.output<typeof CatalogEntry>

export const CatalogAnswer = z
  .object({
    host: z.object({ version: z.string(), platform }),
    sources: z.array(SourceRow),
    plugins: z.array(CatalogEntry),
    busy: z.boolean(),
  })
  .meta({ id: 'PluginCatalog' })
export type CatalogAnswer = z.output<typeof CatalogAnswer>
