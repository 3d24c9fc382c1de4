// Small parts of the web platform that authors expect beside `fetch` and `URL`: text, base64, copies, random numbers.
import { decodeUtf8, encodeUtf8, fromBase64, toBase64 } from './bytes.ts'
import { fill, randomUuid } from './random.ts'

export class TextEncoder {
  readonly encoding = 'utf-8'
  encode(text = ''): Uint8Array {
    return encodeUtf8(String(text))
  }
}

export class TextDecoder {
  readonly encoding = 'utf-8'
  readonly fatal: boolean
  readonly ignoreBOM: boolean
  constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
    if (!/^\s*utf-?8\s*$/i.test(label)) throw new RangeError(`this realm decodes utf-8 only, not ${label}`)
    this.fatal = fatal
    this.ignoreBOM = ignoreBOM
  }
  decode(given: ArrayBuffer | ArrayBufferView = new Uint8Array(), { stream = false } = {}): string {
    if (stream) throw new TypeError('this realm decodes whole texts only; leave "stream" out')
    const bytes = ArrayBuffer.isView(given)
      ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength)
      : new Uint8Array(given)
    const text = decodeUtf8(bytes, this.fatal)
    return this.ignoreBOM ? text : text.replace(/^\ufeff/, '')
  }
}

export const atob = (text: string): string => {
  const bytes = fromBase64(String(text))
  return Array.from(bytes, byte => String.fromCharCode(byte)).join('')
}
export const btoa = (text: string): string => {
  const units = Array.from({ length: String(text).length }, (_, at) => String(text).charCodeAt(at))
  if (units.some(unit => unit > 255))
    throw new Error('btoa takes characters up to U+00FF; encode the text as UTF-8 first')
  return toBase64(Uint8Array.from(units))
}

/** Data with its cycles, dates, maps, sets, errors and bytes; an object of a class becomes a plain one. */
export function structuredClone<T>(value: T, seen = new Map<unknown, unknown>()): T {
  const copy = (inner: unknown): unknown => structuredClone(inner, seen)
  const keep = <C>(made: C): C => {
    seen.set(value, made)
    return made
  }
  const clone = (): unknown => {
    if (typeof value === 'function' || typeof value === 'symbol')
      throw Object.assign(new Error(`a ${typeof value} cannot be cloned`), { name: 'DataCloneError' })
    if (typeof value !== 'object' || value === null) return value
    if (seen.has(value)) return seen.get(value)
    if (value instanceof Date) return keep(new Date(value))
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags))
    if (value instanceof ArrayBuffer) return keep(value.slice(0))
    if (ArrayBuffer.isView(value)) {
      const { buffer, byteOffset, byteLength } = value
      const length = (value as { length?: number }).length ?? byteLength
      const View = value.constructor as new (b: unknown, o: number, l: number) => unknown
      return keep(new View(copy(buffer), byteOffset, length))
    }
    if (value instanceof Map) {
      const made = keep(new Map())
      for (const [key, each] of value) made.set(copy(key), copy(each))
      return made
    }
    if (value instanceof Set) {
      const made = keep(new Set())
      for (const each of value) made.add(copy(each))
      return made
    }
    if (value instanceof Error) {
      const { name, message, stack } = value
      return keep(Object.assign(new Error(message), { name, stack }))
    }
    const made = keep((Array.isArray(value) ? Array(value.length) : {}) as Record<string, unknown>)
    for (const key of Object.keys(value))
      Object.defineProperty(made, key, {
        value: copy((value as Record<string, unknown>)[key]),
        writable: true,
        enumerable: true,
        configurable: true,
      })
    return made
  }
  return clone() as T
}

export const crypto = { getRandomValues: fill, randomUUID: randomUuid }
