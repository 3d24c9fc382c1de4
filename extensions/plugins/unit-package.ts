// Packages that are no extensions: units of the plugin runner, which say in package.json what they ask for.
import { parsePermission } from 'svc-host/sdk'
import { z } from 'zod'

/** What a unit says in its package.json beside what npm knows. */
export const UnitFields = {
  main: z.string().optional(),
  description: z.string().optional(),
  'svc-host': z.looseObject({ permissions: z.array(z.string()).max(64).default([]) }).optional(),
}
const Unit = z.looseObject({ version: z.string(), ...UnitFields })

const problemOf = (permission: string): string[] => {
  try {
    const { kind } = parsePermission(permission)
    const isFor = ['api', 'network', 'read', 'write'].includes(kind)
    return isFor
      ? []
      : [
          `permission "${permission}": "${kind}" is for extensions; a unit can ask for api, network, read and write`,
        ]
  } catch (error) {
    return [(error as Error).message]
  }
}

/** The same that a manifest says of an extension. */
export function describeUnit(json: z.output<typeof Unit>, id: string | undefined) {
  const { version, main = 'index.js', description = '', 'svc-host': own } = json
  const permissions = [...new Set(own?.permissions)]
  const problems = permissions.flatMap(problemOf).map(why => `package.json: ${why}`)
  if (!/^(\.\/)?(?!.*\.\.)[\w./-]+$/.test(main))
    problems.push('package.json: main must be a path inside the package')
  return {
    manifest:
      id === undefined
        ? undefined
        : { id, version, title: description.slice(0, 64) || id, realm: 'unit' as const, permissions },
    main: main.replace(/^\.\//, ''),
    undo: undefined,
    problem: problems.length ? problems.join('; ') : null,
  }
}
