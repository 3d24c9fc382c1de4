// Reading the index of a source: bounded in size and time, checked against its key before a word of it is believed.
import { z } from 'zod'
import { Index } from './schema.ts'
import { isSigned } from './signature.ts'

const limitBytes = 8 * 2 ** 20
const limitMs = 10_000

export interface Source {
  readonly url: string
  readonly publicKey?: string | undefined
}

async function read(url: string, limit: number, signal: AbortSignal): Promise<Buffer> {
  // A redirect could lead anywhere, this machine included.
  const answer = await fetch(url, { signal, redirect: 'error', credentials: 'omit' })
  if (!answer.ok) throw new Error(`answered ${answer.status}`)
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of answer.body ?? []) {
    size += chunk.length
    if (size > limit) throw new Error(`is larger than ${limit} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** What a document of an index says; throws a sentence. `known`: the serial that must not be gone back behind. */
export function parseIndex(bytes: Uint8Array, known: number): Index {
  let json: unknown
  try {
    json = JSON.parse(Buffer.from(bytes).toString('utf8'))
  } catch {
    throw new Error('the index is not JSON')
  }
  const parsed = Index.safeParse(json)
  if (!parsed.success)
    throw new Error(`the index does not fit: ${z.prettifyError(parsed.error).split('\n')[0]}`)
  if (parsed.data.serial < known)
    throw new Error(`the index is older (${parsed.data.serial}) than the one that is known (${known})`)
  return parsed.data
}

/** Fetches and checks; rejects with a sentence, and what was known before stays. */
export async function fetchIndex(
  { url, publicKey }: Source,
  known: number,
  signal: AbortSignal,
): Promise<Index> {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(limitMs)])
  const get = (address: string, limit: number): Promise<Buffer> =>
    read(address, limit, limited).catch(error => {
      const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : undefined
      const why = limited.aborted
        ? `took longer than ${limitMs / 1000} s`
        : (cause ?? (error as Error).message)
      throw new Error(`${address === url ? 'the index' : 'its signature'} cannot be read: ${why}`)
    })
  const bytes = await get(url, limitBytes)
  if (publicKey !== undefined) {
    const signature = (await get(`${url}.sig`, 1024)).toString('latin1')
    if (!isSigned(bytes, signature, publicKey))
      throw new Error('the index is not signed with the key of its source')
  }
  return parseIndex(bytes, known)
}
