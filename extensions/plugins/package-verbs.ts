// The verbs that install, update, roll back and remove packages, and those that tell of them.
import type { Command } from 'commander'
import { exitCode, orElse, plain, table, UsageError, type Verb } from 'svc-host/api/ctl'
import { type ApiClient, ApiError } from 'svc-host/client'
import type { CommandContext, ExtensionRecord } from 'svc-host/sdk'
import { operate } from './operation.ts'
import { grantHelp, grantOption, offerGrants, operateWithGrant, permissionsOf } from './permission-verbs.ts'
import { detailText, listOf, sentence } from './report.ts'
import type { InstalledRow, Job } from './schema.ts'
import { installedAs, isId, requestOf } from './target.ts'

const rowsOf = (host: ApiClient): Promise<InstalledRow[]> => host.request('GET', '/store/installed')

/** What the plugin runner says of its units. */
interface Runtime {
  readonly units: readonly { readonly id: string; readonly state: string; readonly why?: string }[]
}

interface CatalogEntry {
  readonly id: string
  readonly pkg: string
  readonly title: string
  readonly description: string
  readonly version: string
  readonly tier: string
  readonly source: string
}

const entriesOf = async (host: ApiClient): Promise<readonly CatalogEntry[]> =>
  (await orElse(host.request<{ plugins: CatalogEntry[] }>('GET', '/store/catalog'), { plugins: [] })).plugins

/** `@scope=https://…`, or http:// for a registry of one's own, as often as it is given. */
const registriesOf = (given: readonly string[] = []): Record<string, string> =>
  Object.fromEntries(
    given.map(text => {
      const [, scope, url] = /^(@[a-z0-9._~-]+)=(https?:\/\/.+)$/.exec(text) ?? []
      const remedy = 'names without a scope come from the registry of npm itself, npm_config_registry'
      if (!scope) throw new UsageError(`--registry ${text}: expected @scope=https://…; ${remedy}`)
      return [scope, url!]
    }),
  )

/** How those that were worked on are now: what a person wants to read after it. */
async function outcome(host: ApiClient, jobs: readonly Job[], ids: readonly string[]) {
  const records = (await listOf(host)).filter(({ id }) => ids.includes(id))
  // How they were in between is told no more.
  const isPast = (line: string): boolean => records.some(({ id }) => line.startsWith(`${id} is `))
  const told = jobs.flatMap(({ log }) => log.filter(line => !isPast(line)).map(line => `${plain(line)}.`))
  const lines = [...told, ...records.map(sentence)]
  // Who waits for a grant is installed; it is said what to run.
  const isBroken = records.some(
    ({ state, enabled, permissions }: ExtensionRecord) =>
      enabled && state !== 'on' && !permissions.some(each => each.state === 'asked'),
  )
  return {
    data: { jobs, extensions: records },
    text: lines.join('\n'),
    code: isBroken ? exitCode.refused : exitCode.done,
  }
}

const several = (value: string, before: string[] = []): string[] => [...before, value]

export function packageVerbs(program: Command, context: CommandContext, online: Verb): void {
  const json = (verb: Command): Command => verb.option('--json', 'machine-readable')

  json(
    program
      .command('add')
      .description('install packages, by name, or by the path of a packed one or of a folder'),
  )
    .argument('<what...>', 'NAME[@VERSION] is @svc/plugin-NAME; ./x.tgz and ./folder need no registry')
    .option('--allow-public-registry', 'names outside the scope of the vendor')
    .option('--exact', 'take names as they stand')
    .option('--registry <@scope=url>', 'where a scope is looked up; repeatable', several)
    .option('--source <name>', 'take entries of this catalog')
    .option('--trust', 'let it run in the process of the host, with all its rights, if it wants that')
    .option('--grant [permission]', grantHelp, grantOption)
    .action((what: string[], flags) =>
      online(async host => {
        const options = { exact: !!flags.exact, allowPublic: !!flags.allowPublicRegistry }
        const registries = registriesOf(flags.registry)
        const isBare = what.some(text => isId(text) && !options.exact)
        const entries = isBare || flags.source !== undefined ? await entriesOf(host) : []
        const requests = what.map(text => requestOf(text, entries, { ...options, source: flags.source }))
        const before = await rowsOf(host)
        const jobs: Job[] = []
        for (const request of requests) {
          const more = 'spec' in request ? { accept_unverified: true, via: 'cli', registries } : {}
          const body = { ...request, ...more, trust: !!flags.trust }
          jobs.push(await operateWithGrant(context, host, 'install', body, flags.grant))
        }
        const same = (a: InstalledRow, b: InstalledRow): boolean => a.pkg === b.pkg && a.version === b.version
        const fresh = (await rowsOf(host)).filter(row => !before.some(other => same(row, other)))
        const ids = fresh.flatMap(({ plugin_id }) => plugin_id ?? [])
        if (flags.grant === undefined) await offerGrants(context, host, ids)
        return outcome(host, jobs, ids)
      }),
    )

  json(program.command('remove').description('remove packages and all that they have left'))
    .argument('<name...>')
    .option('--keep-data', 'keep their state and their config')
    .action((names: string[], flags) =>
      online(async host => {
        const rows = await rowsOf(host)
        const packages = names.map(name => installedAs(rows, name, 'nothing was removed').pkg)
        const jobs: Job[] = []
        for (const pkg of packages)
          jobs.push(await operate(context, host, 'uninstall', { pkg, keep_data: !!flags.keepData }))
        return outcome(host, jobs, [])
      }),
    )

  json(program.command('update').description('update packages, all that are not pinned where none is named'))
    .argument('[name...]')
    .option('--version <version>', 'of the one that is named')
    .option('--grant [permission]', grantHelp, grantOption)
    .action((names: string[], flags) =>
      online(async host => {
        const rows = await rowsOf(host)
        if (flags.version !== undefined && names.length !== 1)
          throw new UsageError('--version is for one name')
        const meant = names.length
          ? names.map(name => installedAs(rows, name))
          : rows.filter(({ pinned }) => !pinned)
        const jobs: Job[] = []
        const refused: { pkg: string; message: string }[] = []
        for (const { pkg } of meant)
          try {
            const body = { pkg, version: flags.version }
            jobs.push(await operateWithGrant(context, host, 'update', body, flags.grant))
          } catch (error) {
            // One that cannot be updated, or asks for more, does not keep the others from it.
            if (!(error instanceof ApiError) || error.code !== 'refused' || meant.length === 1) throw error
            refused.push({ pkg, message: error.message })
          }
        const ids = meant.flatMap(({ plugin_id }) => plugin_id ?? [])
        const answer = await outcome(host, jobs, ids)
        if (refused.length === 0) return answer
        const lines = refused.map(({ pkg, message }) => `${pkg}: ${plain(message)}.`)
        return {
          data: { ...answer.data, refused },
          text: [...lines, answer.text].join('\n'),
          code: exitCode.refused,
        }
      }),
    )

  json(program.command('rollback').description('go back to the version before'))
    .argument('<name>')
    .option('--grant [permission]', grantHelp, grantOption)
    .action((name: string, flags) =>
      online(async host => {
        const { pkg, plugin_id } = installedAs(await rowsOf(host), name)
        const job = await operateWithGrant(context, host, 'rollback', { pkg }, flags.grant)
        return outcome(host, [job], plugin_id ? [plugin_id] : [])
      }),
    )

  for (const [verb, pinned, title] of [
    ['pin', true, 'leave a package out when all are updated'],
    ['unpin', false, 'take it in again'],
  ] as const)
    json(program.command(verb).description(title))
      .argument('<name>')
      .action((name: string) =>
        online(async host => {
          const { pkg, version } = installedAs(await rowsOf(host), name)
          await host.request('PUT', '/store/pin', { pkg, pinned })
          return {
            data: { pkg, pinned },
            text: `${pkg} ${pinned ? `stays at ${version}` : 'is updated with the others'}.`,
          }
        }),
      )

  json(program.command('info').description('all that is known of an extension or a package'))
    .argument('<name>')
    .action((name: string) =>
      online(async host => {
        const [rows, records, entries] = await Promise.all([
          orElse(rowsOf(host), []),
          listOf(host),
          entriesOf(host),
        ])
        const row = rows.find(({ pkg, plugin_id }) => [pkg, plugin_id].includes(name))
        const record = records.find(({ id }) => id === (row?.plugin_id ?? name))
        const entry = entries.find(({ id, pkg }) => [id, pkg].includes(row?.pkg ?? name))
        if (!row && !record && !entry) throw new UsageError(`${name} is neither installed nor in a catalog`)
        const permissions = record || row ? await permissionsOf(host, row?.plugin_id ?? name) : []
        const data = { extension: record, installed: row, entry, permissions }
        return { data, text: detailText(record, row, entry, permissions) }
      }),
    )

  json(program.command('search').description('what the catalogs offer'))
    .argument('[words...]')
    .action((words: string[]) =>
      online(async host => {
        const has = ({ id, pkg, title, description }: CatalogEntry): boolean =>
          words.every(word =>
            `${id} ${pkg} ${title} ${description}`.toLowerCase().includes(word.toLowerCase()),
          )
        const found = (await entriesOf(host)).filter(has)
        const rows = found.map(({ id, version, tier, source, title }) => [id, version, tier, source, title])
        const text = rows.length
          ? table(context.out, ['ID', 'VERSION', 'TIER', 'SOURCE', 'TITLE'], rows)
          : 'nothing found'
        return { data: { plugins: found }, text }
      }),
    )

  json(program.command('status').description('the installed packages and how they fare'))
    .argument('[name]')
    .action((name?: string) =>
      online(async host => {
        const [rows, records, { units }] = await Promise.all([
          rowsOf(host),
          listOf(host),
          orElse(host.request<Runtime>('GET', '/store/runtime'), { units: [] }),
        ])
        const meant = name === undefined ? rows : [installedAs(rows, name)]
        const ofRunner = meant.flatMap(({ unit, plugin_id }) => (unit && plugin_id) || [])
        const asks = await Promise.all(ofRunner.map(id => permissionsOf(host, id)))
        const waiting = ofRunner.filter((_, i) => asks[i]!.some(({ state }) => state === 'asked'))
        const lines = meant.map(
          ({ pkg, version = '', tier, plugin_id, update_available, blocked, pinned, unit }) => {
            const record = unit
              ? (units.find(({ id }) => id === plugin_id) ?? { state: 'not running', why: undefined })
              : records.find(({ id }) => id === plugin_id)
            const remarks = [
              blocked && `blocked: ${blocked}`,
              update_available && `${update_available} is there`,
              pinned && 'pinned',
              record?.why ??
                (waiting.includes(plugin_id!) && `waits for you: svc-host plugins grant ${plugin_id}`),
            ]
            return [pkg, version, tier, record?.state ?? 'unknown', remarks.filter(Boolean).join('; ')]
          },
        )
        const text = lines.length
          ? table(context.out, ['PACKAGE', 'VERSION', 'TIER', 'STATE', 'REMARKS'], lines)
          : 'nothing is installed'
        return { data: { installed: meant }, text }
      }),
    )
}
