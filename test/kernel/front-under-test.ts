// A front on a free port with routes of the test's choosing, and a plain HTTPS caller for it.
import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { type RequestOptions, request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type HostIdentity, type Route, route } from 'svc-host/sdk'
import { afterEach } from 'vitest'
import { z } from 'zod'
import { createFront, type Front, type FrontOptions, type OwnedRoute } from '../../kernel/http.ts'
import { loadIdentity } from '../../kernel/identity.ts'

export const adminToken = 'a'.repeat(64)
export const bearer = (token = adminToken) => ({ authorization: `Bearer ${token}` })

const undo: (() => void | Promise<void>)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})
export const later = (step: () => void | Promise<void>): void => void undo.push(step)

export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
  later(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

let identity: Promise<HostIdentity> | undefined
/** One identity for the whole test file. */
export function testIdentity(): Promise<HostIdentity> {
  identity ??= (async () => {
    const folder = mkdtempSync(join(tmpdir(), 'svc-test-'))
    return loadIdentity(folder, () => {}).finally(() => rmSync(folder, { recursive: true, force: true }))
  })()
  return identity
}

export interface Fault {
  owner: string
  during: string
  error: unknown
}

export interface Answer {
  status: number
  headers: IncomingHttpHeaders
  text: string
  json: unknown
}

export interface FrontUnderTest {
  front: Front
  faults: Fault[]
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
}
export interface CallOptions extends RequestOptions {
  body?: unknown
  raw?: string
}

export async function startFront(
  routes: readonly OwnedRoute[],
  options: Partial<FrontOptions> = {},
): Promise<FrontUnderTest> {
  const faults: Fault[] = []
  const front = createFront({
    bind: { host: '127.0.0.1', port: 0 },
    identity: await testIdentity(),
    adminToken,
    report: (owner, during, error) => void faults.push({ owner, during, error }),
    ...options,
  })
  const leftOut = await front.publish(routes)
  if (leftOut.length) throw leftOut[0]
  await front.listen()
  later(() => front.close(0))
  return { front, faults, call: (method, path, o) => callHttps(front.port, method, path, o) }
}

export function callHttps(port: number, method: string, path: string, o: CallOptions = {}): Promise<Answer> {
  const { body, raw, ...rest } = o
  const isChunked = (o.headers as object | undefined) && 'transfer-encoding' in (o.headers as object)
  const text = raw ?? (body === undefined ? undefined : JSON.stringify(body))
  return new Promise((resolve, reject) => {
    const headers = {
      ...(text !== undefined && !isChunked && { 'content-length': Buffer.byteLength(text) }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(o.headers as object),
    }
    const where = { host: '127.0.0.1', port, method, path, rejectUnauthorized: false, agent: false as const }
    const sent = request({ ...where, ...rest, headers }, response => {
      const chunks: Buffer[] = []
      response.on('data', chunk => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const whole = Buffer.concat(chunks).toString()
        const isJson = response.headers['content-type']?.startsWith('application/json')
        const json = isJson && whole ? JSON.parse(whole) : undefined
        resolve({ status: response.statusCode!, headers: response.headers, text: whole, json })
      })
    })
    sent.on('error', reject)
    sent.end(text)
  })
}

/** A route of an owner that runs as long as `signal` says. */
export const owned = (
  declared: Route,
  owner = 'one',
  signal: AbortSignal = new AbortController().signal,
): OwnedRoute => ({ owner, route: declared, signal })

export const ok = (path = '/ok', answer: () => unknown = () => ({ ok: true })): Route =>
  route({
    method: 'GET',
    path,
    id: `get${path.slice(1)}`,
    summary: 'Answers',
    lanes: 'open',
    replies: { 200: z.object({ ok: z.boolean() }) },
    handler: answer as () => { ok: boolean },
  })

export const until = async (what: () => boolean, limitMs = 5000): Promise<void> => {
  const end = Date.now() + limitMs
  while (!what()) {
    if (Date.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`)
    await new Promise(done => setTimeout(done, 5))
  }
}
