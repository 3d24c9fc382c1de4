// The verbs about permissions, and the question on a terminal what of them is granted.
import { basename } from 'node:path'
import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import {
  type Answer,
  type Colour,
  exitCode,
  orElse,
  paint,
  plain,
  table,
  UsageError,
  type Verb,
  wantsJson,
} from 'svc-host/api/ctl'
import type { ApiClient } from 'svc-host/client'
import { type CommandContext, explainPermission, parsePermission } from 'svc-host/sdk'
import { AskedForMore, operate } from './operation.ts'
import { hasFailed, listOf, sentence } from './report.ts'
import type { Job, Permissions } from './schema.ts'

type Row = Permissions['permissions'][number]
const colours: Record<Row['state'], Colour> = { granted: 'green', refused: 'red', asked: 'yellow' }

const pathOf = (id: string): string => `/extensions/${encodeURIComponent(id)}/permissions`
/** What one asks for; nothing where the host cannot say it. */
export const permissionsOf = async (host: ApiClient, id: string): Promise<readonly Row[]> =>
  (await orElse(host.request<Permissions>('GET', pathOf(id)), { id, permissions: [] })).permissions

export const permissionTable = (out: NodeJS.WritableStream, rows: readonly Row[]): string =>
  table(
    out,
    ['PERMISSION', 'STATE', 'ALLOWS TO'],
    rows.map(({ permission, state, meaning }) => [
      permission,
      { text: state, colour: colours[state] },
      meaning,
    ]),
  )

const isTerminal = ({ err, argv }: CommandContext): boolean =>
  process.stdin.isTTY === true && (err as Partial<NodeJS.WriteStream>).isTTY === true && !wantsJson(argv)

/** Shows on the terminal what is asked for and asks whether it is granted. */
async function isGranted(context: CommandContext, what: string, asks: readonly string[]): Promise<boolean> {
  const { err, signal } = context
  const width = Math.max(...asks.map(text => text.length))
  const lines = asks.map(text => `  ${plain(text.padEnd(width))}  ${plain(explainPermission(text))}\n`)
  err.write(`${paint(err, 'bold', plain(what))} asks for:\n${lines.join('')}`)
  const terminal = createInterface({ input: process.stdin, output: err })
  try {
    return /^y(es)?$/i.test((await terminal.question('Grant all of this? [y/N] ', { signal })).trim())
  } finally {
    terminal.close()
  }
}

/** Of the option `--grant [permission]`, given once for all or repeatedly for some. */
export function grantOption(text: string, before: string[] | true = []): string[] {
  try {
    parsePermission(text)
  } catch (error) {
    throw new UsageError(`--grant: ${(error as Error).message}; to grant all, write --grant at the end`)
  }
  return before === true ? [text] : [...before, text]
}
export const grantHelp = 'grant this permission, or all that it asks for; repeatable'
export type GrantFlag = readonly string[] | true | undefined
const bodyOf = (grant: GrantFlag): object =>
  grant === undefined ? {} : { grant: grant === true ? 'all' : grant }

const nameOf = (target: string): string => (target.startsWith('file:') ? basename(target) : target)

/** An operation that may ask for more: on a terminal the operator is asked, and it is done again with what was granted. */
export async function operateWithGrant(
  context: CommandContext,
  host: ApiClient,
  path: string,
  body: object,
  grant: GrantFlag,
): Promise<Job> {
  try {
    return await operate(context, host, path, { ...body, ...bodyOf(grant) })
  } catch (error) {
    if (!(error instanceof AskedForMore) || grant !== undefined || !isTerminal(context)) throw error
    if (!(await isGranted(context, nameOf(error.target), error.asks))) throw error
    return operate(context, host, path, { ...body, grant: error.asks })
  }
}

/** On a terminal: asks about those that wait for it, and grants. */
export async function offerGrants(
  context: CommandContext,
  host: ApiClient,
  ids: readonly string[],
): Promise<void> {
  if (!isTerminal(context)) return
  for (const id of ids) {
    const asked = (await permissionsOf(host, id)).flatMap(each =>
      each.state === 'asked' ? each.permission : [],
    )
    if (asked.length === 0 || !(await isGranted(context, id, asked))) continue
    await host.request('PUT', pathOf(id), { granted: asked })
  }
}

async function decided(
  { out }: CommandContext,
  host: ApiClient,
  { id, permissions }: Permissions,
): Promise<Answer> {
  const record = (await listOf(host)).find(each => each.id === id)
  const lines = [
    ...(permissions.length ? [permissionTable(out, permissions)] : []),
    ...(record ? [sentence(record)] : []),
  ]
  return {
    data: { id, permissions, extension: record },
    text: lines.join('\n\n') || `${id} asks for nothing.`,
    code: record && hasFailed(record) ? exitCode.refused : exitCode.done,
  }
}

export function permissionVerbs(program: Command, context: CommandContext, online: Verb): void {
  program
    .command('grant')
    .description('let an extension do what it asks for: all that nobody has decided on, or what is named')
    .argument('<id>')
    .argument('[permission...]', 'as "info" shows them, such as network:api.example.com')
    .option('--yes', 'do not ask')
    .option('--json', 'machine-readable')
    .action((id: string, named: string[], { yes }) =>
      online(async host => {
        const now = await host.request<Permissions>('GET', pathOf(id))
        const asked = now.permissions.flatMap(each => (each.state === 'asked' ? each.permission : []))
        if (named.length === 0 && asked.length === 0) return decided(context, host, now)
        if (named.length === 0 && !yes) {
          if (!isTerminal(context))
            throw new UsageError(`grant ${id} asks before it acts; add --yes where nobody can answer`)
          if (!(await isGranted(context, id, asked)))
            return { data: now, text: 'Nothing was changed.', code: exitCode.refused }
        }
        const granted = named.length ? named : asked
        return decided(context, host, await host.request('PUT', pathOf(id), { granted }))
      }),
    )
  program
    .command('revoke')
    .description('keep an extension from something, also where it was granted; it starts anew without it')
    .argument('<id>')
    .argument('<permission...>', 'as "info" shows them')
    .option('--json', 'machine-readable')
    .action((id: string, refused: string[]) =>
      online(async host => decided(context, host, await host.request('PUT', pathOf(id), { refused }))),
    )
}
