// The Debian packages that the host, the tests and the benchmarks need: each part names its own, this installs them.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { ask, asRoot, run, SetupError, say } from './step.mjs'

/**
 * @param {string} path
 * @returns {any}
 */
const readJson = path => (existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {})

/**
 * Names wanted at these levels: `system.debian` of every built-in's manifest, native/system.json, test/system.json.
 * @param {readonly string[]} levels
 */
function wanted(levels) {
  const names = new Set(readJson('native/system.json').debian)
  const extensions = existsSync('extensions') ? 'extensions' : 'dist/extensions'
  for (const folder of readdirSync(extensions)) {
    for (const name of readJson(`${extensions}/${folder}/extension.json`).system?.debian ?? [])
      names.add(name)
  }
  const { debian = {} } = readJson('test/system.json')
  for (const level of levels) for (const name of debian[level] ?? []) names.add(name)
  return [...names].sort()
}

/**
 * @param {readonly string[]} names
 * @returns {string[] | undefined} those not fully installed; undefined where there is no dpkg
 */
function missingOf(names) {
  if (names.length === 0) return []
  // biome-ignore lint/suspicious/noTemplateCurlyInString: dpkg-query's own placeholders
  const answer = ask('dpkg-query', ['-W', '-f=${Package} ${db:Status-Status}\n', ...names])
  if (!answer) return undefined
  const installed = new Set()
  for (const line of answer.stdout.split('\n')) {
    const [name, status] = line.split(' ')
    if (status === 'installed') installed.add(name)
  }
  return names.filter(name => !installed.has(name))
}

/** @param {readonly string[]} levels */
export function installSystemPackages(levels) {
  const names = wanted(levels)
  const missing = missingOf(names)
  if (missing === undefined)
    return say(`not a Debian system; this needs what Debian calls ${names.join(' ')}`)
  if (missing.length === 0) return

  // Never at the price of a package that is there: whoever owns the machine wanted it.
  const apt = [
    'apt-get',
    '-y',
    '--no-remove',
    '--no-install-recommends',
    '-o',
    'DPkg::Lock::Timeout=300',
    '-o',
    'Dpkg::Use-Pty=0',
    '-q',
  ]
  const install = ['install', ...missing]
  const root = asRoot()
  if (!root) {
    throw new SetupError(
      `system packages are missing, and this is neither root nor allowed to use sudo.\n` +
        `Ask an administrator to run this, then run the same command again:\n\n` +
        `  apt-get update && apt-get install -y --no-install-recommends ${missing.join(' ')}\n`,
    )
  }
  /** @param {readonly string[]} command */
  const rooted = command => {
    const [first = '', ...rest] = [...root, 'env', 'DEBIAN_FRONTEND=noninteractive', ...command]
    return run(first, rest)
  }

  // A dpkg that was interrupted (a set-up stopped half way) leaves packages half installed, and apt refuses all else.
  if (ask('dpkg', ['--audit'])?.stdout || readdirSync('/var/lib/dpkg/updates').length > 0) {
    say('finishing a package installation that was interrupted')
    rooted(['dpkg', '--configure', '-a'])
    rooted([...apt, '--fix-broken', 'install'])
  }
  say(`installing ${missing.length} system package${missing.length === 1 ? '' : 's'}: ${missing.join(' ')}`)
  const listed =
    existsSync('/var/lib/apt/lists') && readdirSync('/var/lib/apt/lists').some(f => /_Packages/.test(f))
  if (!listed || !rooted([...apt, ...install])) {
    // No package lists yet, or old ones that name files no longer there.
    say('fetching the package lists: apt-get update')
    rooted([...apt, 'update'])
    if (!rooted([...apt, ...install])) {
      throw new SetupError(`apt-get could not install ${missing.join(' ')}; what it says above is why`)
    }
  }
  const still = missingOf(names) ?? []
  if (still.length > 0)
    throw new SetupError(`apt-get is content, yet these are not installed: ${still.join(' ')}`)
}
