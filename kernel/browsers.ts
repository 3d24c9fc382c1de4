// What a browser's page may do here: the names that this host answers to, and the origins that may call from elsewhere.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { HttpError } from 'svc-host/sdk'
import { UsageError } from './errors.ts'

/** Origins of pages from elsewhere; throws a usage error that names the one that is none. */
export function parseOrigins(text = ''): string[] {
  return text
    .split(/[\s,]+/)
    .filter(Boolean)
    .map(each => {
      if (URL.canParse(each) && new URL(each).origin === each) return each
      throw new UsageError(`SVC_BROWSER_ORIGINS: "${each}" is no origin such as https://console.example.com`)
    })
}

/** Takes `Host` headers that name this machine: an address, localhost, its name or its `.local` name. */
function isOwnName(host: string): boolean {
  const name = host
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase()
  const own = hostname().toLowerCase()
  return isIP(name) !== 0 || ['localhost', 'localhost.local', own, `${own}.local`].includes(name)
}

/** Throws for names that an attacker's page could have chosen, and for pages that nobody has allowed. */
export function checkOrigin({ headers }: IncomingMessage, origins: readonly string[]): void {
  const { host, origin } = headers
  if (host !== undefined && !isOwnName(host))
    throw new HttpError(421, 'this host goes by its address, localhost or its own name; use one of these')
  if (origin !== undefined && origin !== `https://${host}` && !origins.includes(origin))
    throw new HttpError(
      403,
      'calls from this origin are not accepted; the operator lists them in SVC_BROWSER_ORIGINS',
    )
}

/** Tells the browser that an allowed page may read the answer; true: that was all it asked, and it is answered. */
export function greetPage(
  request: IncomingMessage,
  response: ServerResponse,
  origins: readonly string[],
): boolean {
  const { origin } = request.headers
  if (origin === undefined || !origins.includes(origin)) return false
  response.setHeader('access-control-allow-origin', origin)
  response.setHeader('vary', 'origin')
  if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined)
    return false
  response
    .writeHead(204, {
      'access-control-allow-methods': 'GET, PUT, POST, PATCH, DELETE',
      'access-control-allow-headers': 'authorization, content-type, last-event-id',
      'access-control-max-age': '600',
    })
    .end()
  return true
}
