// Events of pairing, made of the roster's and the queue's news.
import type { Context, Log } from 'svc-host/sdk'
import {
  accessChanged,
  accessExpired,
  accessGranted,
  pairingCompleted,
  pairingDenied,
  pairingPending,
} from './api.ts'
import { effectiveGrants } from './grants.ts'
import type { QueueNews } from './queue.ts'
import type { RosterNews } from './roster.ts'
import type { StoredClient } from './schema.ts'

type Emit = Context['emit']

const device = ({ name, fingerprint }: Pick<StoredClient, 'name' | 'fingerprint'>) => ({
  name,
  fingerprint,
  plane: 'native' as const,
})
const access = (client: StoredClient) => ({
  device: device(client),
  grants: effectiveGrants(client.grants),
  ...(client.expires_unix === null ? {} : { expires_unix: client.expires_unix }),
})

export const rosterNews = (emit: Emit): RosterNews => ({
  completed: client => emit(pairingCompleted, { device: device(client) }),
  granted: client => emit(accessGranted, access(client)),
  changed: client => emit(accessChanged, access(client)),
  expired: client => emit(accessExpired, { device: device(client) }),
})

export const queueNews = (emit: Emit, log: Pick<Log, 'info'>): QueueNews => ({
  pending: knocking => {
    const { id, name, fingerprint, source } = knocking
    const how = source === 'lan' ? `approve ${id}` : `pair arm --fingerprint ${fingerprint}`
    log.info(`"${name}" (${fingerprint.slice(0, 16)}) knocks; "svc-host ctl ${how}" lets it in`)
    emit(pairingPending, { device: device(knocking) })
  },
  denied: refused => emit(pairingDenied, { device: device(refused) }),
})
