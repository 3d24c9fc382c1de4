// `fetch` as authors know it, each request made by the host: whole bodies, no streams.
import { decodeUtf8, encodeUtf8 } from './bytes.ts'
import { type Crossing, collect, sending } from './parcels.ts'
import { ask, tell } from './wire.ts'

type HeadersInit =
  | Headers
  | Iterable<readonly [string, string]>
  | Readonly<Record<string, string>>
  | undefined

const cleanName = (name: unknown): string => {
  const text = String(name).toLowerCase()
  if (!/^[!#$%&'*+.^`|~\w-]+$/.test(text)) throw new TypeError(`"${text}" is no name of a header`)
  return text
}
const cleanValue = (value: unknown): string => {
  const text = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, '')
  if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(text))
    throw new TypeError('the value of a header holds characters that cannot be sent')
  return text
}

export class Headers {
  readonly #values = new Map<string, string[]>()

  constructor(init?: HeadersInit) {
    if (init === undefined || init === null) return
    const isList = Symbol.iterator in init
    for (const [name, value] of isList ? (init as Iterable<[string, string]>) : Object.entries(init))
      this.append(name, value)
  }
  append(name: string, value: string): void {
    const key = cleanName(name)
    this.#values.set(key, [...(this.#values.get(key) ?? []), cleanValue(value)])
  }
  set(name: string, value: string): void {
    this.#values.set(cleanName(name), [cleanValue(value)])
  }
  get(name: string): string | null {
    return this.#values.get(cleanName(name))?.join(', ') ?? null
  }
  has(name: string): boolean {
    return this.#values.has(cleanName(name))
  }
  delete(name: string): void {
    this.#values.delete(cleanName(name))
  }
  getSetCookie(): string[] {
    return [...(this.#values.get('set-cookie') ?? [])]
  }
  *entries(): IterableIterator<[string, string]> {
    for (const name of [...this.#values.keys()].sort())
      if (name === 'set-cookie') for (const each of this.getSetCookie()) yield [name, each]
      else yield [name, this.get(name)!]
  }
  *keys(): IterableIterator<string> {
    for (const [name] of this.entries()) yield name
  }
  *values(): IterableIterator<string> {
    for (const [, value] of this.entries()) yield value
  }
  forEach(run: (value: string, name: string, headers: Headers) => void): void {
    for (const [name, value] of this.entries()) run(value, name, this)
  }
  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries()
  }
}

interface ResponseInit {
  readonly status?: number
  readonly statusText?: string
  readonly headers?: HeadersInit
  readonly url?: string
  readonly redirected?: boolean
}

export class Response {
  readonly status: number
  readonly statusText: string
  readonly headers: Headers
  readonly url: string
  readonly redirected: boolean
  readonly type = 'basic'
  #isUsed = false
  readonly #bytes: Uint8Array

  constructor(body?: unknown, init: ResponseInit = {}) {
    const { bytes, type } = bodyOf(body)
    this.#bytes = bytes ?? new Uint8Array()
    this.status = init.status ?? 200
    this.statusText = init.statusText ?? ''
    this.headers = new Headers(init.headers)
    if (type && !this.headers.has('content-type')) this.headers.set('content-type', type)
    this.url = init.url ?? ''
    this.redirected = init.redirected ?? false
  }
  get ok(): boolean {
    return this.status >= 200 && this.status < 300
  }
  get bodyUsed(): boolean {
    return this.#isUsed
  }
  get body(): never {
    throw new TypeError('there are no streams in this realm; use text(), json(), bytes() or arrayBuffer()')
  }
  async bytes(): Promise<Uint8Array> {
    if (this.#isUsed) throw new TypeError('the body has been read already')
    this.#isUsed = true
    return this.#bytes
  }
  async arrayBuffer(): Promise<ArrayBuffer> {
    return (await this.bytes()).slice().buffer as ArrayBuffer
  }
  async text(): Promise<string> {
    return decodeUtf8(await this.bytes()).replace(/^\ufeff/, '')
  }
  async json(): Promise<unknown> {
    return JSON.parse(await this.text())
  }
  clone(): Response {
    if (this.#isUsed) throw new TypeError('the body has been read already')
    return new Response(this.#bytes, this)
  }
}

function bodyOf(body: unknown): { bytes?: Uint8Array; type?: string } {
  if (body === undefined || body === null) return {}
  if (body instanceof ArrayBuffer) return { bytes: new Uint8Array(body.slice(0)) }
  if (ArrayBuffer.isView(body))
    return { bytes: new Uint8Array(body.buffer as ArrayBuffer, body.byteOffset, body.byteLength).slice() }
  if (typeof body === 'string') return { bytes: encodeUtf8(body), type: 'text/plain;charset=UTF-8' }
  if ((body as object).constructor?.name === 'URLSearchParams')
    return {
      bytes: encodeUtf8(String(body)),
      type: 'application/x-www-form-urlencoded;charset=UTF-8',
    }
  throw new TypeError('a body is a text, bytes or URLSearchParams in this realm; JSON.stringify what is data')
}

interface RequestInit {
  readonly method?: string
  readonly headers?: HeadersInit
  readonly body?: unknown
  readonly signal?: AbortSignal | null
  readonly redirect?: 'follow' | 'error' | 'manual'
}
interface Answered extends Required<Pick<ResponseInit, 'url' | 'status' | 'statusText'>> {
  readonly headers: [string, string][]
  readonly isRedirected: boolean
  readonly body: Exclude<Crossing, null>
}

let lastCall = 0

export async function fetch(input: unknown, init: RequestInit = {}): Promise<Response> {
  const { method = 'GET', signal, redirect = 'follow' } = init
  signal?.throwIfAborted()
  const headers = new Headers(init.headers)
  const { bytes, type } = bodyOf(init.body)
  if (type && !headers.has('content-type')) headers.set('content-type', type)
  lastCall += 1
  const call = lastCall
  const stop = (): void => tell('abortFetch', call)
  signal?.addEventListener('abort', stop, { once: true })
  try {
    const asked = {
      url: String(input),
      method: String(method).toUpperCase(),
      headers: Object.fromEntries(headers),
      redirect,
    }
    const { isRedirected, ...answer } = await sending(bytes, body => {
      signal?.throwIfAborted()
      return ask<Answered>('fetch', call, asked, body)
    })
    return new Response(await collect(answer.body), { ...answer, redirected: isRedirected })
  } catch (error) {
    throw signal?.aborted ? signal.reason : error
  } finally {
    signal?.removeEventListener('abort', stop)
  }
}
