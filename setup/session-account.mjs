// The account that the programs of a session run as where the host is root: it owns nothing and nobody can log in to it.
import { existsSync } from 'node:fs'
import { ask, run, SetupError, say } from './step.mjs'

const name = 'svc-session'
const home = '/var/lib/svc-session'

export function addSessionAccount() {
  if (process.getuid?.() !== 0) return
  if (ask('getent', ['passwd', name])?.status !== 0) {
    say(`adding the system account ${name}, which the programs of a session run as`)
    const made = run('useradd', [
      '--system',
      '--user-group',
      '--home-dir',
      home,
      '--shell',
      '/bin/bash',
      name,
    ])
    if (!made) throw new SetupError(`the account ${name} could not be added`)
  }
  // Made in one call with its owner and mode, so that an interruption leaves either nothing or the whole.
  if (!existsSync(home)) run('install', ['-d', '-o', name, '-g', name, '-m', '0700', home])
}
