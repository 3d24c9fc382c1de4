// HTTP requests on behalf of a stranger's code: each hop is checked, and goes to the address that was checked.
import { lookup } from 'node:dns'
import { type IncomingMessage, request as overHttp } from 'node:http'
import { request as overHttps } from 'node:https'
import { z } from 'zod'
import { createGate } from './gate.ts'
import { createEgress, targetOf } from './index.ts'

export const bodyLimitBytes = 4 * 1024 * 1024
const redirectLimit = 5
const headerLimitBytes = 16 * 1024

/** The connection's own, which are the host's business. */
const reserved =
  /^(host|connection|content-length|expect|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*)$/
/** Those that are meant for one origin alone. */
const credentials = /^(authorization|cookie|proxy-.*)$/

export const Asked = z.object({
  url: z.string().max(8192),
  method: z.string().regex(/^[A-Z]{1,16}$/, 'a method is one word of letters'),
  /** In lower case. */
  headers: z.record(z.string().max(256), z.string().max(headerLimitBytes)),
  redirect: z.enum(['follow', 'error', 'manual']),
})
type Asked = z.output<typeof Asked>

export interface Answered {
  readonly url: string
  readonly status: number
  readonly statusText: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly isRedirected: boolean
  readonly body: Buffer
}

function parseUrl(text: string, base?: URL): URL {
  const url = URL.parse(text, base?.href)
  if (!url || !/^https?:$/.test(url.protocol))
    throw new Error(`fetch takes http:// and https:// URLs; ${text.slice(0, 200)} is neither`)
  return url
}

function checkHead({ method, headers }: Asked, hasBody: boolean): void {
  if (/^(CONNECT|TRACE|TRACK)$/.test(method)) throw new Error(`fetch does not do ${method}`)
  if (hasBody && /^(GET|HEAD)$/.test(method)) throw new Error(`a ${method} request has no body`)
  const own = Object.keys(headers).find(name => reserved.test(name))
  if (own) throw new Error(`the header ${own} is set by the host; leave it out`)
  if (JSON.stringify(headers).length > headerLimitBytes)
    throw new Error(`its headers are over ${headerLimitBytes} bytes`)
}

async function readBody(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let total = 0
  // Leaving the loop early destroys the connection.
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    total += chunk.length
    if (total > bodyLimitBytes) throw new Error(`the answer is over ${bodyLimitBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

export type Fetch = (asked: Asked, body: Buffer | undefined, signal: AbortSignal) => Promise<Answered>

/** `may` throws where a permission was not granted; `limitMs` is for all of a request. */
export function createFetch(
  may: (permission: string) => void,
  { resolve = lookup, limitMs = 30_000 } = {},
): Fetch {
  const egress = createEgress(may, resolve)
  const gate = createGate(8, 64, 'requests')

  const hop = async (url: URL, asked: Asked, body: Buffer | undefined, signal: AbortSignal) => {
    const target = targetOf(url)
    egress.check(target)
    const send = url.protocol === 'https:' ? overHttps : overHttp
    const outgoing = send(url, {
      method: asked.method,
      headers: { accept: '*/*', 'user-agent': 'svc-host', 'accept-encoding': 'identity', ...asked.headers },
      agent: false,
      lookup: egress.lookup(target.port),
      maxHeaderSize: headerLimitBytes,
      rejectUnauthorized: true,
      signal,
    })
    return new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.on('response', resolve).on('error', reject)
      outgoing.on('upgrade', (_answer, socket) => {
        socket.destroy()
        reject(new Error(`${url.href} wants to change the protocol; fetch speaks HTTP only`))
      })
      outgoing.end(body)
    })
  }

  const follow = async (given: Asked, sent: Buffer | undefined, signal: AbortSignal): Promise<Answered> => {
    let [url, asked, body] = [parseUrl(given.url), given, sent]
    if (url.username || url.password)
      throw new Error('a URL with a name or password is not fetched; use the header authorization')
    for (let hops = 0; ; hops++) {
      const answer = await hop(url, asked, body, signal)
      const status = answer.statusCode!
      const { location } = answer.headers
      if (
        location === undefined ||
        ![301, 302, 303, 307, 308].includes(status) ||
        asked.redirect === 'manual'
      )
        return {
          url: url.href,
          status,
          statusText: answer.statusMessage ?? '',
          headers: answer.rawHeaders.flatMap((name, at, all) =>
            at % 2 ? [] : [[name, all[at + 1]!] as const],
          ),
          isRedirected: hops > 0,
          body: await readBody(answer),
        }
      answer.destroy()
      if (asked.redirect === 'error') throw new Error(`${url.href} redirects to ${location.slice(0, 200)}`)
      if (hops === redirectLimit) throw new Error(`${given.url} redirects over ${redirectLimit} times`)
      const next = parseUrl(location, url)
      next.username = next.password = ''
      const isPlain = (status === 303 && asked.method !== 'HEAD') || (status < 303 && asked.method === 'POST')
      if (isPlain) body = undefined
      const kept = Object.entries(asked.headers).filter(
        ([name]) =>
          !(next.origin !== url.origin && credentials.test(name)) &&
          !(isPlain && name.startsWith('content-')),
      )
      asked = { ...asked, method: isPlain ? 'GET' : asked.method, headers: Object.fromEntries(kept) }
      url = next
    }
  }

  return async (asked, body, signal) => {
    checkHead(asked, body !== undefined)
    const limit = AbortSignal.timeout(limitMs)
    try {
      const both = AbortSignal.any([signal, limit])
      return await gate(async () => follow(asked, body, both))
    } catch (error) {
      if (limit.aborted)
        throw new Error(`${asked.url.slice(0, 200)} did not answer within ${limitMs / 1000} s`)
      throw error
    }
  }
}
