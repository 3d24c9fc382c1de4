// `URL` and `URLSearchParams` as the web platform has them, for http, https, ws and wss: what extensions reach others by.
import { decodeUtf8, encodeUtf8 } from './bytes.ts'

const defaultPorts: Record<string, string> = { 'http:': '80', 'https:': '443', 'ws:': '80', 'wss:': '443' }

/** Characters that stand for themselves in each part; all others become %XX. */
const plain = {
  path: /^[!$%&'()*+,\-./\w:;=@[\\\]|~]$/,
  query: /^[!$%&()*+,\-./\w:;=?@[\\\]^`{|}~]$/,
  fragment: /^[!#$%&'()*+,\-./\w:;=?@[\\\]^{|}~]$/,
  user: /^[!$%&'()*+,\-.\w~]$/,
}
const encodeBytes = (text: string): string =>
  [...encodeUtf8(text)].map(byte => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
const encode = (text: string, part: keyof typeof plain): string =>
  [...text].map(char => (plain[part].test(char) ? char : encodeBytes(char))).join('')

const decodePercent = (text: string): string => {
  const bytes: number[] = []
  for (let at = 0; at < text.length; at++) {
    const hex = text[at] === '%' ? /^[\da-f]{2}/i.exec(text.slice(at + 1, at + 3)) : null
    if (hex) {
      bytes.push(Number.parseInt(hex[0], 16))
      at += 2
    } else {
      const char = String.fromCodePoint(text.codePointAt(at)!)
      bytes.push(...encodeUtf8(char))
      at += char.length - 1
    }
  }
  return decodeUtf8(Uint8Array.from(bytes))
}

const fail = (what: string): never => {
  throw new TypeError(`Invalid URL: ${what}`)
}

/** One number of an IPv4 address: decimal, 0x or 0 for octal. */
function numberOf(text: string): number {
  const [digits, radix] = /^0x/i.test(text)
    ? [text.slice(2), 16]
    : /^0./.test(text)
      ? [text.slice(1), 8]
      : [text, 10]
  const allowed = { 16: /^[\da-f]*$/i, 8: /^[0-7]+$/, 10: /^\d+$/ }[radix as 16 | 8 | 10]
  if (!allowed.test(digits)) return Number.NaN
  return digits === '' ? 0 : Number.parseInt(digits, radix)
}

function ipv4Of(host: string): string {
  const parts = host.replace(/\.$/, '').split('.')
  const numbers = parts.map(numberOf)
  const last = numbers.pop()!
  const isWrong = parts.length > 4 || [...numbers, last].some(Number.isNaN) || numbers.some(n => n > 255)
  if (isWrong || last >= 256 ** (4 - numbers.length)) fail(`${host} is no IPv4 address`)
  const whole = numbers.reduce((sum, n, at) => sum + n * 256 ** (3 - at), last)
  return [24, 16, 8, 0].map(bits => Math.floor(whole / 2 ** bits) % 256).join('.')
}

function ipv6Of(given: string): string {
  const text = given.replace(/(?<=[:])\d+\.\d+\.\d+\.\d+$/, dotted => {
    const [a, b, c, d] = dotted.split('.').map(part => (/^(0|[1-9]\d{0,2})$/.test(part) ? Number(part) : 256))
    if ([a, b, c, d].some(n => n! > 255)) fail(`${given} is no IPv6 address`)
    return `${(a! * 256 + b!).toString(16)}:${(c! * 256 + d!).toString(16)}`
  })
  const halves = text.split('::')
  const groups = halves.map(half => (half === '' ? [] : half.split(':')))
  const count = groups.flat().length
  const isWhole = halves.length === 1 ? count === 8 : halves.length === 2 && count < 8
  if (!isWhole || !groups.flat().every(group => /^[\da-f]{1,4}$/i.test(group)))
    fail(`${given} is no IPv6 address`)
  const zeros = Array<string>(8 - count).fill('0')
  const all = [...groups[0]!, ...zeros, ...(groups[1] ?? [])].map(group =>
    Number.parseInt(group, 16).toString(16),
  )
  const runs = [...all.join(':').matchAll(/(?<![\da-f])0(:0)+(?![\da-f])/g)]
  const longest = runs.sort((a, b) => b[0].length - a[0].length || a.index - b.index)[0]
  if (!longest) return `[${all.join(':')}]`
  const joined = all.join(':')
  const [before, after] = [joined.slice(0, longest.index), joined.slice(longest.index + longest[0].length)]
  return `[${before.replace(/:$/, '')}::${after.replace(/^:/, '')}]`
}

function hostOf(given: string): string {
  if (given.startsWith('[')) return given.endsWith(']') ? ipv6Of(given.slice(1, -1)) : fail(given)
  const host = decodePercent(given).toLowerCase()
  if (host === '' || /[\0-\x20#%/:<>?@[\\\]^|\x7f]/.test(host)) fail(`"${given}" is no host`)
  // Which letters of the world's scripts are the same is a table of its own.
  if (/[^\0-\x7f]/.test(host)) fail(`write the host ${given} in its ASCII form (xn--…)`)
  const labels = host.replace(/\.$/, '').split('.')
  return /^(\d+|0x[\da-f]*)$/.test(labels.at(-1)!) ? ipv4Of(host) : host
}

function pathOf(text: string): string {
  const parts: string[] = []
  const given = text.split('/').slice(1)
  for (const [at, part] of given.entries()) {
    const isLast = at === given.length - 1
    const dots = part.replaceAll(/%2e/gi, '.')
    if (dots === '..') parts.pop()
    if (dots === '.' || dots === '..') {
      if (isLast) parts.push('')
    } else parts.push(encode(part, 'path'))
  }
  return `/${parts.join('/')}`
}

interface Parts {
  protocol: string
  username: string
  password: string
  hostname: string
  port: string
  pathname: string
  search: string
  hash: string
}

function authorityOf(
  text: string,
  protocol: string,
): Pick<Parts, 'username' | 'password' | 'hostname' | 'port'> {
  const at = text.lastIndexOf('@')
  const [user = '', ...secret] = at < 0 ? [] : text.slice(0, at).split(':')
  const [, name, digits = ''] = /^(\[[^\]]*\]|[^:]*)(?::(\d*))?$/.exec(text.slice(at + 1)) ?? fail(text)
  if (digits && Number(digits) > 65535) fail(`port ${digits}`)
  const port = digits && String(Number(digits))
  return {
    username: encode(user, 'user'),
    password: encode(secret.join(':'), 'user'),
    hostname: hostOf(name!),
    port: port === defaultPorts[protocol] ? '' : port,
  }
}

function parse(given: string, base: Parts | undefined): Parts {
  const text = given.replace(/^[\0-\x20]+|[\0-\x20]+$/g, '').replaceAll(/[\t\n\r]/g, '')
  const scheme = /^([a-z][a-z\d+.-]*):/i.exec(text)
  const protocol = scheme ? `${scheme[1]!.toLowerCase()}:` : base?.protocol
  if (protocol === undefined) return fail(`"${text}" needs a base`)
  if (!(protocol in defaultPorts))
    fail(`${protocol} is not known in this realm; it has http, https, ws and wss`)
  const rest = text.slice(scheme?.[0].length ?? 0)
  const [, main = '', query, fragment] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(rest)!
  const path = main.replaceAll('\\', '/')
  const search = query ? `?${encode(query.slice(1), 'query')}` : ''
  const hash = fragment ? `#${encode(fragment.slice(1), 'fragment')}` : ''
  const isRelative = base !== undefined && protocol === base.protocol && !path.startsWith('//')
  if (!isRelative) {
    if (!scheme && !path.startsWith('//')) fail(`"${text}" needs a base`)
    const bare = path.replace(/^\/*/, '')
    const end = bare.indexOf('/')
    const authority = end < 0 ? bare : bare.slice(0, end)
    const pathname = pathOf(end < 0 ? '/' : bare.slice(end))
    return { protocol, ...authorityOf(authority, protocol), pathname, search, hash }
  }
  if (path === '') return { ...base, search: query === undefined ? base.search : search, hash }
  const from = path.startsWith('/') ? path : `${base.pathname.replace(/[^/]*$/, '')}${path}`
  return { ...base, pathname: pathOf(from), search, hash }
}

export class URLSearchParams {
  #pairs: [string, string][] = []
  /** Told of each change; set by the URL that it belongs to. */
  #changed: (() => void) | undefined

  constructor(init: unknown = '') {
    if (typeof init === 'object' && init !== null) {
      const isList = Symbol.iterator in init
      const pairs = isList ? (init as Iterable<[unknown, unknown]>) : Object.entries(init)
      this.#pairs = [...pairs].map(([name, value]) => [
        String(name).toWellFormed(),
        String(value).toWellFormed(),
      ])
    } else this.#read(String(init))
  }
  /** For URL only. */
  static of(search: string, changed: () => void): URLSearchParams {
    const params = new URLSearchParams(search)
    params.#changed = changed
    return params
  }
  static renew(params: URLSearchParams, search: string): void {
    params.#read(search)
  }
  #read(text: string): void {
    const parts = text.replace(/^\?/, '').split('&').filter(Boolean)
    this.#pairs = parts.map(part => {
      const [name = '', ...rest] = part.replaceAll('+', ' ').split('=')
      return [decodePercent(name), decodePercent(rest.join('='))]
    })
  }
  #change(pairs: [string, string][]): void {
    this.#pairs = pairs
    this.#changed?.()
  }
  get size(): number {
    return this.#pairs.length
  }
  append(name: string, value: string): void {
    this.#change([...this.#pairs, [String(name).toWellFormed(), String(value).toWellFormed()]])
  }
  delete(name: string, value?: string): void {
    this.#change(this.#pairs.filter(([n, v]) => n !== name || (value !== undefined && v !== value)))
  }
  get(name: string): string | null {
    return this.#pairs.find(([n]) => n === name)?.[1] ?? null
  }
  getAll(name: string): string[] {
    return this.#pairs.filter(([n]) => n === name).map(([, value]) => value)
  }
  has(name: string, value?: string): boolean {
    return this.#pairs.some(([n, v]) => n === name && (value === undefined || v === value))
  }
  set(name: string, value: string): void {
    const first = this.#pairs.findIndex(([n]) => n === name)
    if (first < 0) {
      this.append(name, value)
      return
    }
    const kept = this.#pairs.filter(([n], at) => n !== name || at === first)
    kept[kept.findIndex(([n]) => n === name)] = [name, String(value).toWellFormed()]
    this.#change(kept)
  }
  sort(): void {
    this.#change(this.#pairs.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
  }
  forEach(run: (value: string, name: string, params: URLSearchParams) => void): void {
    for (const [name, value] of this.#pairs) run(value, name, this)
  }
  *entries(): IterableIterator<[string, string]> {
    for (const [name, value] of this.#pairs) yield [name, value]
  }
  *keys(): IterableIterator<string> {
    for (const [name] of this.#pairs) yield name
  }
  *values(): IterableIterator<string> {
    for (const [, value] of this.#pairs) yield value
  }
  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries()
  }
  toString(): string {
    const form = (text: string): string =>
      [...text].map(c => (/^[*\-.\w]$/.test(c) ? c : c === ' ' ? '+' : encodeBytes(c))).join('')
    return this.#pairs.map(([name, value]) => `${form(name)}=${form(value)}`).join('&')
  }
}

export class URL {
  #parts: Parts
  readonly #params: URLSearchParams

  constructor(input: unknown, base?: unknown) {
    this.#parts = parse(String(input), base === undefined ? undefined : parse(String(base), undefined))
    this.#params = URLSearchParams.of(this.#parts.search, () => {
      const text = this.#params.toString()
      this.#parts.search = text && `?${text}`
    })
  }
  static parse(input: unknown, base?: unknown): URL | null {
    try {
      return new URL(input, base)
    } catch {
      return null
    }
  }
  static canParse(input: unknown, base?: unknown): boolean {
    return URL.parse(input, base) !== null
  }
  get href(): string {
    const { protocol, username, password, pathname, search, hash } = this.#parts
    const secret = password && `:${password}`
    const user = username || secret ? `${username}${secret}@` : ''
    return `${protocol}//${user}${this.host}${pathname}${search}${hash}`
  }
  get origin(): string {
    return `${this.#parts.protocol}//${this.host}`
  }
  get protocol(): string {
    return this.#parts.protocol
  }
  get username(): string {
    return this.#parts.username
  }
  get password(): string {
    return this.#parts.password
  }
  get host(): string {
    const { hostname, port } = this.#parts
    return port ? `${hostname}:${port}` : hostname
  }
  get hostname(): string {
    return this.#parts.hostname
  }
  get port(): string {
    return this.#parts.port
  }
  get pathname(): string {
    return this.#parts.pathname
  }
  set pathname(value: string) {
    const path = String(value)
      .replaceAll(/[\t\n\r]/g, '')
      .replaceAll('\\', '/')
    const escaped = path.replaceAll('?', '%3F').replaceAll('#', '%23')
    this.#parts.pathname = pathOf(escaped.startsWith('/') ? escaped : `/${escaped}`)
  }
  get search(): string {
    return this.#parts.search.replace(/^\?$/, '')
  }
  set search(value: string) {
    const text = String(value)
      .replaceAll(/[\t\n\r]/g, '')
      .replace(/^\?/, '')
    this.#parts.search = text && `?${encode(text, 'query').replaceAll('#', '%23')}`
    URLSearchParams.renew(this.#params, this.#parts.search)
  }
  get hash(): string {
    return this.#parts.hash.replace(/^#$/, '')
  }
  set hash(value: string) {
    const text = String(value)
      .replaceAll(/[\t\n\r]/g, '')
      .replace(/^#/, '')
    this.#parts.hash = text && `#${encode(text, 'fragment')}`
  }
  get searchParams(): URLSearchParams {
    return this.#params
  }
  toString(): string {
    return this.href
  }
  toJSON(): string {
    return this.href
  }
}
