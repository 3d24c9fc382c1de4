// `svc-host plugins`: the extensions of a running host, packages, and what authors need.
import { Command as Parser } from 'commander'
import { exitCode, runVerbs, type Verb } from 'svc-host/api/ctl'
import type { ApiClient } from 'svc-host/client'
import { type CommandContext, defineCommand } from 'svc-host/sdk'
import { authorVerbs } from './author-verbs.ts'
import { configVerbs } from './config-verbs.ts'
import { doctorVerb } from './doctor-verb.ts'
import { showExamples } from './examples.ts'
import { logVerb } from './log-verb.ts'
import { packageVerbs } from './package-verbs.ts'
import { permissionVerbs } from './permission-verbs.ts'
import { hasFailed, listOf, listText, outcomeText } from './report.ts'
import { topVerb } from './top-verb.ts'

/** One after the other: a refusal is about one, and leaves those after it as they were. */
async function switchAll(host: ApiClient, ids: readonly string[], steps: readonly boolean[]) {
  const before = await listOf(host)
  for (const id of ids)
    for (const enabled of steps)
      await host.request('PUT', `/extensions/${encodeURIComponent(id)}`, { enabled })
  const after = await listOf(host)
  const switched = after.filter(({ id }) => ids.includes(id))
  const code = steps.at(-1) && switched.some(hasFailed) ? exitCode.refused : exitCode.done
  return { data: { extensions: switched }, text: outcomeText(ids, before, after), code }
}

function switchVerbs(program: Parser, { out }: CommandContext, online: Verb): void {
  program
    .command('list')
    .description('every extension, its state, and why it is not on')
    .option('--json', 'machine-readable')
    .action(() =>
      online(async host => {
        const records = await listOf(host)
        return { data: { extensions: records }, text: listText(out, records) }
      }),
    )
  for (const [name, steps, title] of [
    ['enable', [true], 'switch extensions on'],
    ['disable', [false], 'switch extensions off; those that need them wait until they are back'],
    ['restart', [false, true], 'switch extensions off and on again'],
  ] as const)
    program
      .command(name)
      .description(title)
      .argument('<id...>', 'extensions, as "list" names them')
      .option('--json', 'machine-readable')
      .action((ids: string[]) => online(host => switchAll(host, ids, steps)))
}

export default defineCommand({
  run(context) {
    // Some verbs need no host, so that each connects for itself.
    const unconnected = { ...context, connect: async () => undefined as unknown as ApiClient }
    return runVerbs(unconnected, new Parser('svc-host plugins'), (program, offline) => {
      const online: Verb = work => offline(async () => work(await context.connect()))
      program.description('The extensions of the running host: every feature is one, built in or installed.')
      switchVerbs(program, context, online)
      configVerbs(program, context, online)
      topVerb(program, context)
      logVerb(program, context, online)
      doctorVerb(program, context, offline)
      packageVerbs(program, context, online)
      permissionVerbs(program, context, online)
      authorVerbs(program, context, offline)
      showExamples(program)
    })
  },
})
