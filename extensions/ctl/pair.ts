// `ctl pair status|arm|disarm`: the PIN window.
import type { Command as Parser } from 'commander'
import type { CommandContext } from 'svc-host/sdk'
import { presetGrants, presetOption } from './access.ts'
import { type Answer, orElse, paint, plain, type Verb } from './api.ts'
import { clock, count, parseSecs } from './duration.ts'
import { completeFingerprint } from './pending.ts'
import { pinBanner } from './pin-banner.ts'

interface Window {
  enabled: boolean
  armed: boolean
  pin: string | null
  expires_in_secs: number | null
  paired_clients: number
}
interface CompatPairing {
  pin_pending: boolean
  pending: { uniqueid: string; fingerprint: string; peer_ip: string }[]
}
/** Where a client finds the native plane. */
interface Reach {
  local_ip: string
  ports?: { native?: number }
}
/** What a client takes when no port is named. */
const usualPort = 9777
interface ArmOptions {
  ttl?: number
  expiresIn?: number
  preset?: string
  fingerprint?: string
}

/** The PIN as `out` can show it: big on a terminal, one plain line otherwise. */
function pinText(out: NodeJS.WritableStream, pin: string): string {
  if ((out as Partial<NodeJS.WriteStream>).isTTY !== true) return `PIN ${pin}`
  const { LC_ALL, LC_CTYPE, LANG } = process.env
  const ink = /utf-?8/i.test(LC_ALL || LC_CTYPE || LANG || '') ? '█' : '#'
  return `\n${paint(out, 'bold', pinBanner(pin, ink))}\n`
}

export function windowText(out: NodeJS.WritableStream, window: Window, address: string): string {
  if (!window.enabled) return 'Pairing is not possible: the native plane is not running.'
  if (!window.armed || window.pin === null)
    return `The pairing window is closed. "svc-host ctl pair arm" opens it and shows a PIN.\n${count(window.paired_clients, 'device')} paired.`
  const left =
    window.expires_in_secs === null
      ? 'now; the window stays open'
      : `within ${clock(window.expires_in_secs)} minutes`
  return [
    pinText(out, window.pin),
    `Type this PIN on the device, ${left}. It is good for one try, right or wrong.`,
    `With the example viewer: npm run -s viewer -- stream ${address} --pin ${window.pin}`,
    '"svc-host ctl pair disarm" closes the window.',
  ].join('\n')
}

export function declarePair(program: Parser, verb: Verb, { out }: CommandContext): void {
  const pair = program.command('pair').description('pair a new device by PIN')
  const answerWindow = async (
    window: Window,
    host: { request: <T>(m: string, p: string) => Promise<T> },
  ): Promise<string> => {
    const { local_ip, ports } = await orElse<Reach>(host.request('GET', '/host'), { local_ip: '127.0.0.1' })
    const port = ports?.native ?? usualPort
    return windowText(out, window, plain(local_ip) + (port === usualPort ? '' : `:${port}`))
  }
  pair
    .command('status')
    .description('whether a window is open, and its PIN')
    .action(() =>
      verb(async (host): Promise<Answer> => {
        const [native, compat, knocking] = await Promise.all([
          host.request<Window>('GET', '/native/pair'),
          orElse<CompatPairing | null>(host.request<CompatPairing>('GET', '/pair'), null),
          orElse<unknown[]>(host.request<unknown[]>('GET', '/native/pending'), []),
        ])
        const waiting = (compat?.pending ?? []).map(
          ({ uniqueid, peer_ip }) =>
            `A compatible-plane device at ${plain(peer_ip)} waits for its PIN (${plain(uniqueid)}).`,
        )
        if (knocking.length > 0)
          waiting.push(
            `Waiting for approval: ${count(knocking.length, 'device')}; see "svc-host ctl pending".`,
          )
        return { data: { native, compat }, text: [await answerWindow(native, host), ...waiting].join('\n') }
      }),
    )
  pair
    .command('arm')
    .description('open the window and show a PIN')
    .option('--ttl <time>', 'how long the window stays open: 15 s to 10 min (default 120 s)', parseSecs)
    .option('--expires-in <time>', "how long the device's access lasts (default for good)", parseSecs)
    .addOption(presetOption())
    .option(
      '--fingerprint <fp>',
      'only the device with this certificate may use the PIN; a beginning is enough where the device knocks',
    )
    .action((options: ArmOptions) =>
      verb(async host => {
        const window = await host.request<Window>('POST', '/native/pair/arm', {
          ttl_secs: options.ttl,
          expires_in_secs: options.expiresIn,
          fingerprint: options.fingerprint && (await completeFingerprint(host, options.fingerprint)),
          grants: options.preset === undefined ? undefined : presetGrants[options.preset],
        })
        return { data: window, text: await answerWindow(window, host) }
      }),
    )
  pair
    .command('disarm')
    .description('close the window')
    .action(() =>
      verb(async host => {
        await host.request('DELETE', '/native/pair')
        return { data: null, text: 'The pairing window is closed.' }
      }),
    )
}
