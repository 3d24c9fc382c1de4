// What there is to run: scripts and plugin packages, each with what it may do, and what is refused with the reason.
import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beyond, covers, type PermissionDecision, parsePermission } from 'svc-host/sdk'
import { z } from 'zod'
import type { Candidate, Refusal } from './candidate.ts'
import { findPackages } from './packages.ts'
import { findScripts } from './scripts.ts'

export interface Unit extends Candidate {
  /** What it has of what it asks for. */
  readonly granted: readonly string[]
  /** The operator has said so by name: it may run without walls where there are none to be had. */
  readonly isTrusted: boolean
  /** Another text: it has changed. */
  readonly revision: string
}
export interface Findings {
  readonly units: readonly Unit[]
  readonly refusals: readonly Refusal[]
}
export interface Places {
  readonly configDir: string
  readonly scriptsDir: string
  readonly pluginsDir: string
}

/** What units can be granted; the rest needs the bridge that extensions have. */
const kinds = ['api', 'network', 'read', 'write']

/** Why a unit cannot ask for this, as a sentence; undefined: it can. */
export function permissionProblem(text: string): string | undefined {
  try {
    const { kind } = parsePermission(text)
    return kinds.includes(kind)
      ? undefined
      : `permission "${text}": "${kind}" is for extensions; a script or plugin can ask for ${kinds.join(', ')}`
  } catch (error) {
    return (error as Error).message
  }
}

const isPermission = (text: string): boolean => {
  try {
    return parsePermission(text) !== undefined
  } catch {
    return false
  }
}
const Texts = z
  .array(z.string())
  .default([])
  .transform(texts => texts.filter(isPermission))
const Decisions = z.looseObject({
  trusted: z.array(z.string()).default([]),
  permissions: z.record(z.string(), z.object({ granted: Texts, refused: Texts })).default({}),
})

const decisionsFile = (configDir: string): string => join(configDir, 'extensions.json')

/** What the operator has decided about packages; unreadable: nothing. */
async function readDecisions(configDir: string): Promise<z.output<typeof Decisions>> {
  const text = await readFile(decisionsFile(configDir), 'utf8').catch(() => '{}')
  try {
    return Decisions.parse(JSON.parse(text))
  } catch {
    return Decisions.parse({})
  }
}

/** What it may: of a pattern in which something was refused, nothing. */
const grantedOf = (asked: readonly string[], { granted, refused }: PermissionDecision): string[] =>
  asked.filter(each =>
    granted.some(
      have =>
        covers(have, each) && !refused.some(no => covers(have, no) && (covers(no, each) || covers(each, no))),
    ),
  )

const isBuiltIn = (id: string): boolean =>
  existsSync(fileURLToPath(new URL(`../${id}/extension.json`, import.meta.url)))

const stampOf = async (path: string): Promise<string> => {
  const found = await stat(path).catch(() => undefined)
  return found ? `${path} ${found.ino} ${found.mtimeMs} ${found.size} ${found.mode.toString(8)}` : `${path} -`
}

/** A text that is another one as soon as anything may have changed that `findUnits` looks at. */
export async function stampOfAll(
  { configDir, scriptsDir, pluginsDir }: Places,
  known: readonly Unit[],
): Promise<string> {
  const scripts = await findScripts(scriptsDir).then(
    ({ candidates, refusals }) => [...candidates, ...refusals].map(({ file }) => file),
    () => [],
  )
  const folders = known.flatMap(({ folder }) =>
    folder === undefined ? [] : [folder, join(folder, 'package.json')],
  )
  const paths = [
    scriptsDir,
    join(pluginsDir, 'package.json'),
    decisionsFile(configDir),
    join(configDir, 'runner.json'),
    ...scripts,
    ...folders,
  ]
  return (await Promise.all([...paths, ...known.map(({ file }) => file)].map(stampOf))).join('\n')
}

export async function findUnits({ configDir, scriptsDir, pluginsDir }: Places): Promise<Findings> {
  const [scripts, packages, decisions] = await Promise.all([
    findScripts(scriptsDir),
    findPackages(pluginsDir),
    readDecisions(configDir),
  ])
  const refusals = [...packages.refusals, ...scripts.refusals]
  const units: Unit[] = []
  for (const found of [...packages.candidates, ...scripts.candidates]) {
    const { id, kind, file, asked } = found
    const refuse = (why: string): void => void refusals.push({ id, kind, file, why })
    const taken = units.find(other => other.id === id)?.file ?? packages.extensions.find(each => each === id)
    const problem = asked.map(permissionProblem).find(each => each !== undefined)
    const decided = decisions.permissions[id] ?? { granted: [], refused: [] }
    const granted = found.kind === 'script' || problem ? asked : grantedOf(asked, decided)
    const isOpen = found.kind === 'package' && problem === undefined
    const open = isOpen ? beyond([...decided.granted, ...decided.refused], asked) : []
    if (isBuiltIn(id)) refuse(`"${id}" is the name of a part of the host; rename it`)
    else if (taken !== undefined) refuse(`"${id}" is the name of ${taken} already; rename one of them`)
    else if (problem !== undefined) refuse(problem)
    else if (open.length)
      refuse(`asks for ${open.join(' and ')}, which nobody has granted; run svc-host plugins grant ${id}`)
    else {
      const isTrusted = found.kind === 'package' && decisions.trusted.includes(id)
      const revision = [
        file,
        found.version,
        found.seal,
        isTrusted,
        granted.join(' '),
        await stampOf(file),
      ].join('\n')
      units.push({ ...found, granted, isTrusted, revision })
    }
  }
  return { units, refusals }
}
