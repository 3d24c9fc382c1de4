// A new plugin: one route, its test, and all that packing and publishing it needs.
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { UsageError } from 'svc-host/api/ctl'

export interface ScaffoldOptions {
  readonly id: string
  readonly pkg: string
  readonly isJavaScript: boolean
}

const pretty = (value: object): string => `${JSON.stringify(value, null, 2)}\n`

const main = (id: string): string => `// What the plugin does: it answers GET /api/v1/${id}.
import { defineExtension, route } from 'svc-host/sdk'
import { z } from 'zod'

export default defineExtension({
  config: z.object({ greeting: z.string().default('hello') }),
  setup(ctx) {
    ctx.route(
      route({
        method: 'GET',
        path: '/${id}',
        id: '${id.replace(/-(.)/g, (_, letter: string) => letter.toUpperCase())}',
        tag: 'plugins',
        summary: 'Say hello',
        lanes: { plugin: false, device: false },
        replies: { 200: z.object({ greeting: z.string() }) },
        handler: () => ({ greeting: ctx.config.greeting }),
      }),
    )
  },
})
`

const test = (id: string): string => `// Runs the plugin in a real host, in this process.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { startHost } from 'svc-host/testing'

const folder = fileURLToPath(new URL('.', import.meta.url)).replace(/\\/$/, '')

test('it answers with the greeting that is configured', async () => {
  const host = await startHost({ extensions: [folder], config: { '${id}': { greeting: 'good day' } } })
  try {
    const { status, json } = await host.inject('GET', '/${id}')
    assert.equal(status, 200)
    assert.deepEqual(json, { greeting: 'good day' })
  } finally {
    await host.stop()
  }
})
`

const readme = ({ id, pkg }: ScaffoldOptions): string => `# ${pkg}

A plugin for svc-host.

    npm install          what is needed to work on it
    npm test             runs it in a real host
    npm run verify       says all that a host would refuse
    svc-host plugins add ./${id}

Its config is \`{ "greeting": "…" }\`.
`

const filesOf = (options: ScaffoldOptions): Record<string, string> => {
  const { id, pkg, isJavaScript } = options
  const build = isJavaScript ? {} : { build: 'tsc' }
  const scripts = {
    ...build,
    test: isJavaScript ? 'node --test' : 'tsc && node --test',
    verify: isJavaScript ? 'svc-host plugins verify' : 'tsc && svc-host plugins verify',
    prepublishOnly: 'npm test && npm run verify',
  }
  const typescript = isJavaScript ? {} : { typescript: '>=5.9', '@types/node': '>=24' }
  return {
    'package.json': pretty({
      name: pkg,
      version: '0.1.0',
      type: 'module',
      files: ['extension.json', 'index.js'],
      scripts,
      peerDependencies: { 'svc-host': '*' },
      devDependencies: { 'svc-host': '*', zod: '^4.0.0', ...typescript },
    }),
    'extension.json': pretty({
      id,
      version: '0.1.0',
      sdk: '^1.0.0',
      title: id,
      realm: 'isolate',
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
      '.gitignore': 'node_modules\nindex.js\nindex.test.js\n',
    }),
    'README.md': readme(options),
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
