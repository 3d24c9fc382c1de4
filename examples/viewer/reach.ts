// Gets a connection on which a stream can be started: pairs first where that is due, or knocks.
import { hostname } from 'node:os'
import { addressOf, type Connection, connect, type Identity, StreamError } from 'svc-host/stream'
import type { Target } from './target.ts'

export interface ReachOptions {
  readonly target: Target
  readonly identity: Identity
  readonly pin?: string | undefined
  /** The host's fingerprint, where the user has it from elsewhere. */
  readonly fingerprint?: string | undefined
  /** Where the host does not know this device: waits for its operator instead of giving up. */
  readonly wait?: boolean | undefined
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}

/** What the host's operator reads. */
const deviceName = hostname().slice(0, 64) || 'svc-viewer'

const options = ({ target, identity, fingerprint, signal }: ReachOptions) => ({
  ...target,
  identity,
  name: deviceName,
  signal,
  ...(fingerprint && { expectFingerprint: fingerprint }),
})

/** Pairs by PIN; the connection can be used to stream. */
export const pair = async (reach: ReachOptions, pin: string): Promise<Connection> => {
  const connection = await connect({ ...options(reach), intent: 'pair' })
  await connection.pair(pin, reach.signal)
  reach.say(`paired with ${connection.host.name} (${connection.fingerprint})`)
  return connection
}

/** What to do on the host while it lets this device wait, and how to know that both are who they seem to be. */
export const waitingText = (
  connection: Connection,
  identity: Identity,
  limitMs: number | undefined,
): string => {
  const { host, fingerprint } = connection
  const secs = limitMs === undefined ? undefined : Math.round(limitMs / 1000)
  const most =
    secs === undefined
      ? ''
      : ` at most ${Math.floor(secs / 60)}:${String(secs % 60).padStart(2, '0')} minutes`
  return [
    `${host.name} does not know this device, or its access is over. Waiting${most} for its operator to approve it:`,
    `  this device   "${deviceName}", fingerprint ${identity.fingerprint.slice(0, 16)}`,
    `  the host      fingerprint ${fingerprint.slice(0, 16)}`,
    'On the host, "svc-host ctl pending" lists who waits, and "svc-host ctl approve ID" lets this device in.',
  ].join('\n')
}

/** Connects to a known host; one that is new here, or has forgotten this device, needs the PIN or its operator. */
export const reach = async (how: ReachOptions): Promise<Connection> => {
  const { target, identity, pin } = how
  const isKnown =
    how.fingerprint !== undefined || identity.hosts.byAddress(addressOf(target.host, target.port))
  if (!isKnown && pin) return pair(how, pin)
  const knock = how.wait === true && !pin
  const connection = await connect({ ...options(how), intent: 'stream', knock }).catch((error: unknown) => {
    if (pin && error instanceof StreamError && error.code === 'not-paired') return undefined
    throw error
  })
  if (connection?.isPaired || (connection && !pin)) return connection
  connection?.close()
  return pair(how, pin!)
}
