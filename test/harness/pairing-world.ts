// Pairing among operators, devices, a slow disk and restarts in any order: nobody gets in whom nobody let in, and no
// knock is lost. For the tests and for the long sweep.
import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import fc from 'fast-check'
import type { KnockAnswer, PairingExchange } from '../../extensions/pairing/api.ts'
import { generator, lvCat, readShare, sessionKey } from '../../extensions/pairing/cpace.ts'
import { listedMs, parkedMs } from '../../extensions/pairing/pending.ts'
import { createQueue } from '../../extensions/pairing/queue.ts'
import { createRoster } from '../../extensions/pairing/roster.ts'
import { RosterFile } from '../../extensions/pairing/schema.ts'
import { createPairing } from '../../extensions/pairing/service.ts'
import { createServing } from '../../extensions/pairing/serving.ts'
import { ttlSecs } from '../../extensions/pairing/window.ts'

const devices = ['a', 'b', 'c', 'd', 'e', 'f'].map(letter => letter.repeat(64))
const addresses = ['192.168.0.2', '192.168.0.3', '8.8.8.8']
const hostFingerprint = '9'.repeat(64)
const sid = Buffer.alloc(32, 3)
const none = new Uint8Array(0)
const hex = (text: string): Buffer => Buffer.from(text, 'hex')

/** The client's share and its tag for a PIN. */
const prove = (fingerprint: string, pin: string) => {
  const ci = lvCat(Buffer.from('svc/1 pair'), hex(fingerprint), hex(hostFingerprint))
  const share = generator({ prs: Buffer.from(pin), ci, sid })
    .multiply(77n)
    .toBytes()
  const tag = (yb: Uint8Array): Uint8Array => {
    const shared = readShare(yb)!.multiply(77n).toBytes()
    const isk = sessionKey(sid, shared, { share, ad: none }, { share: yb, ad: none })
    const key = createHash('sha512').update('CPaceMac').update(sid).update(isk).digest()
    return createHmac('sha512', key).update(lvCat(share, none)).digest().subarray(0, 32)
  }
  return { share, tag }
}

/** A knock and what became of it. */
interface Visit {
  readonly fingerprint: string
  readonly id: number
  readonly atStep: number
  readonly atMs: number
  answer: KnockAnswer | 'waits' | 'left'
  leave(): void
}
/** Somebody who may do so lets a device in; it counts from the call until the device is unpaired. */
interface Permit {
  readonly fingerprint: string
  /** When it was done, as a number of steps. */
  done: number | undefined
}

/** The host's pairing on a disk that answers when it is told to, and what an onlooker knows of it. */
const createWorld = () => {
  let step = 0
  let nowMs = 0
  let jumpSecs = 0
  let ids = 0
  /** One device is paired, and one was. */
  let saved: unknown = {
    clients: [
      { name: 'paired', fingerprint: devices[0] },
      { name: 'over', fingerprint: devices[1], expires_unix: 1 },
    ],
  }
  let permits: Permit[] = devices.slice(0, 2).map(fingerprint => ({ fingerprint, done: 0 }))
  let visits: Visit[] = []
  /** Of each device: when it has knocked last, as a number of steps. */
  const knocked = new Map<string, number>()
  const wrong: unknown[] = []
  /** For what is found out while nobody waits for it. */
  const note = (look: () => void): void => {
    try {
      look()
    } catch (error) {
      wrong.push(error)
    }
  }
  const denied = new Set<number>()
  let isServed = false
  /** Calls that have not come back: whose record they may change, or `all`; `pairs`: what they are to do. */
  const calls = new Set<{ readonly whose: string; readonly pairs: boolean; readonly id?: number }>()
  const approved = new Set<number>()
  /** Ids that have left the list with the plane, by another pairing, or by an edit that gave access. */
  const left = new Set<number>()
  const streams = new Map<string, () => void>()
  let exchange:
    | { host: PairingExchange; fingerprint: string; tag(share: Uint8Array): Uint8Array; isRight: boolean }
    | undefined
  let armed: { pin: string; bound: string | null; untilMs: number } | undefined
  let proving: { fingerprint: string; untilMs: number } | undefined

  const unixSecs = (): number => 1_000_000 + Math.floor(nowMs / 1000) + jumpSecs
  const boot = () => {
    /** What waits for the disk: to be written, or to fail. */
    const writes: ((isWell: boolean) => void)[] = []
    const document = {
      value: RosterFile.parse(saved),
      exists: true,
      write: (next: RosterFile) =>
        new Promise<void>((resolve, reject) => {
          writes.push(isWell => {
            if (isWell) {
              saved = JSON.parse(JSON.stringify(next))
              document.value = next
              resolve()
            } else reject(new Error('disk full'))
          })
        }),
    }
    const quiet = () => {}
    const roster = createRoster(
      document,
      { completed: quiet, granted: quiet, changed: quiet, expired: quiet },
      unixSecs,
    )
    const serving = createServing()
    const pairing = createPairing(roster, serving, quiet, () => nowMs)
    const news = { pending: quiet, denied: quiet }
    const queue = createQueue({ roster, serving, news, newId: () => ids++, nowMs: () => nowMs })
    return { roster, pairing, queue, writes, stopServing: pairing.serve() }
  }
  let host = boot()
  isServed = true
  const here = <T>(
    promise: Promise<T>,
    call: { readonly whose: string; readonly pairs: boolean; readonly id?: number },
    done: (result: T | Error) => void,
  ): void => {
    const life = host
    calls.add(call)
    const end = (result: T | Error) => {
      calls.delete(call)
      // What a dead host would have answered nobody hears.
      if (life === host) note(() => done(result))
    }
    promise.then(end, end)
  }

  /** The device was paired: whoever else is about to approve it will not find it any more. */
  const settled = (fingerprint: string): void => {
    for (const { id, whose } of calls) if (whose === fingerprint && id !== undefined) left.add(id)
  }
  const forget = () => {
    for (const visit of visits) if (visit.answer === 'waits') visit.answer = 'stopping'
    ;[armed, proving, exchange] = [undefined, undefined, undefined]
  }

  const act = {
    time: (ms: number) => {
      nowMs += ms
    },
    jump: (secs: number) => {
      jumpSecs += secs
    },
    disk: (isWell: boolean) => host.writes.shift()?.(isWell),
    plane: () => {
      if (isServed) {
        for (const { id } of host.queue.list()) left.add(id)
        host.stopServing()
        ;[armed, proving] = [undefined, undefined]
      } else host.stopServing = host.pairing.serve()
      isServed = !isServed
    },
    /** Killed and started again; `isSaved`: a write that was under way still reached the disk. */
    restart: (isSaved: boolean) => {
      if (isSaved) host.writes[0]?.(true)
      calls.clear()
      streams.clear()
      forget()
      host = boot()
      isServed = true
    },

    knock: (fingerprint: string, address: string) => {
      const knock = host.queue.knock({ fingerprint, name: fingerprint, address })
      if (!('refused' in knock) || knock.refused === 'outside-lan') knocked.set(fingerprint, step)
      if ('refused' in knock) {
        if (knock.refused === 'stopping') assert.equal(isServed, false)
        if (knock.refused === 'outside-lan') assert.equal(address, '8.8.8.8')
        // Only those who wait are never pushed out.
        if (knock.refused === 'full') {
          const waiting = visits.filter(v => v.answer === 'waits').map(v => v.id)
          const stored = [...calls].flatMap(({ id }) => id ?? [])
          assert.ok(new Set([...waiting, ...stored]).size > 3)
        }
        return
      }
      const id = host.queue.list().find(row => row.fingerprint === fingerprint)?.id ?? -1
      // Whoever does not have to wait is let in by somebody.
      if (id === -1) assert.ok(host.roster.find(fingerprint))
      const visit: Visit = { fingerprint, id, atStep: step, atMs: nowMs, answer: 'waits', leave: knock.leave }
      visits.push(visit)
      const life = host
      void knock.answer.then(answer => {
        if (life !== host || visit.answer !== 'waits') return
        visit.answer = answer
        note(() => {
          if (answer === 'replaced') assert.ok(knocked.get(fingerprint)! > visit.atStep)
          if (answer === 'denied') assert.ok(denied.has(id))
          if (answer === 'no-answer') assert.ok(nowMs - visit.atMs >= parkedMs)
          if (answer === 'stopping') assert.equal(isServed, false)
          // It is on the disk before anybody goes on.
          if (answer === 'approved') {
            assert.ok(
              RosterFile.parse(saved)
                .clients.map(c => c.fingerprint)
                .includes(fingerprint),
            )
            assert.ok(permits.map(p => p.fingerprint).includes(fingerprint))
            // It is let in where it is being paired, or where an edit has given it an access that is not over.
            const isPairing = [...calls].some(call => call.pairs && call.whose === fingerprint)
            if (!isPairing) assert.ok(host.roster.find(fingerprint))
          }
        })
      })
    },
    leave: (which: number) => {
      const waiting = visits.filter(v => v.answer === 'waits')
      const visit = waiting[which % Math.max(1, waiting.length)]
      if (!visit) return
      visit.answer = 'left'
      visit.leave()
    },
    approve: (which: number, expiresInSecs: number | null) => {
      const rows = host.queue.list()
      const row = rows[which % Math.max(1, rows.length)]
      if (!row) return
      const { id, fingerprint } = row
      const permit: Permit = { fingerprint, done: undefined }
      const asked = step
      permits.push(permit)
      const approval = { name: undefined, access: { grants: null, expiresInSecs } }
      here(host.queue.approve(id, approval), { whose: fingerprint, pairs: true, id }, result => {
        if (result instanceof Error || typeof result === 'string') {
          permits = permits.filter(p => p !== permit)
          return
        }
        permit.done = step
        settled(fingerprint)
        if (row.source === 'wan') assert.ok(knocked.get(fingerprint)! > asked)
        assert.ok(!approved.has(id))
        approved.add(id)
        assert.ok(
          !host.queue
            .list()
            .map(each => each.id)
            .includes(id),
        )
      })
    },
    deny: (which: number) => {
      const rows = host.queue.list()
      const row = rows[which % Math.max(1, rows.length)]
      if (!row) return
      denied.add(row.id)
      here(host.queue.deny(row.id), { whose: '', pairs: false }, () => {
        assert.ok(
          !host.queue
            .list()
            .map(each => each.id)
            .includes(row.id),
        )
      })
    },

    arm: (bound: string | null, ttl: number) => {
      if (!isServed) return
      const access = { grants: null, expiresInSecs: null }
      host.pairing.arm({ fingerprint: bound, ttlSecs: ttl, access })
      armed = { pin: host.pairing.status().pin!, bound, untilMs: nowMs + ttlSecs(ttl) * 1000 }
      proving = undefined
    },
    disarm: () => {
      if (isServed) host.pairing.disarm()
      ;[armed, proving] = [undefined, undefined]
    },
    begin: (fingerprint: string, address: string, isRight: boolean) => {
      const open = armed && nowMs < armed.untilMs ? armed : undefined
      const pin = isRight && open ? open.pin : `${(Number(open?.pin ?? 0) + 1) % 10_000}`.padStart(4, '0')
      const { share, tag } = prove(fingerprint, pin)
      const request = { fingerprint, name: fingerprint, address, hostFingerprint, sid, share }
      const begun = host.pairing.begin(request)
      if ('refused' in begun) return
      assert.ok(open)
      assert.equal(open!.bound === null ? address !== '8.8.8.8' : open!.bound === fingerprint, true)
      exchange = { host: begun, fingerprint, tag, isRight }
      proving = { fingerprint, untilMs: open!.untilMs }
      armed = undefined
    },
    confirm: () => {
      if (!exchange) return
      const { host: begun, fingerprint, tag, isRight } = exchange
      exchange = undefined
      const mayPair = isRight && proving?.fingerprint === fingerprint && nowMs < proving.untilMs
      proving = undefined
      const permit: Permit = { fingerprint, done: undefined }
      if (mayPair) permits.push(permit)
      here(
        begun.confirm(isRight ? tag(begun.share) : sid),
        { whose: fingerprint, pairs: mayPair },
        result => {
          if (result instanceof Error) throw result
          if ('tag' in result) {
            assert.equal(mayPair, true)
            permit.done = step
            settled(fingerprint)
          } else permits = permits.filter(p => p !== permit)
        },
      )
    },

    edit: (fingerprint: string, expiresInSecs: number | null) =>
      here(host.roster.edit(fingerprint, { expiresInSecs }), { whose: fingerprint, pairs: false }, () => {}),
    unpair: (fingerprint: string | 'all') => {
      const started = step
      here(host.roster.unpair(fingerprint), { whose: fingerprint, pairs: false }, result => {
        if (result instanceof Error) return
        const isTaken = (p: Permit) =>
          (fingerprint === 'all' || p.fingerprint === fingerprint) && p.done !== undefined && p.done < started
        permits = permits.filter(p => !isTaken(p))
      })
    },
    stream: (fingerprint: string) => {
      if (!host.roster.find(fingerprint) || streams.has(fingerprint)) return
      const stop = host.roster.watch(fingerprint, now => {
        if (now !== 'unpaired' && now !== 'expired') return
        stop()
        streams.delete(fingerprint)
      })
      streams.set(fingerprint, stop)
    },
  }

  let records = new Map(host.roster.list().map(client => [client.fingerprint, client]))
  const check = () => {
    assert.deepEqual(wrong, [])
    const clients = host.roster.list()
    for (const fingerprint of devices) {
      const record = clients.find(client => client.fingerprint === fingerprint)
      const found = host.roster.find(fingerprint)
      // Nobody is let in but by an operator or a PIN, and not for longer than was said.
      if (record) assert.ok(permits.map(p => p.fingerprint).includes(fingerprint))
      const isOver = record?.expires_unix != null && record.expires_unix <= unixSecs()
      assert.equal(found !== undefined, record !== undefined && !isOver)
      const before = records.get(fingerprint)
      const callers = [...calls, ...touched].map(call => call.whose)
      if (JSON.stringify(before) !== JSON.stringify(record))
        assert.equal(
          callers.some(whose => whose === fingerprint || whose === 'all'),
          true,
        )
      if (streams.has(fingerprint)) assert.ok(found)
    }
    records = new Map(clients.map(client => [client.fingerprint, client]))
    const rows = host.queue.list()
    for (const visit of visits.filter(v => v.answer === 'waits')) {
      // Who waits is on the list, under the id that the operator has seen; who may come in does not wait.
      assert.equal(rows.find(row => row.id === visit.id)?.fingerprint, visit.fingerprint)
      assert.equal(host.roster.find(visit.fingerprint), undefined)
      assert.ok(nowMs - visit.atMs < parkedMs)
    }
    // Without a plane nobody can be let in; with one, who is being stored keeps its place.
    if (!isServed) assert.deepEqual([rows, visits.filter(v => v.answer === 'waits')], [[], []])
    for (const { id, whose } of isServed ? calls : []) {
      if (id === undefined) continue
      if (host.roster.find(whose)) left.add(id)
      if (!left.has(id)) assert.ok(rows.map(row => row.id).includes(id))
    }
    const waiting = visits.filter(v => v.answer === 'waits').map(v => v.fingerprint)
    assert.equal(new Set(waiting).size, waiting.length)
    visits = visits.filter(v => v.answer === 'waits')
    for (const row of rows) {
      const isBeingStored = [...calls].some(call => call.id === row.id)
      if (!isBeingStored) assert.ok(row.age_secs * 1000 < listedMs)
    }
  }
  let touched: { readonly whose: string }[] = []

  return {
    act,
    run: async (change: () => void) => {
      step++
      touched = [...calls]
      change()
      touched.push(...calls)
      host.queue.sweep()
      host.roster.expire()
      await new Promise(resolve => setImmediate(resolve))
      check()
    },
    /** The disk answers, and so does everything that has been asked. */
    settle: async () => {
      for (let left = 1000; calls.size > 0 && left > 0; left--) {
        act.disk(true)
        await new Promise(resolve => setImmediate(resolve))
      }
      assert.deepEqual([...calls], [])
    },
  }
}

/** Mostly the same few, so that much happens to each. */
const device = fc.constantFrom(...devices, ...devices.slice(0, 2), ...devices.slice(0, 2))
const address = fc.constantFrom(...addresses)
const spell = fc.constantFrom(null, 0, 5, 3600)
type Act = ReturnType<typeof createWorld>['act']
type Step = { [fc.toStringMethod](): string; readonly run: (act: Act) => void }
const step = <T extends unknown[]>(
  weight: number,
  name: keyof Act,
  ...of: { [K in keyof T]: fc.Arbitrary<T[K]> }
) => ({
  weight,
  arbitrary: fc.tuple(...(of as fc.Arbitrary<never>[])).map(
    (values): Step => ({
      [fc.toStringMethod]: () => `${name}(${values.map(v => JSON.stringify(v)?.slice(0, 12)).join()})`,
      run: act => (act[name] as (...args: unknown[]) => void)(...values),
    }),
  ),
})
const steps = fc.oneof(
  step(8, 'knock', device, address),
  step(6, 'disk', fc.constantFrom(true, true, true, false)),
  step(5, 'approve', fc.nat(9), spell),
  step(2, 'deny', fc.nat(9)),
  step(2, 'leave', fc.nat(9)),
  step(4, 'time', fc.constantFrom(1, 2500, 2500, 20_000, 200_000, 700_000)),
  step(2, 'jump', fc.constantFrom(-7200, 7200)),
  step(3, 'arm', fc.option(device, { freq: 1 }), fc.constantFrom(15, 120, 600)),
  step(1, 'disarm'),
  step(5, 'begin', device, address, fc.constantFrom(true, true, false)),
  step(4, 'confirm'),
  step(3, 'edit', device, spell),
  step(1, 'unpair', fc.oneof(device, fc.constant('all'))),
  step(2, 'stream', device),
  step(1, 'plane'),
  step(1, 'restart', fc.boolean()),
)

/** What holds over any order of steps; rejects with the shortest that breaks it. `seed` repeats a run. */
export const holdsOverInterleavings = (numRuns: number, seed?: number): Promise<void> =>
  fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 20, maxLength: 120, size: 'max' }), async all => {
      const world = createWorld()
      for (const each of all) await world.run(() => each.run(world.act))
      await world.settle()
    }),
    { numRuns, includeErrorInReport: true, ...(seed !== undefined && { seed }) },
  )
