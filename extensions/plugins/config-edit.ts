// A config in the editor of whoever asks: opened again with what was wrong until it fits, and never lost.
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import process from 'node:process'
import { ApiError } from 'svc-host/client'
import type { ConfigRecord } from './config-record.ts'
import { facetsAt, isRecord, type Json } from './config-schema.ts'

const head =
  'Lines that begin with // are not stored. Save and leave to store; empty it to leave all as it is.'

const commented = (text: string): string =>
  text
    .split('\n')
    .map(line => `// ${line}\n`)
    .join('')
const bare = (text: string): string =>
  text
    .split('\n')
    .filter(line => !/^\s*\/\//.test(line))
    .join('\n')

/** What may stand there, a line for each key at the top. */
function explained({ schema, defaults, overrides }: ConfigRecord): string[] {
  const keys = facetsAt(schema, []).flatMap(({ properties }) =>
    isRecord(properties) ? Object.keys(properties) : [],
  )
  return [...new Set(keys)].map(key => {
    const facets = facetsAt(schema, [key])
    const type = [
      ...new Set(facets.flatMap(facet => (facet['type'] as string | string[] | undefined) ?? [])),
    ].join(' or ')
    const fallback = defaults[key] === undefined ? '' : `, default ${JSON.stringify(defaults[key])}`
    const source = overrides.find(({ path }) => path[0] === key)?.source
    const about = facets.map(({ description }) => description).find(text => typeof text === 'string')
    const over = source === undefined ? '' : `; ${source} goes first`
    return `${key} (${type || 'anything'}${fallback}${over})${about === undefined ? '' : `: ${about}`}`
  })
}

/** As the shell has it: `VISUAL` and `EDITOR` may hold options. */
const openEditor = (file: string): Promise<void> =>
  new Promise((done, failed) => {
    const editor = process.env['VISUAL'] || process.env['EDITOR'] || 'vi'
    const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' })
    child.on('error', failed)
    child.on('exit', code =>
      code === 0 ? done() : failed(new Error(`the editor (${editor}) ended with ${code ?? 'a signal'}`)),
    )
  })

/** Resolves to what `store` answers; undefined: nothing was to be changed. What could not be stored stays in a file that the error names. */
export async function editConfig<T>(
  first: ConfigRecord,
  read: () => Promise<ConfigRecord>,
  store: (values: Json, revision: string) => Promise<T>,
): Promise<T | undefined> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-host-config-'))
  const file = join(folder, `${first.id}.jsonc`)
  let { revision } = first
  let text = `${JSON.stringify(first.values, null, 2)}\n`
  let problem: string | undefined
  try {
    for (;;) {
      const remarks = [`Config of ${first.id}. ${head}`, ...explained(first)].join('\n')
      const offered = `${problem === undefined ? '' : commented(`NOT STORED: ${problem}`)}${commented(remarks)}${text}`
      await writeFile(file, offered, { mode: 0o600 })
      await openEditor(file)
      const before = text
      text = `${(await readFile(file, 'utf8')).replace(/^(\s*\/\/.*(\n|$))*/, '').trim()}\n`
      if (bare(text).trim() === '' || (problem === undefined && text === before)) break
      if (text === before) throw new Error(problem)
      try {
        const values: unknown = JSON.parse(bare(text))
        if (!isRecord(values)) throw new SyntaxError('expected an object in { }')
        const answer = await store(values, revision)
        await rm(folder, { recursive: true })
        return answer
      } catch (error) {
        const { message, status } = error as ApiError
        if (!(error instanceof SyntaxError) && !(error instanceof ApiError && error.code === 'refused'))
          throw error
        problem = message
        if (status !== 412) continue
        const now = await read()
        revision = now.revision
        problem = `somebody has changed it meanwhile; saved again, yours replaces this:\n${JSON.stringify(now.values, null, 2)}`
      }
    }
  } catch (error) {
    const { message } = error as Error
    throw new ApiError('refused', `${message}\nnot stored; what was written is in ${file}`, { cause: error })
  }
  await rm(dirname(file), { recursive: true })
  return undefined
}
