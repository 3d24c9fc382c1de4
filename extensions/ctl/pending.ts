// `ctl pending`, `approve` and `deny`: devices that knock.
import { InvalidArgumentError, type Command as Parser } from 'commander'
import { type ApiClient, ApiError } from 'svc-host/client'
import type { CommandContext } from 'svc-host/sdk'
import { presetGrants, presetOption } from './access.ts'
import { type Cell, plain, table, type Verb } from './api.ts'
import { clock, date, parseSecs } from './duration.ts'

interface PendingDevice {
  id: number
  name: string
  fingerprint: string
  age_secs: number
  source: 'lan' | 'wan'
  expires_unix: number | null
  access_level: string | null
}
interface Approved {
  name: string
  access_level: string
  expires_unix: number | null
}
interface ApproveOptions {
  name?: string
  preset?: string
  expiresIn?: number
}

const before = ({ access_level, expires_unix }: PendingDevice): Cell => {
  if (access_level === null) return 'no'
  const over = expires_unix === null ? '' : `, over since ${date(expires_unix)}`
  return { text: `${access_level}${over}`, colour: 'yellow' }
}

export function pendingText(out: NodeJS.WritableStream, devices: readonly PendingDevice[]): string {
  if (devices.length === 0) return 'No device waits for approval.'
  const hasOutsiders = devices.some(({ source }) => source === 'wan')
  return [
    table(
      out,
      ['ID', 'NAME', 'FINGERPRINT', 'FROM', 'KNOCKED', 'PAIRED BEFORE'],
      devices.map(device => [
        String(device.id),
        device.name,
        device.fingerprint.slice(0, 16),
        device.source === 'lan' ? 'this network' : { text: 'outside', colour: 'yellow' },
        `${clock(device.age_secs)} ago`,
        before(device),
      ]),
    ),
    '"svc-host ctl approve ID" lets one in, "svc-host ctl deny ID" sends one away.',
    ...(hasOutsiders
      ? ['One from outside pairs by PIN only: "svc-host ctl pair arm --fingerprint FINGERPRINT".']
      : []),
  ].join('\n')
}

/** A fingerprint that begins like this, of the only such device that knocks; anything else as it is. */
export async function completeFingerprint(host: ApiClient, text: string): Promise<string> {
  const start = text.trim().toLowerCase().replaceAll(':', '')
  if (!/^[0-9a-f]{4,63}$/.test(start)) return text
  const found = (await list(host)).filter(({ fingerprint }) => fingerprint.startsWith(start))
  return found.length === 1 ? found[0]!.fingerprint : text
}

const list = (host: ApiClient): Promise<PendingDevice[]> =>
  host.request<PendingDevice[]>('GET', '/native/pending')

/** The row with this id, for its name and fingerprint; the host itself refuses an id that it does not list. */
const rowOf = async (host: ApiClient, id: number): Promise<PendingDevice | undefined> =>
  (await list(host)).find(device => device.id === id)

const parseId = (text: string): number => {
  if (!/^\d{1,15}$/.test(text))
    throw new InvalidArgumentError('Write an id as "svc-host ctl pending" lists it.')
  return Number(text)
}

const approvedText = ({ name, access_level, expires_unix }: Approved, nowUnix: number): string => {
  if (expires_unix === null) return `${plain(name)} is paired, with ${access_level} access.`
  if (expires_unix > nowUnix)
    return `${plain(name)} is paired, with ${access_level} access until ${date(expires_unix)}.`
  return [
    `${plain(name)} is paired, but its access has been over since ${date(expires_unix)}.`,
    'Approve it with --preset or --expires-in to give it another, or use "svc-host ctl access".',
  ].join('\n')
}

export function declarePending(program: Parser, verb: Verb, { out }: CommandContext): void {
  program
    .command('pending')
    .description('devices that knock and wait for approval')
    .action(() =>
      verb(async host => {
        const devices = await list(host)
        return { data: devices, text: pendingText(out, devices) }
      }),
    )
  program
    .command('approve')
    .description('pair a device that knocks; where it still waits, its stream begins')
    .argument('<id>', 'as "svc-host ctl pending" lists it', parseId)
    .option('--name <name>', 'what to call it (default what it calls itself)')
    .addOption(presetOption())
    .option('--expires-in <time>', 'how long its access lasts (default for good)', parseSecs)
    .action((id: number, { name, preset, expiresIn }: ApproveOptions) =>
      verb(async host => {
        const row = await rowOf(host, id)
        const request = host.request<Approved>('POST', `/native/pending/${id}/approve`, {
          name,
          grants: preset === undefined ? undefined : presetGrants[preset],
          expires_in_secs: expiresIn,
        })
        const approved = await request.catch((error: unknown) => {
          if (!(error instanceof ApiError) || error.status !== 409 || !row) throw error
          const how = `"svc-host ctl pair arm --fingerprint ${row.fingerprint}" shows one`
          throw new ApiError('refused', `${error.message}: ${how}`, { status: 409 })
        })
        return { data: approved, text: approvedText(approved, Date.now() / 1000) }
      }),
    )
  program
    .command('deny')
    .description('send a device that knocks away; it may knock again')
    .argument('<id>', 'as "svc-host ctl pending" lists it', parseId)
    .action((id: number) =>
      verb(async host => {
        const row = await rowOf(host, id)
        await host.request('POST', `/native/pending/${id}/deny`)
        return { data: null, text: `${plain(row?.name ?? `Device ${id}`)} was sent away.` }
      }),
    )
}
