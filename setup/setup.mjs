// Brings a machine to the point where the host runs. Called by run.sh, which holds the lock; needs Node 20 and npm
// only. Every step looks first and is silent when there is nothing to do, so an interrupted set-up is just run again.
import { resolve } from 'node:path'
import { chdir, exit } from 'node:process'
import { installModules } from './modules.mjs'
import { buildNative } from './native.mjs'
import { addSessionAccount } from './session-account.mjs'
import { SetupError } from './step.mjs'
import { installSystemPackages } from './system-packages.mjs'

/** What each level adds to the one before it. */
const levels = ['modules', 'start', 'test', 'bench']

/** @param {string} level */
function setUp(level) {
  const reach = levels.indexOf(level)
  if (reach < 0) throw new SetupError(`no such level: ${level} (one of ${levels.join(', ')})`)
  if (reach >= levels.indexOf('start')) {
    installSystemPackages(levels.slice(0, reach + 1))
    addSessionAccount()
  }
  installModules()
  if (reach >= levels.indexOf('start')) buildNative()
}

chdir(resolve(import.meta.dirname, '..'))
try {
  setUp(process.argv[2] ?? 'start')
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  console.error(`svc-host set-up: ${error.message}`)
  exit(1)
}
