// The node modules, Node 24 among them: installed when package-lock.json is not the one that was installed last.
import { createHash } from 'node:crypto'
import {
  accessSync,
  constants,
  existsSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, dirname, join, resolve, sep } from 'node:path'
import { ask, run, SetupError, say } from './step.mjs'

const stamp = 'node_modules/.svc-host-installed'
const node24 = 'node_modules/.bin/node'

export function installModules() {
  // An installed package has none of its own to install: whoever installed it did that.
  if (!existsSync('package-lock.json')) return
  const locked = readFileSync('package-lock.json', 'utf8')
  const want = createHash('sha256').update(`${process.platform} ${process.arch}\n${locked}`).digest('hex')
  if (hasNode24() && existsSync(stamp) && readFileSync(stamp, 'utf8') === want) return
  if (!hasNode24() || !isInstalledByHand(locked)) {
    say('installing the node modules: npm ci')
    rmSync(stamp, { force: true })
    const { command, args, env } = npm()
    if (
      !run(command, [...args, 'ci', '--no-audit', '--no-fund', '--loglevel=error'], { env, holdLock: true })
    ) {
      throw new SetupError('npm ci failed; what it says above is why')
    }
    if (ask(node24, ['--version'])?.status !== 0) {
      throw new SetupError(
        'npm ci left no Node 24 behind (were install scripts switched off?); it is needed to run',
      )
    }
  }
  // Written last and moved into place whole, so that it is there only after all of the above.
  writeFileSync(`${stamp}.${process.pid}.tmp`, want)
  renameSync(`${stamp}.${process.pid}.tmp`, stamp)
}

function hasNode24() {
  try {
    accessSync(node24, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/**
 * True after somebody's own `npm install`: the record that npm writes once it is done holds just what the lock asks for.
 * @param {string} locked
 */
function isInstalledByHand(locked) {
  const record = 'node_modules/.package-lock.json'
  if (!existsSync(record)) return false
  const has = JSON.parse(readFileSync(record, 'utf8')).packages
  return Object.entries(JSON.parse(locked).packages).every(
    ([path, { version, optional }]) => path === '' || (has[path] ? has[path].version === version : optional),
  )
}

/**
 * How to run npm on a Node that lies outside of node_modules, which `npm ci` empties under the feet of its own.
 */
function npm() {
  const own = resolve('node_modules') + sep
  const path = (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter(dir => !`${resolve(dir)}${sep}`.startsWith(own))
  const outside = [process.execPath, ...path.map(dir => join(dir, 'node'))].find(
    file => existsSync(file) && !realpathSync(file).startsWith(own),
  )
  const env = { PATH: [...(outside ? [dirname(outside)] : []), ...path].join(delimiter) }
  const script = process.env['npm_execpath']
  return outside && script?.endsWith('npm-cli.js')
    ? { command: outside, args: [script], env }
    : { command: 'npm', args: [], env }
}
