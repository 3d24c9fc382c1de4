// `ctl clients`, `access`, `rename` and `unpair`: the paired devices of both planes.
import { createInterface } from 'node:readline/promises'
import { Option, type Command as Parser } from 'commander'
import { type ApiClient, ApiError } from 'svc-host/client'
import type { CommandContext } from 'svc-host/sdk'
import { presetArgument, presetGrants } from './access.ts'
import { type Cell, orElse, plain, table, UsageError, type Verb } from './api.ts'
import { count, date, parseSecs } from './duration.ts'

interface NativeDevice {
  name: string
  fingerprint: string
  access_level: string
  expires_unix: number | null
}
interface CompatDevice {
  fingerprint: string
  label: string | null
  not_after_unix: number | null
}
interface Rosters {
  native: NativeDevice[]
  compat: CompatDevice[]
}
interface Device {
  plane: 'native' | 'compat'
  name: string
  fingerprint: string
}

const rosters = async (host: ApiClient): Promise<Rosters> => {
  const [native, compat] = await Promise.all([
    orElse(host.request<NativeDevice[]>('GET', '/native/clients'), []),
    orElse(host.request<CompatDevice[]>('GET', '/clients'), []),
  ])
  return { native, compat }
}

/** The one device whose fingerprint is `text` or begins with it. */
export function pickDevice({ native, compat }: Rosters, text: string): Device {
  const start = text.trim().toLowerCase().replaceAll(':', '')
  if (!/^[0-9a-f]{4,64}$/.test(start))
    throw new UsageError(
      `"${plain(text)}" is no fingerprint: write all of it, or at least its first 4 characters`,
    )
  const found: Device[] = [
    ...native.map(({ name, fingerprint }) => ({ plane: 'native' as const, name, fingerprint })),
    ...compat.map(({ label, fingerprint }) => ({ plane: 'compat' as const, name: label ?? '', fingerprint })),
  ].filter(({ fingerprint }) => fingerprint.startsWith(start))
  if (found.length === 1) return found[0]!
  const why = found.length ? `${found.length} paired devices have` : 'no paired device has'
  throw new ApiError(
    'refused',
    `${why} a fingerprint that begins with ${start}; "svc-host ctl clients" lists them`,
  )
}

const pathOf = ({ plane, fingerprint }: Device): string =>
  plane === 'native' ? `/native/clients/${fingerprint}` : `/clients/${fingerprint}`

const nameOf = ({ name, fingerprint }: Device): string => plain(name) || fingerprint.slice(0, 16)

export function rosterText(out: NodeJS.WritableStream, { native, compat }: Rosters, nowUnix: number): string {
  if (native.length + compat.length === 0)
    return 'No device is paired; "svc-host ctl pair arm" shows a PIN to pair one with.'
  const end = (unix: number | null): Cell => {
    if (unix === null) return 'never'
    return unix <= nowUnix ? { text: `${date(unix)}, over`, colour: 'yellow' } : date(unix)
  }
  return table(
    out,
    ['NAME', 'FINGERPRINT', 'PLANE', 'ACCESS', 'ENDS'],
    [
      ...native.map(d => [d.name, d.fingerprint.slice(0, 16), 'native', d.access_level, end(d.expires_unix)]),
      ...compat.map(d => [d.label ?? '-', d.fingerprint.slice(0, 16), 'compat', '-', end(d.not_after_unix)]),
    ],
  )
}

async function confirm(context: CommandContext, question: string): Promise<boolean> {
  if (!process.stdin.isTTY)
    throw new UsageError('unpair --all asks before it acts; add --yes where nobody can answer')
  const lines = createInterface({ input: process.stdin, output: context.err })
  try {
    return /^y(es)?$/i.test((await lines.question(`${question} [y/N] `, { signal: context.signal })).trim())
  } finally {
    lines.close()
  }
}

async function unpairAll(host: ApiClient): Promise<number> {
  const none = { unpaired: 0 }
  const native = await orElse(host.request<typeof none>('DELETE', '/native/clients'), none)
  const compat = await orElse(host.request<typeof none>('DELETE', '/clients'), none)
  return native.unpaired + compat.unpaired
}

export function declareDevices(program: Parser, verb: Verb, context: CommandContext): void {
  const fingerprint = 'its fingerprint, or the first characters of it'
  program
    .command('clients')
    .description('the paired devices')
    .action(() =>
      verb(async host => {
        const all = await rosters(host)
        return { data: all, text: rosterText(context.out, all, Date.now() / 1000) }
      }),
    )
  program
    .command('access')
    .description('change what a paired device may do')
    .argument('<fingerprint>', fingerprint)
    .addArgument(presetArgument())
    .addOption(
      new Option('--expires-in <time>', 'how long that lasts from now on (default as it was)').argParser(
        parseSecs,
      ),
    )
    .addOption(new Option('--for-good', 'it never ends').conflicts('expiresIn'))
    .action((text: string, level: string, options: { expiresIn?: number; forGood?: boolean }) =>
      verb(async host => {
        const device = pickDevice(await rosters(host), text)
        if (device.plane === 'compat')
          throw new ApiError('refused', 'access levels are for native devices only')
        const data = await host.request('PATCH', pathOf(device), {
          grants: presetGrants[level],
          expires_in_secs: options.expiresIn,
          clear_expiry: options.forGood,
        })
        return { data, text: `${nameOf(device)} now has ${level} access.` }
      }),
    )
  program
    .command('rename')
    .description('give a paired device another name')
    .argument('<fingerprint>', fingerprint)
    .argument('<name>')
    .action((text: string, name: string) =>
      verb(async host => {
        const device = pickDevice(await rosters(host), text)
        const data = await host.request(
          'PATCH',
          pathOf(device),
          device.plane === 'native' ? { name } : { label: name },
        )
        return { data, text: `${nameOf(device)} is now called ${plain(name)}.` }
      }),
    )
  program
    .command('unpair')
    .description('take the access of one paired device, or of all, away; live sessions of theirs end')
    .argument('[fingerprint]', fingerprint)
    .option('--all', 'every device of both planes')
    .option('--yes', 'do not ask')
    .action((text: string | undefined, options: { all?: boolean; yes?: boolean }) => {
      if ((text === undefined) === !options.all) throw new UsageError('name one device, or --all of them')
      return verb(async host => {
        if (text !== undefined) {
          const device = pickDevice(await rosters(host), text)
          await host.request('DELETE', pathOf(device))
          return { data: { unpaired: 1 }, text: `${nameOf(device)} is no longer paired.` }
        }
        if (!options.yes && !(await confirm(context, 'Unpair every device?')))
          return { data: { unpaired: 0 }, text: 'Nothing was changed.' }
        const unpaired = await unpairAll(host)
        return { data: { unpaired }, text: `${count(unpaired, 'device')} unpaired.` }
      })
    })
}
