// `svc-host plugins`: the extensions of a running host.
import { Command as Parser } from 'commander'
import { exitCode, runVerbs } from 'svc-host/api/ctl'
import type { ApiClient } from 'svc-host/client'
import { defineCommand, type ExtensionRecord } from 'svc-host/sdk'
import { hasFailed, listText, outcomeText } from './report.ts'

const list = async (host: ApiClient): Promise<readonly ExtensionRecord[]> =>
  (await host.request<{ extensions: ExtensionRecord[] }>('GET', '/extensions')).extensions

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
              const before = await list(host)
              // One after the other: a refusal is about one, and leaves those after it as they were.
              for (const id of ids)
                await host.request('PUT', `/extensions/${encodeURIComponent(id)}`, { enabled })
              const after = await list(host)
              const switched = after.filter(({ id }) => ids.includes(id))
              const code = enabled && switched.some(hasFailed) ? exitCode.refused : exitCode.done
              return { data: { extensions: switched }, text: outcomeText(ids, before, after), code }
            }),
          )
    }),
})
