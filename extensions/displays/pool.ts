// The pool: hands displays out, keeps them for a client that comes back, and takes down those that nobody wants.
import type { Mode } from 'svc-host/api/media'
import type { BackendDisplay, DisplayBackend, DisplayLease, DisplayPool, DisplayRequest } from './api.ts'
import { type BackendChoice, chooseBackend } from './choice.ts'
import { type Clock, within } from './clock.ts'
import { createPooledDisplay, type PooledDisplay } from './display.ts'
import { createIdentitySlots } from './identity.ts'
import { createLeases } from './lease.ts'
import { isGone, isKept, type LifeInput } from './lifecycle.ts'
import { isSameMode } from './mode.ts'
import { type DisplayPolicy, effectiveTopology } from './policy.ts'
import type { Rooms } from './rooms.ts'

/** How long a kept display may take to answer before it counts as dead. */
const aliveLimitMs = 1000

export interface PoolOptions {
  readonly choice: BackendChoice
  /** The policy in force, asked for at each acquire and release. */
  readonly policy: () => DisplayPolicy
  readonly clock: Clock
  readonly rooms: Rooms
  /** A virtual display was made. */
  onCreated(backend: string, mode: Mode): void
  /** Kept displays were retired by the operator or by their deadline. */
  onReleased(count: number): void
  /** Something went wrong that no caller waits for. */
  onTrouble(message: string, error: unknown): void
}

export interface Pool extends DisplayPool {
  backends(): readonly DisplayBackend[]
  /** Owned displays that are active or kept, in the order of acquire. */
  displays(): readonly PooledDisplay[]
  /** Releases one kept display, or all of them; the number released. */
  releaseKept(slot?: number): Promise<number | 'not-found' | 'in-use'>
  /** Takes everything down; nothing can be acquired any more. */
  close(): Promise<void>
}

export function createPool(options: PoolOptions): Pool {
  const { policy, clock } = options
  const backends = new Set<DisplayBackend>()
  const entries = new Set<PooledDisplay>()
  const making = new Map<DisplayBackend, Set<Promise<unknown>>>()
  const closing = new Set<Promise<void>>()
  const identities = createIdentitySlots()
  let lastSlot = 0
  let isClosed = false
  let turn: Promise<unknown> = Promise.resolve()
  let callOff = (): void => {}

  const listed = (): PooledDisplay[] =>
    [...entries].filter(({ backend, life }) => backend.owned && life.state !== 'idle')

  /** Takes a display down whose life is over; resolves when nothing is left of it. */
  const remove = (entry: PooledDisplay): Promise<void> => {
    entries.delete(entry)
    if (entry.life.state === 'failed') entry.lost.resolve()
    const ended = Promise.resolve(entry.made?.close())
      .catch(error => options.onTrouble(`display ${entry.slot} could not be taken down`, error))
      .then(() => void closing.delete(ended))
    closing.add(ended)
    return ended
  }

  const go = (entry: PooledDisplay, input: LifeInput): Promise<void> => {
    const isNew = entry.go(input)
    const ended = isNew && isGone(entry.life) ? remove(entry) : Promise.resolve()
    if (isNew) watchDeadlines()
    return ended
  }

  const watchDeadlines = (): void => {
    callOff()
    const deadlines = [...entries].flatMap(({ life }) =>
      life.state === 'lingering' ? [life.deadlineMs] : [],
    )
    if (deadlines.length === 0) return
    callOff = clock.after(Math.max(0, Math.min(...deadlines) - clock.nowMs()), () => {
      void retire(listed(), { type: 'time', nowMs: clock.nowMs() }).then(watchDeadlines)
    })
  }

  /** Gives an input to kept displays, and tells how many it ended. */
  const retire = async (kept: readonly PooledDisplay[], input: LifeInput): Promise<number> => {
    const ended = kept.filter(({ life }) => isKept(life)).map(entry => ({ entry, ended: go(entry, input) }))
    const gone = ended.filter(({ entry }) => isGone(entry.life))
    await Promise.all(gone.map(({ ended }) => ended))
    if (gone.length) options.onReleased(gone.length)
    return gone.length
  }

  const isAlive = (made: BackendDisplay): Promise<boolean> =>
    within(
      clock,
      aliveLimitMs,
      made.alive().catch(() => false),
    )

  /** A display that already is there and that this request may have, with a reference to it taken. */
  const takeExisting = async (
    backend: DisplayBackend,
    request: DisplayRequest,
  ): Promise<PooledDisplay | undefined> => {
    const joined = await leases.settle(backend)
    if (joined) return joined
    // An address is no proof of who is there: only a fingerprint gets a kept desktop back.
    if (request.fingerprint === null) return undefined
    const own = listed().filter(
      ({ life, request: { fingerprint } }) => isKept(life) && fingerprint === request.fingerprint,
    )
    const kept = own.find(
      entry =>
        entry.backend === backend &&
        isSameMode(entry.mode, request.mode) &&
        entry.epoch === (backend.epoch?.() ?? 0),
    )
    // Claimed before the first wait, so that nobody else takes it and no deadline passes.
    kept?.go({ type: 'acquire' })
    watchDeadlines()
    for (const entry of own) {
      if (entry !== kept && entry.life.state === 'lingering') void go(entry, { type: 'preempt' })
    }
    if (!kept || (await isAlive(kept.made!))) return kept && !isGone(kept.life) ? kept : undefined
    void go(kept, { type: 'fail' })
    return undefined
  }

  const leases = createLeases({ policy, clock, leave: go })

  /** Makes room below the cap; a lingering display gives way to a session, the one that would go first. */
  const makeRoom = (): void => {
    const { maxDisplays } = policy()
    const counted = [...entries].filter(({ backend }) => backend.owned)
    if (counted.length < maxDisplays) return
    const [first] = counted
      .flatMap(entry => (entry.life.state === 'lingering' ? [{ entry, at: entry.life.deadlineMs }] : []))
      .sort((a, b) => a.at - b.at)
    if (!first) {
      const pinned = counted.some(({ life }) => life.state === 'pinned') ? ', or release a kept one' : ''
      throw new Error(
        `all ${maxDisplays} virtual displays that the policy allows are in use; end a session${pinned}`,
      )
    }
    void go(first.entry, { type: 'preempt' })
  }

  const make = async (backend: DisplayBackend, request: DisplayRequest): Promise<PooledDisplay> => {
    if (backend.owned) makeRoom()
    const entry = createPooledDisplay({
      slot: ++lastSlot,
      backend,
      request,
      identitySlot: identities.slotOf(request.fingerprint, request.mode, policy().identity),
      topology: effectiveTopology(policy().topology, options.choice.compositor !== undefined),
    })
    entries.add(entry)
    try {
      entry.made = await backend.create({
        ...request,
        slot: entry.slot,
        prepare: options.rooms.prepare(entry.slot),
      })
    } catch (error) {
      entries.delete(entry)
      throw error
    }
    if (!entry.go({ type: 'acquire' })) {
      await remove(entry)
      throw new Error(`the display backend ${backend.id} left while it made a display; connect again`)
    }
    void entry.made.lost.then(() => go(entry, { type: 'fail' }))
    if (backend.owned) options.onCreated(backend.id, entry.mode)
    return entry
  }

  const acquire = async (request: DisplayRequest): Promise<DisplayLease> => {
    if (isClosed) throw new Error('the displays are being shut down; connect again')
    const backend = await chooseBackend([...backends], options.choice)
    const existing = backend.owned ? await takeExisting(backend, request) : undefined
    if (existing) return leases.open(existing)
    if (isClosed || !backends.has(backend)) throw new Error(`the display backend ${backend.id} has just left`)
    const made = make(backend, request)
    const ofBackend = making.get(backend) ?? new Set()
    making.set(backend, ofBackend.add(made))
    return leases.open(await made.finally(() => ofBackend.delete(made)))
  }

  return {
    acquire(request) {
      if (policy().modeConflict === 'separate') return acquire(request)
      // One after the other, so that whoever comes second finds the first one's display.
      const run = turn.then(() => acquire(request))
      turn = run.catch(() => {})
      return run
    },
    backends: () => [...backends],
    register(backend) {
      if ([...backends].some(({ id }) => id === backend.id)) {
        throw new Error(`a display backend ${backend.id} is already registered; only one can have that name`)
      }
      backends.add(backend)
      return async () => {
        backends.delete(backend)
        const own = [...entries].filter(entry => entry.backend === backend)
        await Promise.all(own.map(entry => go(entry, { type: 'fail' })))
        await Promise.allSettled(making.get(backend) ?? [])
      }
    },
    rooms: options.rooms.list,
    kept: async () => listed().filter(({ life }) => isKept(life)).length,
    displays: listed,
    async releaseKept(slot) {
      if (slot === undefined) return retire(listed(), { type: 'release' })
      const entry = listed().find(entry => entry.slot === slot)
      if (!entry) return 'not-found'
      return isKept(entry.life) ? retire([entry], { type: 'release' }) : 'in-use'
    },
    async close() {
      isClosed = true
      callOff()
      await Promise.all([...entries].map(entry => go(entry, { type: 'fail' })))
      callOff()
      await Promise.all(closing)
    },
  }
}
