// `svc-host plugins`: the extensions of a running host.
import { Command as Parser } from 'commander'
import { runVerbs } from 'svc-host/api/ctl'
import type { ApiClient } from 'svc-host/client'
import { defineCommand, type ExtensionRecord } from 'svc-host/sdk'
import { hasFailed, listText, outcomeText } from './report.ts'

const list = async (host: ApiClient): Promise<readonly ExtensionRecord[]> =>
  (await host.request<{ extensions: ExtensionRecord[] }>('GET', '/extensions')).extensions

/** One after the other, so that a refusal names the one it is about and the rest is untouched. */
async function change(host: ApiClient, ids: readonly string[], enabled: boolean): Promise<ExtensionRecord[]> {
  for (const id of ids) await host.request('PUT', `/extensions/${encodeURIComponent(id)}`, { enabled })
  const records = await list(host)
  return ids.flatMap(id => records.find(record => record.id === id) ?? [])
}

export default defineCommand({
  run: context =>
    runVerbs(context, new Parser('svc-host plugins'), (program, verb) => {
      program.description('The extensions of the running host: every feature is one, built in or installed.')
      program
        .command('list')
        .description('every extension, its state, and why it is not on')
        .option('--json', 'machine-readable')
        .action(() =>
          verb(async host => {
            const records = await list(host)
            return { data: { extensions: records }, text: listText(context.out, records) }
          }),
        )
      for (const [name, enabled, title] of [
        ['enable', true, 'switch extensions on'],
        ['disable', false, 'switch extensions off; those that need them wait until they are back'],
      ] as const)
        program
          .command(name)
          .description(title)
          .argument('<id...>', 'extensions, as "list" names them')
          .option('--json', 'machine-readable')
          .action((ids: string[]) =>
            verb(async host => {
              const records = await change(host, ids, enabled)
              const code = enabled && records.some(hasFailed) ? 1 : 0
              const text = outcomeText(records, enabled, await list(host))
              return { data: { extensions: records }, text, code }
            }),
          )
    }),
})
