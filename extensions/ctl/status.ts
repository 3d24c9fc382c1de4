// `ctl status`, `sessions`, `summary` and `stop-session`.
import type { Command as Parser } from 'commander'
import type { LocalSummary, StatusRecord } from 'svc-host/api/status'
import type { CommandContext } from 'svc-host/sdk'
import { plain, table, type Verb } from './api.ts'
import { clock, count } from './duration.ts'

type Out = NodeJS.WritableStream
const ms = (value: number | null): string => (value === null ? '-' : `${value} ms`)

export const sessionTable = (out: Out, sessions: StatusRecord['sessions']): string =>
  table(
    out,
    ['ID', 'CLIENT', 'MODE', 'PLANE', 'ACCESS', 'UP', 'FIRST FRAME'],
    sessions.map(row => [
      row.id === undefined ? '-' : String(row.id),
      row.client_name ?? row.client,
      row.mode,
      row.plane,
      row.access_level ?? '-',
      clock(row.uptime_s),
      ms(row.time_to_first_frame_ms),
    ]),
  )

const gameLine = (game: StatusRecord['games'][number]): string => {
  const end = game.grace_remaining_s === undefined ? '' : `, ends in ${clock(game.grace_remaining_s)}`
  return `${plain(game.title)} (${game.state}${end})`
}

function paired(native: number, compat: number): string {
  if (native + compat === 0)
    return 'No device is paired; "svc-host ctl pair arm" shows a PIN to pair one with.'
  return `Paired: ${count(native + compat, 'device')}${compat ? ` (${native} native, ${compat} compatible)` : ''}.`
}

export function statusText(out: Out, status: StatusRecord): string {
  const { stream, sessions, games } = status
  const doing = stream
    ? `Streaming ${stream.width}x${stream.height}@${stream.fps} as ${stream.codec} at ${stream.bitrate_kbps} kbit/s.`
    : sessions.length
      ? 'Sessions are open; no video is sent.'
      : 'Nothing is streaming.'
  return [
    doing,
    ...(sessions.length ? ['', sessionTable(out, sessions), ''] : []),
    ...games.map(gameLine),
    ...(status.pin_pending ? ['A compatible-plane device waits for its PIN.'] : []),
    paired(status.native_paired_clients, status.paired_clients),
  ].join('\n')
}

export function summaryText(summary: LocalSummary): string {
  const { session } = summary
  return [
    `svc-host ${plain(summary.version)}`,
    session ? `Streaming ${session.width}x${session.height}@${session.fps}.` : 'Nothing is streaming.',
    paired(summary.native_paired_clients, summary.paired_clients),
    ...(summary.pending_approvals
      ? [`${count(summary.pending_approvals, 'device')} waiting for approval.`]
      : []),
    ...(summary.kept_displays ? [`${count(summary.kept_displays, 'display')} kept without a session.`] : []),
    ...summary.games.map(plain),
    ...summary.conflicts.map(name => `${plain(name)} runs too and takes the same ports.`),
  ].join('\n')
}

export function declareStatus(program: Parser, verb: Verb, { out }: CommandContext): void {
  program
    .command('status')
    .description('what the host is doing')
    .action(() =>
      verb(async host => {
        const status = await host.request<StatusRecord>('GET', '/status')
        return { data: status, text: statusText(out, status) }
      }),
    )
  program
    .command('sessions')
    .description('the live sessions')
    .action(() =>
      verb(async host => {
        const { sessions } = await host.request<StatusRecord>('GET', '/status')
        return { data: sessions, text: sessions.length ? sessionTable(out, sessions) : 'No session is live.' }
      }),
    )
  program
    .command('summary')
    .description('counts, as the tray icon sees them')
    .action(() =>
      verb(async host => {
        const summary = await host.request<LocalSummary>('GET', '/local/summary')
        return { data: summary, text: summaryText(summary) }
      }),
    )
  program
    .command('stop-session')
    .description('stop every live session, as if its client had quit')
    .action(() =>
      verb(async host => {
        await host.request('DELETE', '/session')
        return { data: null, text: 'Every session has been stopped.' }
      }),
    )
}
