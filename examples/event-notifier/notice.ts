// What is said about an event: a template with the event's fields in it.
import type { EventRecord } from 'svc-host/sdk'

const textOf = (value: unknown): string =>
  typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value)

/** Puts fields in their places: `{kind}`, `{session.client}`; one that the event does not have leaves nothing. */
export function notice(template: string, event: EventRecord): string {
  return template.replaceAll(/\{([\w.]+)\}/g, (_, path: string) => {
    const value = path.split('.').reduce<unknown>((at, key) => {
      const isIn = typeof at === 'object' && at !== null && Object.hasOwn(at, key)
      return isIn ? (at as Record<string, unknown>)[key] : undefined
    }, event)
    return textOf(value)
  })
}
