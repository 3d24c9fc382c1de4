// Hook points: taps in order, each attributed, timed and limited; the point says what a failing tap means.
import { createHistogram } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { type ExtensionRecord, type HookPoint, HttpError, isHttpError } from 'svc-host/sdk'
import { AsyncSeriesBailHook, AsyncSeriesHook, AsyncSeriesWaterfallHook } from 'tapable'
import { type ExtensionError, runAs, within } from './errors.ts'

type Fn = (input: never) => unknown
type Call = (input: unknown) => Promise<unknown>

interface Tap {
  readonly owner: string
  readonly order: number
  readonly fn: Fn
  /** How long each call took, in microseconds. */
  readonly took: ReturnType<typeof createHistogram>
}

/** Up to a minute, two digits: some ten kilobytes for each tap, however often it is called. */
const timing = { lowest: 1, highest: 60_000_000, figures: 2 }

interface Place {
  readonly taps: Set<Tap>
  /** Those whose taps have gone with them. */
  readonly left: Set<string>
  owner?: string
  point?: HookPoint<never>
  /** Built of the taps at the first call after a change; a call under way keeps its own. */
  call?: Call
}

export interface Hooks {
  /** Makes `owner` the one that calls this point; throws when somebody else is. */
  own(owner: string, point: HookPoint<never, unknown>): { call: Call; release: () => void }
  tap(owner: string, point: HookPoint<never, unknown>, fn: Fn, order: number): () => void
  /** Calls of its taps that took longer than they may, since the start. */
  late(owner: string): number
  /** The taps of `owner` and how long they take. */
  taps(owner: string): ExtensionRecord['taps']
}

const lookMs = 10

/** Who is there, and who is not but should be. */
export interface Attendance {
  isOn(owner: string): boolean
  /** Those who have a say at a point, or had one and `left`, and are expected back; each with where it stands. */
  absent(point: string, left: ReadonlySet<string>): readonly (readonly [id: string, state: string])[]
}

export function createHooks(
  report: (owner: string, during: string, error: unknown) => ExtensionError,
  { isOn, absent }: Attendance = { isOn: () => true, absent: () => [] },
): Hooks {
  const places = new Map<string, Place>()
  const late = new Map<string, number>()

  const placeOf = (id: string): Place => {
    const place = places.get(id) ?? { taps: new Set(), left: new Set<string>() }
    places.set(id, place)
    return place
  }

  const runTap = async (point: HookPoint<never>, tap: Tap, input: never): Promise<unknown> => {
    const startedAt = performance.now()
    try {
      return await within(
        point.limitMs,
        runAs(tap.owner, async () => tap.fn(input)),
      )
    } catch (error) {
      const refuses = point.onFailure === 'refuse'
      // A typed refusal is an answer, not a mistake.
      if (refuses && isHttpError(error)) throw error
      const attributed = report(tap.owner, `hook ${point.id}`, error)
      if (refuses) throw attributed
      return undefined
    } finally {
      const tookMs = performance.now() - startedAt
      if (tookMs >= point.limitMs) late.set(tap.owner, (late.get(tap.owner) ?? 0) + 1)
      tap.took.record(Math.max(1, Math.round(tookMs * 1000)))
    }
  }

  /** Where a missing word is a no, those who are on their way back are waited for as long as they would have to answer. */
  const everybody = async ({ id, onFailure, limitMs }: HookPoint<never>, { left }: Place): Promise<void> => {
    if (onFailure !== 'refuse') return
    const until = performance.now() + limitMs
    for (;;) {
      for (const owner of left) if (isOn(owner)) left.delete(owner)
      const [first] = absent(id, left)
      if (!first) return
      const [who, state] = first
      if (performance.now() >= until)
        throw new HttpError(
          503,
          `${who} has a say at ${id} and is ${state}; switch it off to go on without it`,
        )
      await delay(lookMs)
    }
  }

  const build = (point: HookPoint<never>, taps: Iterable<Tap>): Call => {
    const fresh = {
      series: () => new AsyncSeriesHook<[unknown]>(['input']),
      waterfall: () => new AsyncSeriesWaterfallHook<[unknown]>(['input']),
      bail: () => new AsyncSeriesBailHook<[unknown], unknown>(['input']),
    }[point.kind]()
    for (const tap of taps) {
      fresh.tapPromise({ name: tap.owner, stage: tap.order }, async input => {
        const output = await runTap(point, tap, input as never)
        return (point.kind === 'series' ? undefined : output) as never
      })
    }
    return input => fresh.promise(input)
  }

  return {
    own(owner, point) {
      const place = placeOf(point.id)
      if (place.owner !== undefined)
        throw new Error(`hook point ${point.id} belongs to ${place.owner} already`)
      place.owner = owner
      place.point = point as HookPoint<never>
      place.call = undefined
      return {
        call: async input => {
          await everybody(place.point!, place)
          place.call ??= build(place.point!, place.taps)
          return place.call(input)
        },
        release: () => {
          place.owner = undefined
          if (place.taps.size + place.left.size === 0) places.delete(point.id)
        },
      }
    },
    tap(owner, point, fn, order) {
      const place = placeOf(point.id)
      if (place.point && place.point.kind !== point.kind) {
        throw new Error(`hook point ${point.id} is ${place.point.kind}, not ${point.kind}`)
      }
      const tap: Tap = { owner, order, fn, took: createHistogram(timing) }
      place.taps.add(tap)
      place.left.delete(owner)
      place.call = undefined
      return () => {
        place.taps.delete(tap)
        if (!isOn(owner)) place.left.add(owner)
        place.call = undefined
        if (place.taps.size + place.left.size === 0 && place.owner === undefined) places.delete(point.id)
      }
    },
    late: owner => late.get(owner) ?? 0,
    taps: owner =>
      [...places].flatMap(([hook, { taps }]) =>
        [...taps]
          .filter(tap => tap.owner === owner)
          .map(({ took }) => ({
            hook,
            calls: took.count,
            p50_ms: took.count ? took.percentile(50) / 1000 : null,
            p99_ms: took.count ? took.percentile(99) / 1000 : null,
          })),
      ),
  }
}
