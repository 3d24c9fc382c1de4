// `svc-host setup`: brings this machine to the point where the host runs; may be stopped anywhere and run again.
import { spawn } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Command as Parser } from 'commander'
import { type CommandContext, defineCommand } from 'svc-host/sdk'

/** Of a checkout or of the installed package: both hold the set-up that `npm start` runs too. */
const root = dirname(createRequire(import.meta.url).resolve('svc-host/package.json'))

/** It says on standard error what it does, asks for a password where it must, and needs Node for nothing but itself. */
async function setUp({ out, err, signal }: CommandContext): Promise<number> {
  const env = { ...process.env, npm_node_execpath: process.execPath }
  const child = spawn('sh', [join(root, 'setup/run.sh'), 'setup'], { env, stdio: 'inherit' })
  const stop = (): unknown => child.kill()
  signal.addEventListener('abort', stop)
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject).once('exit', resolve)
  })
  signal.removeEventListener('abort', stop)
  if (code === 0) out.write('This machine is set up; "svc-host serve" starts the host.\n')
  else err.write('The machine is not set up yet; the lines above say why.\n')
  return code === 0 ? 0 : 1
}

export default defineCommand({
  async run(context) {
    let code = 0
    const program = new Parser('svc-host setup')
      .description(
        'Install the system packages that this host needs, add the account that sessions run as, and build the\n' +
          'media engine, each where it is missing. Needs root or sudo only for what is the whole machine’s.',
      )
      .allowExcessArguments(false)
      .exitOverride()
      .configureOutput({
        writeOut: text => context.out.write(text),
        writeErr: text => context.err.write(text),
      })
      .action(async () => {
        code = await setUp(context)
      })
    try {
      await program.parseAsync(context.argv, { from: 'user' })
    } catch (error) {
      const known = error as { code?: unknown; exitCode?: number }
      if (!String(known.code).startsWith('commander.')) throw error
      return known.exitCode === 0 ? 0 : 2
    }
    return code
  },
})
