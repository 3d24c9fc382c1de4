// Gets a connection on which a stream can be started: pairs first where that is due.
import { hostname } from 'node:os'
import { addressOf, type Connection, connect, type Identity, StreamError } from 'svc-host/stream'
import type { Target } from './target.ts'

export interface ReachOptions {
  readonly target: Target
  readonly identity: Identity
  readonly pin?: string | undefined
  /** The host's fingerprint, where the user has it from elsewhere. */
  readonly fingerprint?: string | undefined
  readonly say: (line: string) => void
  readonly signal: AbortSignal
}

const options = ({ target, identity, fingerprint, signal }: ReachOptions) => ({
  ...target,
  identity,
  name: hostname().slice(0, 64) || 'svc-viewer',
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

/** Connects to a known host; one that is new here, or has forgotten this device, needs the PIN. */
export const reach = async (how: ReachOptions): Promise<Connection> => {
  const { target, identity, pin } = how
  const isKnown =
    how.fingerprint !== undefined || identity.hosts.byAddress(addressOf(target.host, target.port))
  if (!isKnown && pin) return pair(how, pin)
  const connection = await connect({ ...options(how), intent: 'stream' }).catch((error: unknown) => {
    if (pin && error instanceof StreamError && error.code === 'not-paired') return undefined
    throw error
  })
  if (connection?.isPaired || (connection && !pin)) return connection
  connection?.close()
  return pair(how, pin!)
}
