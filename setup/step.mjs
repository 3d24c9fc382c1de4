// What the steps of the set-up share: saying what is done, and running a command in plain sight.
import { spawnSync } from 'node:child_process'

/** A set-up that cannot go on, with a sentence that says what the user can do. */
export class SetupError extends Error {}

/** @param {string} what */
export const say = what => console.error(`svc-host set-up: ${what}`)

/**
 * Runs a command with its output shown. True when it succeeded; a command ended by a signal ends the set-up.
 *
 * `holdLock` hands it the set-up's lock too, so that should only the set-up itself be killed, a second one waits
 * until this command has stopped writing. Not for apt, whose packages may start services that would keep it.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ env?: NodeJS.ProcessEnv, holdLock?: boolean }} [options]
 */
export function run(command, args, { env, holdLock } = {}) {
  const lock = Number(process.env['SVC_SETUP_LOCK_FD'])
  const ended = spawnSync(command, args, {
    // Output goes to stderr throughout, so that what the user asked for has stdout to itself.
    stdio: holdLock && lock ? ['inherit', 2, 2, lock] : ['inherit', 2, 2],
    env: { ...process.env, ...env },
  })
  if (ended.error) throw new SetupError(`cannot run ${command}: ${ended.error.message}`)
  if (ended.signal)
    throw new SetupError(`${command} was stopped by ${ended.signal}; run the same command again`)
  return ended.status === 0
}

/**
 * Runs a command silently and gives what it wrote, whatever its exit status; undefined when there is no such command.
 * @param {string} command
 * @param {readonly string[]} args
 */
export function ask(command, args) {
  const { error, status, stdout } = spawnSync(command, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  return error ? undefined : { status, stdout }
}

/**
 * How to run something as root: no prefix for root, sudo where it can be had, undefined where neither is.
 * A password is only asked for where there is someone at a terminal to give it.
 * @returns {readonly string[] | undefined}
 */
export function asRoot() {
  if (process.getuid?.() === 0) return []
  if (ask('sudo', ['-n', 'true'])?.status === 0) return ['sudo', '-n']
  return process.stdin.isTTY && ask('sudo', ['-V']) ? ['sudo'] : undefined
}
