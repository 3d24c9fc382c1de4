// Services: one provider per name, found by range, and handed to those who use them only while they are there.
import semver from 'semver'
import type { Token } from 'svc-host/sdk'

/** A service that somebody provides. */
export interface Offer {
  readonly owner: string
  readonly id: string
  readonly version: string
  readonly service: unknown
  /** How its methods are called from other realms. */
  readonly methods?: Token<unknown>['methods'] | undefined
}

/** A wish for a service that may come and go; `open` runs while it is there and returns the way back. */
export interface Use {
  readonly owner: string
  readonly id: string
  readonly range: string
  open(service: unknown): { readonly ready: Promise<void>; hide(): void; close(): Promise<void> }
}

interface Held extends Use {
  current?: { offer: Offer; opened: ReturnType<Use['open']> }
}

export interface Services {
  /** Throws when the name is taken, naming who has it. */
  offer<T>(owner: string, token: Token<T>, service: T): Offer
  withdraw(offer: Offer): void
  /** The offer of this name, unless its owner is not on. */
  find(id: string): Offer | undefined
  get<T>(token: Token<T>): T | undefined
  use(use: Use): () => Promise<void>
  /** Opens what has become possible; true when anything was opened. */
  settle(): Promise<boolean>
  /** Takes the routes off of whatever was opened on services of this owner. */
  hideUsesOf(owner: string): void
  /** Closes whatever was opened on these services. */
  closeUses(isLeaving: (offer: Offer) => boolean): Promise<void>
}

export function createServices(isOn: (owner: string) => boolean): Services {
  const offers = new Map<string, Offer>()
  const uses = new Set<Held>()

  const find = (id: string): Offer | undefined => {
    const offer = offers.get(id)
    return offer && isOn(offer.owner) ? offer : undefined
  }

  const close = async (use: Held): Promise<void> => {
    const opened = use.current?.opened
    use.current = undefined
    await opened?.close()
  }

  const openedOn = (isLeaving: (offer: Offer) => boolean): Held[] =>
    [...uses].filter(({ current }) => current && isLeaving(current.offer))

  return {
    offer(owner, token, service) {
      const first = offers.get(token.id)
      if (first) throw new Error(`service ${token.id} is already provided by ${first.owner}`)
      const { id, version, methods } = token
      const offer = { owner, id, version, service, methods }
      offers.set(token.id, offer)
      return offer
    },
    withdraw(offer) {
      if (offers.get(offer.id) === offer) offers.delete(offer.id)
    },
    find,
    get: <T>(token: Token<T>) => find(token.id)?.service as T | undefined,
    use(use) {
      const held: Held = { ...use }
      uses.add(held)
      return async () => {
        uses.delete(held)
        await close(held)
      }
    },
    async settle() {
      const ready = [...uses].flatMap(use => {
        const offer = use.current || !isOn(use.owner) ? undefined : find(use.id)
        return offer && semver.satisfies(offer.version, use.range) ? [{ use, offer }] : []
      })
      await Promise.all(
        ready.map(({ use, offer }) => {
          use.current = { offer, opened: use.open(offer.service) }
          return use.current.opened.ready
        }),
      )
      return ready.length > 0
    },
    hideUsesOf(owner) {
      for (const use of openedOn(offer => offer.owner === owner)) use.current?.opened.hide()
    },
    async closeUses(isLeaving) {
      await Promise.all(openedOn(isLeaving).map(close))
    },
  }
}
