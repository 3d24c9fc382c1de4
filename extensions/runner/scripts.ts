// Scripts: the `.ts` and `.js` files of one folder, and what each asks for in the comment that it opens with.
import { readdir, readFile, realpath } from 'node:fs/promises'
import { join, parse } from 'node:path'
import { type Candidate, type Refusal, withFolder, worldWritable } from './candidate.ts'

/** As much of a script as its opening comment can be. */
const headLimit = 16 * 1024

/** The permissions in a script's opening comment: lines `// @permission network:api.example.com`. */
export function permissionsIn(text: string): string[] {
  const asked: string[] = []
  for (const line of text.slice(0, headLimit).split(/\r?\n/)) {
    const bare = line.trim()
    if (bare !== '' && !bare.startsWith('//') && !bare.startsWith('#!')) break
    const [, permission] = /^\/\/\s*@permission\s+(\S.*)$/.exec(bare) ?? []
    if (permission !== undefined) asked.push(permission.trim())
  }
  return [...new Set(asked)]
}

const isId = (name: string): boolean => /^[a-z][a-z0-9-]{0,63}$/.test(name)

/** Scripts by name; hidden files, declarations and everything else in the folder are none. */
export async function findScripts(folder: string): Promise<{ candidates: Candidate[]; refusals: Refusal[] }> {
  const refusals: Refusal[] = []
  const names = await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT')
      refusals.push({ id: 'scripts', kind: 'script', file: folder, why: error.message })
    return []
  })
  const candidates: Candidate[] = []
  for (const name of names.filter(each => /^[^.].*\.(ts|js)$/.test(each) && !each.endsWith('.d.ts')).sort()) {
    const file = join(folder, name)
    const { name: id } = parse(name)
    try {
      if (!isId(id)) throw new Error('is not named in lower-case letters, digits and hyphens; rename it')
      const real = await realpath(file)
      const open = await worldWritable([...withFolder(file), ...withFolder(real)])
      if (open !== undefined)
        throw new Error(`can be changed by everybody, since ${open} is world-writable; run chmod o-w ${open}`)
      const asked = permissionsIn(await readFile(real, 'utf8'))
      candidates.push({ id, kind: 'script', file: real, asked })
    } catch (error) {
      // Gone since the folder was read.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue
      refusals.push({ id, kind: 'script', file, why: (error as Error).message })
    }
  }
  return { candidates, refusals }
}
