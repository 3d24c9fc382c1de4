// The verbs that read and change configs of extensions.
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { type Answer, exitCode, plain, table, UsageError, type Verb } from 'svc-host/api/ctl'
import { type ApiClient, ApiError } from 'svc-host/client'
import type { CommandContext, ExtensionRecord } from 'svc-host/sdk'
import { editConfig } from './config-edit.ts'
import {
  checkRead,
  getAt,
  inForce,
  pathOf,
  readValue,
  rowsOf,
  withoutValue,
  withValue,
} from './config-keys.ts'
import type { ConfigRecord } from './config-record.ts'
import { facetsAt, isSecret, type Json } from './config-schema.ts'
import { hasFailed, sentence } from './report.ts'

/** How often a change is made anew when somebody else was faster. */
const tries = 5

interface Stored {
  readonly config: ConfigRecord
  readonly extension: ExtensionRecord
}

const urlOf = (id: string): string => `/extensions/${encodeURIComponent(id)}/config`
const read = (host: ApiClient, id: string): Promise<ConfigRecord> => host.request('GET', urlOf(id))
const store = (host: ApiClient, id: string, values: Json, revision: string): Promise<Stored> =>
  host.request('PUT', urlOf(id), { values, revision })

/** Reads, changes and stores as one: what others change meanwhile is not lost. */
async function change(host: ApiClient, id: string, edit: (now: ConfigRecord) => unknown): Promise<Answer> {
  for (let left = tries; ; left--) {
    const now = await read(host, id)
    try {
      return outcome(await store(host, id, edit(now) as Json, now.revision))
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 412 || left === 1) throw error
    }
  }
}

function outcome(stored: Stored): Answer {
  const { config, extension } = stored
  const unread = config.unknown.map(path => path.join('.'))
  const lines = [
    sentence(extension),
    ...(unread.length ? [`Nobody reads ${unread.join(', ')}; check the spelling.`] : []),
    ...(hasFailed(extension)
      ? ['The config is stored; change it again, or see "svc-host plugins logs".']
      : []),
  ]
  return {
    data: stored,
    text: plainLines(lines),
    code: hasFailed(extension) ? exitCode.refused : exitCode.done,
  }
}
const plainLines = (lines: readonly string[]): string => lines.map(plain).join('\n')

const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2))

function configText({ out }: CommandContext, record: ConfigRecord): string {
  const rows = rowsOf(record).map(({ path, value, from, isUnread }) => [
    path.join('.'),
    value === undefined ? '' : JSON.stringify(value),
    isUnread ? { text: `${from}; nobody reads it`, colour: 'yellow' as const } : from,
  ])
  const text = rows.length ? table(out, ['KEY', 'VALUE', 'FROM'], rows) : `${record.id} has no config`
  return record.problem === null ? text : `${text}\n\n${plain(record.problem)}`
}

const several = (value: string, before: string[] = []): string[] => [...before, value]

function readText(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8').replace(/\r?\n$/, '')
  } catch (error) {
    throw new UsageError(`${plain(file)} cannot be read: ${(error as Error).message}`)
  }
}

/** `KEY=VALUE`; the first `=` parts them. */
function assignment(text: string): [key: string, value: string] {
  const at = text.indexOf('=')
  if (at < 1) throw new UsageError(`${plain(text)}: expected KEY=VALUE, such as paint.colour=red`)
  return [text.slice(0, at), text.slice(at + 1)]
}

export function configVerbs(program: Command, context: CommandContext, online: Verb): void {
  const config = program
    .command('config')
    .description('what an extension is set to, and changing it; it restarts with what is stored')
  const verb = (name: string, description: string): Command =>
    config.command(name).description(description).option('--json', 'machine-readable')

  verb('get', 'every value with where it is from, or one value')
    .argument('<id>')
    .argument('[key]', 'dots lead into objects and lists: paint.colour, hosts.0')
    .action((id: string, key?: string) =>
      online(async host => {
        const record = await read(host, id)
        if (key === undefined) return { data: record, text: configText(context, record) }
        const path = pathOf(key, record)
        const value = getAt(inForce(record), path)
        if (value === undefined) throw new ApiError('refused', `${id} has nothing at ${plain(key)}`)
        return { data: value, text: shown(value) }
      }),
    )

  verb('set', 'change values, as the schema has them')
    .argument('<id>')
    .argument('[assignments...]', 'KEY=VALUE; lists and objects as JSON')
    .option(
      '--from <key=file>',
      'a value that is the text of a file, - for standard input: for secrets',
      several,
    )
    .option('--force', 'also what nobody reads, such as a key of a version that is yet to come')
    .action((id: string, given: string[], { from = [], force }: { from?: string[]; force?: boolean }) =>
      online(async host => {
        const typed = given.map(assignment)
        const read = from.map(assignment).map(([key, file]) => [key, readText(file)] as const)
        if (typed.length + read.length === 0) throw new UsageError('nothing to set: expected KEY=VALUE')
        const answer = await change(host, id, now =>
          [...typed, ...read].reduce<unknown>((values, [key, text]) => {
            const record = { ...now, values: values as Json }
            const path = pathOf(key, record)
            const next = withValue(values, path, readValue(key, text, record))
            if (!force) checkRead(next, path, record)
            return next
          }, now.values),
        )
        const { config } = answer.data as Stored
        const bare = typed
          .map(([key]) => key)
          .filter(key => isSecret({ facets: facetsAt(config.schema, pathOf(key, config)) }))
        if (bare.length === 0) return answer
        const warning = `Whoever lists processes could have read ${bare.join(', ')}; "--from ${bare[0]}=FILE" keeps a secret from them.`
        return { ...answer, text: `${answer.text}\n${plain(warning)}` }
      }),
    )

  verb('unset', 'take values out, so that the defaults hold')
    .argument('<id>')
    .argument('<keys...>')
    .action((id: string, keys: string[]) =>
      online(host =>
        change(host, id, now =>
          keys.reduce<unknown>((values, key) => {
            const path = pathOf(key, now)
            if (getAt(values, path) === undefined)
              throw new ApiError('refused', `${id} has nothing stored at ${plain(key)}`)
            return withoutValue(values, path) ?? {}
          }, now.values),
        ),
      ),
    )

  verb('edit', 'change all of it in $VISUAL or $EDITOR; asks again where it does not fit')
    .argument('<id>')
    .action((id: string) =>
      online(async host => {
        const stored = await editConfig(
          await read(host, id),
          () => read(host, id),
          (values, revision) => store(host, id, values, revision),
        )
        return stored ? outcome(stored) : { data: { changed: false }, text: 'nothing was changed' }
      }),
    )
}
