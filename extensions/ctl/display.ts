// `ctl display` and `display release`: the virtual displays.
import { InvalidArgumentError, type Command as Parser } from 'commander'
import type { CommandContext } from 'svc-host/sdk'
import { table, type Verb } from './api.ts'
import { clock, count } from './duration.ts'

interface Display {
  slot: number
  backend: string
  mode: string
  state: 'active' | 'lingering' | 'pinned'
  expires_in_ms: number | null
  sessions: number
  client: string | null
  x: number
  y: number
}

function parseSlot(text: string): number {
  if (!/^\d{1,5}$/.test(text))
    throw new InvalidArgumentError('A slot is a number; "svc-host ctl display" lists them.')
  return Number(text)
}

export function displayText(out: NodeJS.WritableStream, displays: readonly Display[]): string {
  if (displays.length === 0) return 'There is no virtual display.'
  const state = ({ state, expires_in_ms }: Display): string =>
    expires_in_ms === null ? state : `${state}, ${clock(expires_in_ms / 1000)} left`
  return table(
    out,
    ['SLOT', 'MODE', 'AT', 'STATE', 'SESSIONS', 'CLIENT', 'BACKEND'],
    displays.map(d => [
      String(d.slot),
      d.mode,
      `${d.x},${d.y}`,
      { text: state(d), colour: d.state === 'active' ? ('green' as const) : ('yellow' as const) },
      String(d.sessions),
      d.client ?? '-',
      d.backend,
    ]),
  )
}

export function declareDisplay(program: Parser, verb: Verb, { out }: CommandContext): void {
  const display = program
    .command('display')
    .description('the virtual displays')
    .action(() =>
      verb(async host => {
        const { displays } = await host.request<{ displays: Display[] }>('GET', '/display/state')
        return { data: displays, text: displayText(out, displays) }
      }),
    )
  display
    .command('release')
    .description('remove a display that no session uses, or all of them')
    .argument('[slot]', 'one display', parseSlot)
    .action((slot: number | undefined) =>
      verb(async host => {
        const data = await host.request<{ released: number }>('POST', '/display/release', { slot })
        return { data, text: `${count(data.released, 'display')} released.` }
      }),
    )
}
