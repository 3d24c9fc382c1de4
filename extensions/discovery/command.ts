// `svc-host openapi`: the OpenAPI document of this release, or of the host that is running.
import { Command as Parser } from 'commander'
import released from 'svc-host/openapi.json' with { type: 'json' }
import { defineCommand } from 'svc-host/sdk'

export default defineCommand({
  async run(context) {
    const program = new Parser('svc-host openapi')
      .description('Print the OpenAPI 3.1 document of this release; no host need be running.')
      .option('--live', 'of the running host instead: the routes that are live now, plugins included')
      .exitOverride()
      .configureOutput({
        writeOut: text => context.out.write(text),
        writeErr: text => context.err.write(text),
      })
      .action(async ({ live }: { live?: boolean }) => {
        const { openapi, info, paths, ...rest } = live
          ? await (await context.connect()).request<typeof released>(
              'GET',
              '/openapi.json',
              undefined,
              context,
            )
          : { ...released, info: { ...released.info, version: context.version } }
        context.out.write(`${JSON.stringify({ openapi, info, paths, ...rest }, null, 2)}\n`)
      })
    try {
      await program.parseAsync(context.argv, { from: 'user' })
    } catch (error) {
      const known = error as { code?: unknown; exitCode?: number }
      if (!String(known.code).startsWith('commander.')) throw error
      return known.exitCode === 0 ? 0 : 2
    }
    return 0
  },
})
