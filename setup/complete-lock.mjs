// Run by hand after `npm install` has changed package-lock.json: makes the lock good for every machine. A registry
// mirror may lack the builds for other platforms; npm then leaves these out, and `npm ci` refuses the lock.
import { readFileSync, writeFileSync } from 'node:fs'

const lock = JSON.parse(readFileSync('package-lock.json', 'utf8'))
const { packages } = lock
const systems = [
  'android',
  'darwin',
  'freebsd',
  'linux',
  'netbsd',
  'openbsd',
  'openharmony',
  'sunos',
  'win32',
  'aix',
]
const processors = [
  'arm64',
  'x64',
  'ia32',
  'arm',
  'ppc64',
  'riscv64',
  's390x',
  'loong64',
  'mips64el',
  'wasm32',
]

for (const [path, entry] of Object.entries(packages)) {
  // Where the package comes from is the business of the machine that installs it.
  delete entry.resolved
  for (const [name, range] of Object.entries(entry.optionalDependencies ?? {})) {
    if (packages[`node_modules/${name}`] || packages[`${path}/node_modules/${name}`]) continue
    const words = name.split(/[/-]/)
    const os = systems.filter(system => words.includes(system))
    const musl = words.includes('musl') || words.includes('musleabihf')
    packages[`node_modules/${name}`] = {
      version: range.replace(/^[~^]/, ''),
      cpu: processors.filter(cpu => words.includes(cpu)),
      ...(entry.dev ? { dev: true } : {}),
      ...(musl ? { libc: ['musl'] } : {}),
      optional: true,
      ...(os.length ? { os } : {}),
    }
    console.log(`added ${name} ${range}`)
  }
}
lock.packages = Object.fromEntries(Object.entries(packages).sort(([a], [b]) => (a < b ? -1 : 1)))
writeFileSync('package-lock.json', `${JSON.stringify(lock, null, 2)}\n`)
