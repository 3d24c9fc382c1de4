// The verb that looks for what is wrong, with or without a running host.
import type { Command } from 'commander'
import { exitCode, UsageError, type Verb } from 'svc-host/api/ctl'
import { ApiError } from 'svc-host/client'
import type { CommandContext } from 'svc-host/sdk'
import { type Check, examineAll, findingsText } from './doctor.ts'
import { folderChecks } from './doctor-folder.ts'
import { hostChecks, runtimeOf, withoutHost } from './doctor-host.ts'
import { listOf } from './report.ts'

export function doctorVerb(program: Command, context: CommandContext, offline: Verb): void {
  program
    .command('doctor')
    .description('look for what is wrong, and say what to do; exit code 1 when there is an error')
    .argument('[id]', 'only what is about this extension')
    .option('--network', 'ask the registry, too')
    .option('--json', 'machine-readable')
    .action((id: string | undefined, { network }: { network?: boolean }) =>
      offline(async () => {
        let online: Check[]
        let isRunning = false
        try {
          const host = await context.connect()
          const records = await listOf(host)
          isRunning = true
          const known = [...records, ...(await runtimeOf(host)).units]
          if (id !== undefined && !known.some(each => each.id === id))
            throw new UsageError(
              `there is neither an extension nor a unit "${id}"; "svc-host plugins list" shows extensions`,
            )
          online = hostChecks(host, records)
        } catch (error) {
          if (!(error instanceof ApiError)) throw error
          // Somebody else answers at that address, or one that will not have us: not a host of this folder.
          online = withoutHost(error.message)
        }
        const { configDir, examine } = context
        const folder = folderChecks({ configDir, examine, isRunning, mayAskNetwork: network === true })
        const findings = await examineAll([...online, ...folder], id)
        const code = findings.some(({ level }) => level === 'error') ? exitCode.refused : exitCode.done
        return { data: { findings }, text: findingsText(context.out, findings), code }
      }),
    )
}
