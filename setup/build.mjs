// `npm run build`: compiles the published package into dist/, with the manifests and other files that lie beside the code.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

rmSync('dist', { recursive: true, force: true })
const tsc = ['node_modules/typescript/bin/tsc', '-p', 'setup/tsconfig.build.json']
const { status } = spawnSync(process.execPath, tsc, { stdio: 'inherit' })
if (status !== 0) process.exit(1)

// TypeScript copies the JSON that is imported; this one would make dist/ a package of its own, with other exports.
rmSync('dist/package.json', { force: true })

for (const top of ['kernel', 'sdk', 'extensions']) {
  for (const entry of readdirSync(top, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name.endsWith('.ts')) continue
    const from = join(entry.parentPath, entry.name)
    const to = join('dist', from)
    mkdirSync(dirname(to), { recursive: true })
    // A manifest names its modules as they lie in a checkout.
    if (entry.name === 'extension.json')
      writeFileSync(to, readFileSync(from, 'utf8').replaceAll('.ts"', '.js"'))
    else cpSync(from, to)
  }
}

// The reference page's assets, so that whoever installs the package does not install all of swagger-ui-dist.
const assets = 'dist/extensions/discovery/swagger-ui'
mkdirSync(assets, { recursive: true })
for (const name of ['swagger-ui.css', 'swagger-ui-bundle.js', 'LICENSE', 'NOTICE'])
  cpSync(join('node_modules/swagger-ui-dist', name), join(assets, name))
