// The headless X server as a display backend: any number of displays, no GPU, monitor or login needed.
import { access, constants } from 'node:fs/promises'
import { join } from 'node:path'
import type { DisplayBackend } from 'svc-host/api/displays'
import type { Log, Scope } from 'svc-host/sdk'
import { type DesktopOptions, openDisplay } from './display.ts'

const folders = ['/usr/local/bin', '/usr/bin', '/bin']

/** Programs without which there is no display, and the Debian packages that bring them. */
const needed = { Xvfb: 'xvfb', xkbcomp: 'x11-xkb-utils' } as const

const isThere = async (program: string): Promise<boolean> => {
  const tries = folders.map(folder => access(join(folder, program), constants.X_OK))
  return Promise.any(tries).then(
    () => true,
    () => false,
  )
}

export function createBackend(scope: Scope, options: DesktopOptions, log: Log): DisplayBackend {
  return {
    id: 'x11',
    label: 'Headless X server',
    owned: true,
    // Behind every backend that shows a desktop which somebody already has.
    preference: 0,
    async available() {
      for (const [program, name] of Object.entries(needed)) {
        if (!(await isThere(program)))
          return `${program} is missing; install the package ${name}, or run npm start once`
      }
      return true
    },
    create: request => openDisplay(scope, request, options, log),
  }
}
