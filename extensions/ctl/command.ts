// `svc-host ctl`: the verbs that drive a running host.
import { Command as Parser } from 'commander'
import { defineCommand } from 'svc-host/sdk'
import { runVerbs } from './api.ts'
import { declareDevices } from './devices.ts'
import { declareDisplay } from './display.ts'
import { declarePair } from './pair.ts'
import { declarePending } from './pending.ts'
import { declareStatus } from './status.ts'
import { declareWatch } from './watch.ts'

export default defineCommand({
  run: context =>
    runVerbs(context, new Parser('svc-host ctl'), (program, verb) => {
      program.description('Drives the host that runs on this machine with this config folder.')
      program.option('--json', 'one JSON object on standard output: {"v":1,"data":…} or {"v":1,"error":…}')
      declareStatus(program, verb, context)
      declarePair(program, verb, context)
      declarePending(program, verb, context)
      declareDevices(program, verb, context)
      declareDisplay(program, verb, context)
      declareWatch(program, context)
      withJsonEverywhere(program)
      program.addHelpText(
        'after',
        '\nExit codes: 0 done, 1 refused, 2 wrong usage, 3 no host there, 4 another certificate.',
      )
    }),
})

/** `--json` is understood before and after a verb; it is read from the arguments themselves. */
function withJsonEverywhere(parser: Parser): void {
  for (const verb of parser.commands) {
    verb.option('--json', 'machine-readable')
    withJsonEverywhere(verb)
  }
}
