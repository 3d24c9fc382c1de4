// Permissions: what a manifest asks for, one text each, what each covers, and how an operator reads it.

/** What each kind is about, after the colon; `null`: it stands alone. */
const kinds = {
  /** Observing events: `session.started`, `session.*` or `*`. */
  events: 'a kind of events, such as session.started, session.* or *',
  /** Tapping a hook point: `session.admit`. */
  hooks: 'a hook point, such as session.admit',
  /** Using a service; what `requires` and `optional` name asks for it by itself. */
  services: 'a service, such as display.pool',
  /** Serving routes under `/api/v1/ext/<id>`. */
  routes: null,
  /** Calling the routes of the API that plugins may, by their tag: `api:host`. */
  api: 'a part of the API, such as host, session, display, library or events',
  /** Reaching a host: `api.example.com`, `*.example.com`, `10.0.0.7:8080`; without a port 443 and 80. */
  network: 'a host, such as api.example.com, *.example.com or 192.168.1.7:8080',
  /** Reading files in a folder and below: an absolute path, or `~/…` of the account the host has. */
  read: 'a folder, as an absolute path or ~/…',
  /** Reading and writing likewise. */
  write: 'a folder, as an absolute path or ~/…',
  /** Running one command line; `{name}` stands for one value given with each run. */
  exec: 'a command line, such as /usr/bin/notify-send {text}',
  /** A page in the console. */
  page: null,
} as const
export type PermissionKind = keyof typeof kinds

export interface Permission {
  readonly kind: PermissionKind
  /** Empty for those that stand alone. */
  readonly about: string
}

const dotted = /^(\*|[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*(\.\*)?)$/
const shapes: Readonly<Record<PermissionKind, RegExp>> = {
  events: dotted,
  hooks: dotted,
  services: dotted,
  routes: /^$/,
  api: /^(\*|[a-z][a-z-]*)$/,
  network: /^(\*\.)?[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$|^\[[0-9a-f:]+\](:\d{1,5})?$/,
  read: /^(\/|~\/)(?!.*(^|\/)\.\.(\/|$))\P{Cc}*$/u,
  write: /^(\/|~\/)(?!.*(^|\/)\.\.(\/|$))\P{Cc}*$/u,
  exec: /^\/\P{Cc}+$/u,
  page: /^$/,
}

/** `{config.url}`: the host or folder that the operator sets in the extension's config at that place. */
const inConfig = /^\{config((?:\.[A-Za-z_][\w-]*)+)\}$/

/** Takes one apart; throws a sentence that says what is wrong and what would be right. */
export function parsePermission(text: string): Permission {
  const at = text.indexOf(':')
  const kind = (at < 0 ? text : text.slice(0, at)) as PermissionKind
  const about = at < 0 ? '' : text.slice(at + 1)
  if (!Object.hasOwn(kinds, kind))
    throw new Error(`permission "${text}": there is no kind "${kind}"; use ${Object.keys(kinds).join(', ')}`)
  const wanted = kinds[kind]
  if (wanted === null && at >= 0) throw new Error(`permission "${text}": "${kind}" stands alone`)
  const isInConfig = ['network', 'read', 'write'].includes(kind) && inConfig.test(about)
  if (text.length > 512 || !(isInConfig || shapes[kind].test(about)))
    throw new Error(`permission "${text.slice(0, 80)}": after "${kind}:" comes ${wanted}`)
  return { kind, about }
}

const sameOrUnder = (pattern: string, name: string): boolean =>
  pattern === '*' || pattern === name || (pattern.endsWith('.*') && name.startsWith(pattern.slice(0, -1)))

const folderHas = (folder: string, path: string): boolean =>
  path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`)

/** Host and port apart; without a port: null. */
export function hostAndPort(about: string): { host: string; port: number | null } {
  const found = /^(.*?)(?::(\d+))?$/.exec(about.startsWith('[') ? about.replace(/^\[.*\]/, '') : about)!
  const bracketed = /^\[.*\]/.exec(about)?.[0]
  return { host: bracketed ?? found[1]!, port: found[2] === undefined ? null : Number(found[2]) }
}

function networkHas(granted: string, needed: string): boolean {
  const [have, want] = [hostAndPort(granted), hostAndPort(needed)]
  // The end of an address says nothing about whose it is.
  const isName = /[a-z]/.test(want.host) && !want.host.startsWith('[')
  const isUnder = have.host.startsWith('*.') && isName && want.host.endsWith(have.host.slice(1))
  const isHost = have.host === want.host || isUnder
  const isPort = have.port === want.port || (have.port === null && (want.port === 443 || want.port === 80))
  return isHost && isPort
}

/** Whether one permission gives what another asks for: `events:session.*` covers `events:session.started`. */
export function covers(granted: string, needed: string): boolean {
  if (granted === needed) return true
  const [have, want] = [parsePermission(granted), parsePermission(needed)]
  if (have.kind === 'write' && want.kind === 'read') return folderHas(have.about, want.about)
  if (have.kind !== want.kind) return false
  if (have.kind === 'read' || have.kind === 'write') return folderHas(have.about, want.about)
  if (have.kind === 'network') return networkHas(have.about, want.about)
  if (have.kind === 'exec') return false
  return sameOrUnder(have.about, want.about)
}

/** Those of `wanted` that nothing in `granted` covers: what an update asks for beyond what was decided. */
export const beyond = (granted: readonly string[], wanted: readonly string[]): string[] =>
  wanted.filter(each => !granted.some(have => covers(have, each)))

/** What the operator has decided about the permissions of one extension. */
export interface PermissionDecision {
  readonly granted: readonly string[]
  readonly refused: readonly string[]
}
/** What it allows, as an operator reads it. */
export function explainPermission(text: string): string {
  const { kind, about: given } = parsePermission(text)
  const place = inConfig.exec(given)?.[1]?.slice(1)
  const about = place ? `what its config names as "${place}"` : given
  return {
    events: about === '*' ? 'see every event of the host' : `see events ${about}`,
    hooks: `decide or add at ${about}`,
    services: `use the service ${about}`,
    routes: 'answer requests under its own path of the API',
    api: about === '*' ? 'call every part of the API that plugins may' : `call the API: ${about}`,
    network: `reach ${about} over the network`,
    read: `read files in ${about}`,
    write: `read and write files in ${about}`,
    exec: `run ${about}`,
    page: 'show a page in the console',
  }[kind]
}
