// Builds the engine's addon with node-gyp into <cache>/<key>/ and points <cache>/<flavour>.json at it; cache.mjs says where
// that is. The key is made of version, platform and sources, so that there is nothing to do where nothing changed.
// Flags: --asan or --tsan for a sanitizer build beside the plain one; --tests for the program of core/'s C++ tests instead.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  accessSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { cpus } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { engineFolders } from './cache.mjs'

const here = import.meta.dirname
const folders = engineFolders(dirname(here))
const flags = process.argv.slice(2)
const known = ['--asan', '--tsan', '--tests']
const unknown = flags.find(flag => !known.includes(flag))
if (unknown) fail(`no such flag: ${unknown} (one of ${known.join(', ')})`)
const sanitize = flags.includes('--asan') ? 'address' : flags.includes('--tsan') ? 'thread' : 'none'
const tests = flags.includes('--tests')
const flavour = `${tests ? 'tests' : 'engine'}${sanitize === 'none' ? '' : `-${sanitize}`}`
const product = tests ? 'core_test' : 'engine.node'

/** @returns {never} @param {string} why */
function fail(why) {
  console.error(`engine: ${why}`)
  process.exit(1)
}

// A change of the tests leaves the engine as it is.
const isSource = /** @param {string} name */ name =>
  /\.(cc|h|gyp)$/.test(name) && (tests || !/_test\.(cc|h)$/.test(name))
const sources = [
  ...readdirSync(here).filter(isSource),
  ...readdirSync(join(here, 'core'))
    .filter(isSource)
    .map(name => `core/${name}`),
].sort()

const { version } = JSON.parse(readFileSync(join(here, '../package.json'), 'utf8'))
const hash = createHash('sha256').update(`${version} ${process.platform} ${process.arch} ${flavour}\n`)
for (const source of sources) hash.update(`${source}\n`).update(readFileSync(join(here, source)))
// The addon speaks Node-API, whose ABI is the same in every Node; a change of this number is what breaks it.
const key = `${flavour}-napi8-${hash.digest('hex').slice(0, 16)}`
if (folders.some(isCurrent)) process.exit(0)
const buildRoot = folders.find(isWritable) ?? fail(`neither ${folders.join(' nor ')} can be written to`)
const target = join(buildRoot, key)
const pointer = join(buildRoot, `${flavour}.json`)
if (!existsSync(join(target, product))) compile()
writeFileSync(`${pointer}.${process.pid}.tmp`, `${JSON.stringify({ key })}\n`)
renameSync(`${pointer}.${process.pid}.tmp`, pointer)
removeOld()

/** @param {string} folder */
function isCurrent(folder) {
  const told = join(folder, `${flavour}.json`)
  if (!existsSync(told) || !existsSync(join(folder, key, product))) return false
  return JSON.parse(readFileSync(told, 'utf8')).key === key
}

/** @param {string} folder */
function isWritable(folder) {
  try {
    mkdirSync(folder, { recursive: true })
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** Works in a folder of its own and moves the result into place whole: an interruption leaves nothing half done. */
function compile() {
  const began = performance.now()
  console.error('engine: building the media engine')
  const work = join(buildRoot, `work-${process.pid}`)
  mkdirSync(work, { recursive: true })
  for (const source of sources) {
    mkdirSync(join(work, source, '..'), { recursive: true })
    cpSync(join(here, source), join(work, source))
  }
  const require = createRequire(import.meta.url)
  const gyp = join(require.resolve('node-gyp/package.json'), '../bin/node-gyp.js')
  const nodedir = headers()
  const args = [
    gyp,
    'rebuild',
    '--silent',
    '--release',
    `-j${cpus().length}`,
    ...(nodedir ? [`--nodedir=${nodedir}`] : []),
    '--',
    `-Dsanitize=${sanitize}`,
    `-Dtests=${tests ? 1 : 0}`,
    `-Dnapi_include=${dirname(require.resolve('node-addon-api/package.json'))}`,
  ]
  const built = spawnSync(process.execPath, args, { cwd: work, encoding: 'utf8' })
  if (built.status !== 0) {
    console.error(`${built.stdout ?? ''}${built.stderr ?? ''}`)
    rmSync(work, { recursive: true, force: true })
    if (built.signal) fail(`the build was stopped by ${built.signal}; run the same command again`)
    fail(
      'the build failed; what the compiler says above is why. native/system.json names the packages that it needs',
    )
  }
  const out = join(work, 'out')
  mkdirSync(out)
  renameSync(join(work, 'build/Release', product), join(out, product))
  rmSync(target, { recursive: true, force: true })
  renameSync(out, target)
  rmSync(work, { recursive: true, force: true })
  console.error(`engine: built in ${((performance.now() - began) / 1000).toFixed(1)} s`)
}

/** Where Node's headers lie: as npm is configured, else beside a node on the path; undefined: node-gyp fetches them. */
function headers() {
  const has = /** @param {string} dir */ dir => existsSync(join(dir, 'include/node/node_api.h'))
  const told = process.env['npm_config_nodedir'] ?? process.env['npm_package_config_node_gyp_nodedir']
  if (told && has(told)) return told
  const npm = spawnSync('npm', ['config', 'get', 'nodedir'], { encoding: 'utf8' }).stdout?.trim()
  if (npm && has(npm)) return npm
  return (process.env['PATH'] ?? '')
    .split(':')
    .filter(dir => existsSync(join(dir, 'node')))
    .map(dir => resolve(dir, '..'))
    .find(has)
}

/** Builds that no pointer names any more, and the work folders of processes that are gone. */
function removeOld() {
  const entries = readdirSync(buildRoot)
  const kept = new Set(
    entries
      .filter(name => name.endsWith('.json'))
      .map(name => JSON.parse(readFileSync(join(buildRoot, name), 'utf8')).key),
  )
  for (const name of entries) {
    const worker = Number(/^work-(\d+)$/.exec(name)?.[1])
    if (name.endsWith('.json') || kept.has(name) || (worker && existsSync(`/proc/${worker}`))) continue
    rmSync(join(buildRoot, name), { recursive: true, force: true })
  }
}
