// Every route, called by everyone from everywhere: each credential from IPv4 and IPv6 loopback and from another machine.
// Reason: what the lanes say is worth what the listener does. Exception: none; the matrix is made from the live routes.
import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { readLineValue } from 'svc-host/client'
import { ApiRoutes, type Route } from 'svc-host/sdk'
import { loadIdentity } from 'svc-host/stream'
import { startHost, type TestHost } from 'svc-host/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Call, type Calls, sendAll } from '../harness/caller.ts'
import { nodeFlags, until } from '../harness/host.ts'
import { type Network, openNetwork } from '../harness/network.ts'
import { builtInIds } from './built-ins.ts'
import { lettersOf, rows } from './route-table.ts'

type Client = NonNullable<Call['client']>
type Who = { readonly bearer?: string; readonly client?: Client }
const secrets = Object.fromEntries(
  ['own', 'poor', 'foreign'].map(name => [name, name.padEnd(64, '0')]),
) as Record<'own' | 'poor' | 'foreign', string>

const configDir = mkdtempSync(join(tmpdir(), 'svc-matrix-'))
let host: TestHost
let network: Network
let everyone: Record<string, Who>
let routes: Route[]

beforeAll(async () => {
  const newClient = async (name: string) => {
    const { fingerprint, certificatePem, keyPem } = await loadIdentity(join(configDir, name))
    return { fingerprint, certificatePem, privateKeyPem: keyPem }
  }
  const [full, view, expired, unpaired] = [
    await newClient('full'),
    await newClient('view'),
    await newClient('expired'),
    await newClient('unpaired'),
  ]
  const row = ({ fingerprint }: typeof full, grants: number, expires_unix: number | null) => ({
    name: 'x',
    fingerprint,
    grants,
    expires_unix,
    granted_unix: 1,
  })
  const clients = [row(full, 0x7f, null), row(view, 0, null), row(expired, 0x7f, 2)]
  writeFileSync(join(configDir, 'native-paired.json'), JSON.stringify({ clients }))
  // Stands in for the runner, which would put away tokens of units that it does not have.
  const program = join(configDir, 'runner.sh')
  writeFileSync(program, '#!/bin/sh\nexec sleep 600\n', { mode: 0o755 })
  network = await openNetwork()
  host = await startHost({
    extensions: builtInIds,
    configDir,
    flags: { 'native-port': '0', 'mgmt-bind': '[::]:0' },
    env: { SVC_SOURCE: 'software', SVC_MDNS: '0', SVC_SCRIPTING: program },
  })
  await host.inject('POST', '/store/runtime', { body: { enabled: true } })
  const file = join(configDir, 'plugin-token')
  await until('the runner’s token', () => existsSync(file), 5000)
  const runner = readLineValue(readFileSync(file, 'utf8'))!
  mkdirSync(join(configDir, 'plugin-run'), { recursive: true })
  const permissions = ['api:*']
  const units = {
    // The id that every path of the matrix has.
    x: { token: secrets.own, permissions },
    foreign: { token: secrets.foreign, permissions },
    poor: { token: secrets.poor, permissions: [] },
  }
  writeFileSync(join(configDir, 'plugin-run', 'unit-tokens.json'), JSON.stringify(units))
  routes = host
    .service(ApiRoutes)!
    .list()
    .map(({ route }) => route)
  everyone = {
    nobody: {},
    'a wrong token': { bearer: 'f'.repeat(64) },
    'a certificate that is not paired': { client: unpaired },
    'a device whose access is over': { client: expired },
    'the runner': { bearer: runner },
    'the plugin itself': { bearer: secrets.own },
    'another plugin': { bearer: secrets.foreign },
    'a plugin without grants': { bearer: secrets.poor },
    'a device that may all': { client: full },
    'a device that may look': { client: view },
    admin: { bearer: host.adminToken },
  }
})
afterAll(async () => {
  await host?.stop()
  await network?.close()
  rmSync(configDir, { recursive: true, force: true })
})

/** What the wire's table says of a call: `in`, or the status that refuses it. */
function expected(lanes: string, who: string, isLocal: boolean): 'in' | 401 | 403 {
  const letters = lanes.split(' ')
  const has = (letter: string): boolean => letters.includes(letter)
  if (has('N')) return 'in'
  if (has('L')) return isLocal ? 'in' : 401
  if (who.startsWith('a device that may') && has('D')) return 'in'
  if (!isLocal) return 401
  if (who === 'admin') return 'in'
  if (who === 'the runner') return has('P') ? 'in' : 403
  if (who === 'the plugin itself') return has('O') || has('O-own') ? 'in' : 403
  if (who === 'another plugin') return has('O') ? 'in' : 403
  if (who === 'a plugin without grants') return 403
  return 401
}

/** The texts of the lanes' own refusals; a handler may answer 401 and 403 by its own. */
const isLanes = (outcome: string): boolean =>
  /^401 (missing or wrong credential|admin calls are accepted on this machine only)$/.test(outcome) ||
  /^403 (not open to plugin tokens|this token may only write its own id|\S+ has not been granted \S+)$/.test(
    outcome,
  )

const elsewhere = async (calls: Calls): Promise<string[]> => {
  const script = ['netns', 'exec', network.name, process.execPath, ...nodeFlags, 'test/harness/caller.ts']
  const child = spawn('ip', script, { stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.end(JSON.stringify(calls))
  return JSON.parse(await text(child.stdout)) as string[]
}

test.for(['127.0.0.1', '::1', 'another machine'])(
  'from %s everybody gets as far as the table says',
  { timeout: 60_000 },
  async from => {
    const isLocal = from !== 'another machine'
    const wrong: string[] = []
    let admitted = 0
    const endsOthers = ({ method, path }: Route): boolean => method === 'DELETE' && !path.includes('{')
    // Those who may the least go first, and what ends the access of others is left to those who may not.
    const cases = Object.entries(everyone).flatMap(([who, { bearer, client }]) =>
      routes
        .filter(route => !(who === 'admin' && isLocal && endsOthers(route)))
        .map(route => ({
          who,
          route,
          call: {
            method: route.method,
            path: (route.absolute ? '' : '/api/v1') + route.path.replace(/\{\w+\}/g, 'x'),
            ...(bearer && { bearer }),
            ...(client && { client }),
          },
        })),
    )
    const calls = cases.map(({ call }) => call)
    const { port } = host
    const outcomes = isLocal
      ? await sendAll({ address: from, port, calls })
      : await elsewhere({ address: network.hostAddress, port, calls })
    for (const [i, { who, route }] of cases.entries()) {
      const outcome = outcomes[i]!
      const got = isLanes(outcome) ? Number(outcome.slice(0, 3)) : 'in'
      const row = rows.get(`${route.method} ${route.path}`)
      const want = expected(row?.lanes ?? lettersOf(route.lanes), who, isLocal)
      admitted += Number(got === 'in')
      if (!row) wrong.push(`${route.method} ${route.path} has no row in the table`)
      if (got !== want) wrong.push(`${who}: ${route.method} ${route.path}: ${outcome}, expected ${want}`)
    }
    expect(wrong).toEqual([])
    expect(admitted).toBeGreaterThan(20)
  },
)
