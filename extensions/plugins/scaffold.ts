// A new plugin: one route, its test, and all that packing and publishing it needs.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { UsageError } from 'svc-host/api/ctl'
import { licenceText } from './licences.ts'

export interface ScaffoldOptions {
  readonly id: string
  readonly pkg: string
  readonly isJavaScript: boolean
  /** SPDX identifier. */
  readonly licence: string
  /** Who holds the rights, as `git config` and `npm` know them. */
  readonly author: string
  readonly year: number
  /** How npm finds the host and what it hands to extensions; by the path of the one that runs this, or by versions. */
  readonly host: Readonly<Record<string, string>>
}

const pretty = (value: object): string => `${JSON.stringify(value, null, 2)}\n`

const main = (id: string): string => `// What the plugin does: it answers GET /api/v1/ext/${id}/greeting.
import { defineExtension, route } from 'svc-host/sdk'
import { z } from 'zod'

export default defineExtension({
  config: z.object({ greeting: z.string().min(1).default('hello') }),
  setup(ctx) {
    ctx.route(
      route({
        method: 'GET',
        path: '/ext/${id}/greeting',
        id: '${id.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())}Greeting',
        tag: '${id}',
        summary: 'Say hello',
        lanes: { plugin: false, device: false },
        replies: { 200: z.object({ greeting: z.string() }) },
        handler: () => ({ greeting: ctx.config.greeting }),
      }),
    )
  },
})
`

const test = (
  id: string,
): string => `// Runs the plugin in a real host, in the realm and with the permissions of its manifest.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startHost } from 'svc-host/testing'

test('it answers with the greeting that is configured, and leaves nothing', async () => {
  const host = await startHost([import.meta.dirname], { config: { '${id}': { greeting: 'good day' } } })
  try {
    const { status, json } = await host.inject('GET', '/ext/${id}/greeting')
    assert.deepEqual({ status, json }, { status: 200, json: { greeting: 'good day' } })
    await host.extensions.enable('${id}', false)
    assert.equal((await host.inject('GET', '/ext/${id}/greeting')).status, 404)
  } finally {
    await host.stop()
  }
})
`

const hostLine = ({ host }: ScaffoldOptions): string =>
  host['svc-host']?.startsWith('file:')
    ? `
It is worked on with the svc-host of this machine: package.json names its folder under \`devDependencies\`, which whoever
installs the plugin never reads. Write a version there to work on it elsewhere.
`
    : ''

const readme = (options: ScaffoldOptions): string => {
  const { id, pkg, isJavaScript, licence } = options
  return `# ${pkg}

A plugin for svc-host: it answers \`GET /api/v1/ext/${id}/greeting\`.

    npm install          what is needed to work on it
    npm test             ${isJavaScript ? '' : 'compiles it and '}runs it in a real host
    npm run verify       says what a host would refuse
    npm run pack         makes the file to install or to publish
${hostLine(options)}
Install the file, and grant what it asks for:

    svc-host plugins add ./${pkg.replace('@', '').replace('/', '-')}-0.1.0.tgz
    svc-host plugins grant ${id}

Its config is \`{ "greeting": "…" }\`. Licence: ${licence}.
`
}

const filesOf = (options: ScaffoldOptions): Record<string, string> => {
  const { id, pkg, isJavaScript, licence, author, year, host } = options
  const text = licenceText(licence, author, year)
  const first = isJavaScript ? '' : 'npm run build && '
  const scripts = {
    ...(!isJavaScript && { build: 'tsc' }),
    test: `${first}svc-host plugins test`,
    verify: `${first}svc-host plugins verify`,
    pack: `${first}svc-host plugins pack`,
    prepublishOnly: 'npm test && npm run verify',
  }
  const typescript = isJavaScript ? {} : { typescript: '>=5.9', '@types/node': '>=24' }
  return {
    'package.json': pretty({
      name: pkg,
      version: '0.1.0',
      description: `A plugin for svc-host: ${id}`,
      license: licence,
      ...(author && { author }),
      type: 'module',
      files: ['extension.json', '*.js', '!*.test.js'],
      scripts,
      peerDependencies: { 'svc-host': '*' },
      devDependencies: { ...host, ...typescript },
    }),
    'extension.json': pretty({
      id,
      version: '0.1.0',
      sdk: '^1.0.0',
      title: id,
      realm: 'isolate',
      permissions: ['routes'],
      main: 'index.js',
    }),
    [isJavaScript ? 'index.js' : 'index.ts']: main(id),
    [isJavaScript ? 'index.test.js' : 'index.test.ts']: test(id),
    ...(!isJavaScript && {
      'tsconfig.json': pretty({
        compilerOptions: {
          module: 'nodenext',
          target: 'es2024',
          strict: true,
          skipLibCheck: true,
          types: ['node'],
        },
        include: ['*.ts'],
      }),
    }),
    '.gitignore': ['node_modules', '*.tgz', ...(isJavaScript ? [] : ['*.js']), ''].join('\n'),
    'README.md': readme(options),
    ...(text !== undefined && { LICENSE: text }),
  }
}

/** Writes it into a new folder. */
export async function scaffold(
  folder: string,
  options: ScaffoldOptions,
): Promise<{ folder: string; files: string[] }> {
  await mkdir(folder).catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(
      error.code === 'EEXIST' ? `${folder} is there already` : `${folder} cannot be made: ${error.message}`,
    )
  })
  const files = filesOf(options)
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  return { folder, files: Object.keys(files) }
}
