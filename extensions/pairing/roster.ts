// The native roster: devices, their access and its end, kept in one file whose writes are serialised.
import type { DocumentFile } from 'svc-host/sdk'
import type { PairedDevice, PairingRoster } from './api.ts'
import { deviceName, sanitizeName } from './device-name.ts'
import { accessLevel, effectiveGrants } from './grants.ts'
import type { RosterFile, StoredClient } from './schema.ts'
import type { Access } from './window.ts'

/** Tells the outside what became of a device. */
export interface RosterNews {
  completed(client: StoredClient): void
  granted(client: StoredClient): void
  changed(client: StoredClient): void
  expired(client: StoredClient): void
}

/** What an operator may change later; undefined keeps what is stored. */
export interface ClientEdit {
  readonly name?: string | undefined
  readonly grants?: number | undefined
  /** null: permanent; a number: from now on, 0 ends it now. */
  readonly expiresInSecs?: number | null | undefined
}

export interface Roster extends PairingRoster {
  list(): readonly StoredClient[]
  /**
   * Pairs a device. A repeat keeps name and access unless an access was chosen. `given`: a name by the operator, which
   * goes before the stored one and the device's own.
   */
  pair(fingerprint: string, name: string, access: Access, given?: string): Promise<StoredClient>
  /** Tells every device that was paired or edited, before the news of it. Returns the way to stop. */
  follow(listener: (client: StoredClient, what: 'paired' | 'edited') => void): () => void
  /** Undefined when there is no such device. */
  edit(fingerprint: string, edit: ClientEdit): Promise<StoredClient | undefined>
  /** Forgets one device, or all in one write; resolves to how many. */
  unpair(fingerprint: string | 'all'): Promise<number>
  /** Ends watched devices whose access is over. */
  expire(): void
}

type Listener = Parameters<PairingRoster['watch']>[1]

/** `unixSeconds` is the host's clock, by which accesses end. */
export const createRoster = (
  document: DocumentFile<RosterFile>,
  news: RosterNews,
  unixSeconds: () => number = () => Math.floor(Date.now() / 1000),
): Roster => {
  const watchers = new Map<string, Set<Listener>>()
  const followers = new Set<Parameters<Roster['follow']>[0]>()
  let queue: Promise<unknown> = Promise.resolve()

  const stored = (fingerprint: string): StoredClient | undefined =>
    document.value.clients.find(client => client.fingerprint === fingerprint)
  const isOver = (client: StoredClient): boolean =>
    client.expires_unix !== null && client.expires_unix <= unixSeconds()
  const asDevice = (client: StoredClient): PairedDevice => ({
    name: client.name,
    fingerprint: client.fingerprint,
    grants: effectiveGrants(client.grants),
    level: accessLevel(client.grants),
  })

  const tell = (fingerprint: string, what: Parameters<Listener>[0]): void => {
    for (const listener of [...(watchers.get(fingerprint) ?? [])]) listener(what)
  }

  /** One change after the other; `change` sees what the one before left. */
  const update = <T>(change: () => { clients: StoredClient[]; result: T } | T): Promise<T> => {
    const run = queue.then(async () => {
      const next = change()
      if (typeof next !== 'object' || next === null || !('clients' in next)) return next as T
      await document.write({ ...document.value, clients: next.clients })
      return next.result
    })
    queue = run.catch(() => {})
    return run
  }

  const put = (client: StoredClient): { clients: StoredClient[]; result: StoredClient } => {
    const rest = document.value.clients
    const known = rest.some(other => other.fingerprint === client.fingerprint)
    const clients = known
      ? rest.map(o => (o.fingerprint === client.fingerprint ? client : o))
      : [...rest, client]
    return { clients, result: client }
  }

  const expireOne = (fingerprint: string): boolean => {
    const client = stored(fingerprint)
    if (!client || !isOver(client) || !watchers.has(fingerprint)) return false
    news.expired(client)
    tell(fingerprint, 'expired')
    return true
  }

  /** Those who watch it hear of a change, or that its access is over. */
  const tellChange = (client: StoredClient): void => {
    if (!expireOne(client.fingerprint) && !isOver(client)) tell(client.fingerprint, asDevice(client))
  }

  return {
    isOpen: false,
    list: () => document.value.clients,

    find: fingerprint => {
      const client = stored(fingerprint.toLowerCase())
      return client && !isOver(client) ? asDevice(client) : undefined
    },

    isExpired: fingerprint => {
      const client = stored(fingerprint.toLowerCase())
      return client !== undefined && isOver(client)
    },

    watch: (fingerprint, listener) => {
      // A function of its own for each watch: the same listener may watch twice and stop once.
      const own: Listener = what => listener(what)
      const all = watchers.get(fingerprint) ?? new Set()
      watchers.set(fingerprint, all.add(own))
      return () => {
        all.delete(own)
        if (all.size === 0 && watchers.get(fingerprint) === all) watchers.delete(fingerprint)
      }
    },

    follow: listener => {
      const own: typeof listener = (client, what) => listener(client, what)
      followers.add(own)
      return () => void followers.delete(own)
    },

    pair: async (fingerprint, name, access, given) => {
      const chosen = access.grants !== null || access.expiresInSecs !== null
      const client = await update(() => {
        const before = stored(fingerprint)
        const now = unixSeconds()
        const after = access.expiresInSecs === null ? null : now + access.expiresInSecs
        return put({
          name: sanitizeName(given ?? '') || (before?.name ?? deviceName(name, fingerprint)),
          fingerprint,
          grants: chosen || !before ? (access.grants ?? 0x7f) : before.grants,
          expires_unix: chosen || !before ? after : before.expires_unix,
          granted_unix: chosen || !before ? now : before.granted_unix,
        })
      })
      for (const follower of followers) follower(client, 'paired')
      news.completed(client)
      if (chosen) news.granted(client)
      tellChange(client)
      return client
    },

    edit: async (fingerprint, edit) => {
      const isAccess = edit.grants !== undefined || edit.expiresInSecs !== undefined
      const client = await update(() => {
        const before = stored(fingerprint)
        if (!before) return undefined
        const now = unixSeconds()
        return put({
          name: edit.name === undefined ? before.name : deviceName(edit.name, fingerprint),
          fingerprint,
          grants: edit.grants ?? before.grants,
          expires_unix:
            edit.expiresInSecs === undefined
              ? before.expires_unix
              : edit.expiresInSecs === null
                ? null
                : now + edit.expiresInSecs,
          granted_unix: isAccess ? now : before.granted_unix,
        })
      })
      if (!client) return client
      for (const follower of followers) follower(client, 'edited')
      if (isAccess) news.changed(client)
      tellChange(client)
      return client
    },

    unpair: async fingerprint => {
      const gone = await update(() => {
        const leaves = (client: StoredClient) => fingerprint === 'all' || client.fingerprint === fingerprint
        const result = document.value.clients.filter(leaves)
        return result.length === 0
          ? result
          : { clients: document.value.clients.filter(c => !leaves(c)), result }
      })
      for (const client of gone) tell(client.fingerprint, 'unpaired')
      return gone.length
    },

    expire: () => {
      for (const fingerprint of [...watchers.keys()]) expireOne(fingerprint)
    },
  }
}
