// What can be told from the config folder alone, whether a host runs or not.
import { execFile } from 'node:child_process'
import { readdir, readFile, stat } from 'node:fs/promises'
import { delimiter, join } from 'node:path'
import process from 'node:process'
import type { Check } from './doctor.ts'
import {
  error,
  type FolderOptions,
  type Found,
  isThere,
  namesIn,
  packageChecks,
  warning,
} from './doctor-packages.ts'
import { installedPackages } from './installed.ts'
import { layoutOf, readLedger } from './ledger.ts'

const runs = (command: string, ...args: string[]): Promise<string | undefined> =>
  new Promise(done => {
    execFile(command, args, { timeout: 20_000 }, (failure, _, said) =>
      done(failure ? said.trim().split('\n').at(-1) || failure.message : undefined),
    )
  })

/** Those that only their owner may look at or change. */
async function checkModes(
  paths: readonly string[],
  wrong: number,
  is: string,
  mode: string,
): Promise<Found[]> {
  const found = await Promise.all(
    paths.map(async path => {
      const about = await stat(path).catch(() => undefined)
      return about && (about.mode & wrong) !== 0 ? [error(`${path} ${is}`, `chmod ${mode} ${path}`)] : []
    }),
  )
  return found.flat()
}

async function secretsIn(configDir: string): Promise<string[]> {
  const states = await namesIn(join(configDir, 'plugin-state'))
  return [
    ...[
      'mgmt-token',
      'plugin-token',
      'native-key.pem',
      'plugin-run/plugin-tokens.json',
      'plugin-run/unit-tokens.json',
    ],
    ...states.map(id => `plugin-state/${id}/.plugin-token`),
  ].map(path => join(configDir, path))
}

async function isJson(path: string): Promise<Found[]> {
  try {
    JSON.parse(await readFile(path, 'utf8'))
    return []
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return []
    return [error(`${path} cannot be used: ${(cause as Error).message}`, 'mend it, or move it away')]
  }
}

/** Lines of the journal that are in force; see kernel/journal.ts for the format. */
function owedIn(text: string): { owner: string; kind: string }[] {
  const live = new Map<number, { owner: string; kind: string }>()
  for (const line of text.split('\n')) {
    try {
      const { op, id, owner, kind } = JSON.parse(line.slice(9))
      if (op === 'do') live.set(id, { owner, kind })
      else if (op === 'done') live.delete(id)
    } catch {}
  }
  return [...live.values()]
}

export function folderChecks(options: FolderOptions): Check[] {
  const { configDir, isRunning, mayAskNetwork } = options
  const layout = layoutOf(configDir)

  return [
    ...packageChecks(options),
    {
      name: 'settings',
      async look() {
        const names = await namesIn(configDir)
        const configs = (await namesIn(join(configDir, 'extension-config'))).map(name =>
          join('extension-config', name),
        )
        const files = [...names, ...configs].filter(name => name.endsWith('.json'))
        const broken = await Promise.all(files.map(name => isJson(join(configDir, name))))
        const aside = [...names, ...configs].filter(name => /\.json\.broken-/.test(name))
        return [
          ...broken.flat(),
          ...aside.map(name =>
            warning(
              `${join(configDir, name)} was kept when it could not be read`,
              'take from it what you need, and remove it',
            ),
          ),
        ]
      },
    },
    {
      name: 'secrets',
      look: async () => [
        ...(await checkModes([configDir], 0o077, 'can be looked into by others', '700')),
        ...(await checkModes(await secretsIn(configDir), 0o077, 'can be read or changed by others', '600')),
      ],
    },
    {
      name: 'unit files',
      async look() {
        const scripts = join(configDir, 'scripts')
        const units = (await namesIn(scripts))
          .filter(name => /\.[jt]s$/.test(name))
          .map(name => join(scripts, name))
        const ledger = await readLedger(layout).catch(() => undefined)
        const folders = ledger
          ? installedPackages(ledger).map(({ id, version }) => join(layout.versions, id, version))
          : []
        const files = await Promise.all(
          folders.map(async folder =>
            (await readdir(folder, { recursive: true }).catch(() => [] as string[])).map(name =>
              join(folder, name),
            ),
          ),
        )
        const all = [...(units.length ? [scripts] : []), ...units, ...folders, ...files.flat()]
        return checkModes(all, 0o002, 'can be changed by everybody, and is not run', 'o-w')
      },
    },
    {
      name: 'walls',
      async look() {
        const why = await runs('bwrap', '--ro-bind', '/', '/', '--unshare-all', '--die-with-parent', 'true')
        if (why === undefined) return []
        const remedy = /ENOENT/.test(why)
          ? 'apt install bubblewrap'
          : 'let unprivileged user namespaces be made (sysctl kernel.unprivileged_userns_clone=1), or run the host outside of a container that forbids them'
        return [error(`bubblewrap does not work, and no stranger’s code runs without it: ${why}`, remedy)]
      },
    },
    {
      name: 'npm',
      async look() {
        const places = (process.env['PATH'] ?? '').split(delimiter).map(folder => join(folder, 'npm'))
        const has = await Promise.all(places.map(isThere))
        if (!has.includes(true))
          return [
            warning('npm is not there: names cannot be installed, packed packages can', 'apt install npm'),
          ]
        if (!mayAskNetwork) return []
        const silent = await runs('npm', 'ping')
        return silent === undefined
          ? []
          : [error(`the registry does not answer: ${silent}`, 'npm config get registry; npm ping')]
      },
    },
    {
      name: 'journal',
      async look() {
        const text = await readFile(join(configDir, 'journal'), 'utf8').catch(() => '')
        const owed = isRunning ? [] : owedIn(text)
        return owed.map(({ owner, kind }) =>
          warning(
            `${kind} of it is in force, though no host runs`,
            'the next start of the host takes it back',
            owner,
          ),
        )
      },
    },
  ]
}
