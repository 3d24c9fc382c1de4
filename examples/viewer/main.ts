// The example viewer: pairs with a host, streams from it, types into it, records and measures.
import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { Command, CommanderError, Option } from 'commander'
import { loadIdentity, type Mode, StreamError } from 'svc-host/stream'
import { parseInputScript, typed } from './input-script.ts'
import { pair, reach, waitingText } from './reach.ts'
import { sentence } from './report.ts'
import { runStream } from './run-stream.ts'
import { parseMode, parseNumber, parseTarget } from './target.ts'

/** Exit codes, as README.md lists them. */
const exitCodes: Readonly<Record<string, number>> = {
  'bad-argument': 2,
  unreachable: 3,
  'not-a-host': 3,
  timeout: 3,
  'wrong-pin': 4,
  'no-window': 4,
  'other-device': 4,
  'outside-lan': 4,
  pace: 4,
  'bad-share': 4,
  'host-unproven': 4,
  'fingerprint-changed': 5,
  'not-paired': 6,
  denied: 6,
  'no-answer': 6,
  expired: 6,
  aborted: 130,
}
/** Ends of a stream that are no failure. */
const goodEnds = ['quit', 'ended', 'game-exited']

const stop = new AbortController()
let interrupts = 0
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    if (++interrupts > 1) process.exit(130)
    stop.abort(new Error(signal))
  })
}

const configHome = process.env['XDG_CONFIG_HOME'] || join(homedir(), '.config')
const identityOption = () =>
  new Option('--identity <dir>', 'folder of this client’s key and known hosts').default(
    join(configHome, 'svc-viewer'),
  )
const quietOption = () => new Option('--quiet', 'print nothing but errors')
const fingerprintOption = () =>
  new Option('--fingerprint <hex>', 'trust the host with this certificate fingerprint without a PIN')

interface Common {
  identity: string
  quiet?: boolean
  fingerprint?: string
}
const say = (options: Common) => (line: string) => {
  if (!options.quiet) process.stderr.write(`${line}\n`)
}
const how = async (host: string, options: Common & { pin?: string; wait?: boolean }) => ({
  target: parseTarget(host),
  identity: await loadIdentity(options.identity),
  pin: options.pin,
  fingerprint: options.fingerprint,
  wait: options.wait,
  say: say(options),
  signal: stop.signal,
})

interface StreamFlags extends Common {
  pin?: string
  wait: boolean
  mode: Mode
  seconds?: number
  record?: string
  stats?: string
  frames?: string
  type?: string
  typeAfter: number
  input?: string
  bitrate?: number
  audio: boolean
  channels: string
  play?: boolean
}

const streamFrom = async (host: string, flags: StreamFlags) => {
  const script = flags.input ? parseInputScript(readFileSync(flags.input, 'utf8')) : []
  const text = flags.type ? [{ atMs: flags.typeAfter, events: typed(flags.type) }] : []
  const reached = await how(host, flags)
  const connection = await reach(reached)
  const result = await runStream(connection, {
    ...flags,
    bitrateKbps: flags.bitrate,
    channels: Number(flags.channels) as 2 | 6 | 8,
    input: [...text, ...script],
    onWait: limitMs => process.stderr.write(`${waitingText(connection, reached.identity, limitMs)}\n`),
    say: say(flags),
    signal: stop.signal,
  })
  say(flags)(sentence(result.report))
  if (!goodEnds.includes(result.code)) {
    process.stderr.write(`viewer: ${result.message}\n`)
    process.exitCode = 8
  }
}

const program = new Command('viewer')
  .description('Pairs with a svc-host and streams from it.')
  .showHelpAfterError()
program
  .command('stream <host>')
  .description('stream from host[:port]')
  .option('--pin <digits>', 'pair first, if this host and this client do not know each other')
  .option(
    '--no-wait',
    'give up where the host does not know this device, instead of waiting for its operator',
  )
  .addOption(
    new Option('--mode <mode>', 'size and rate')
      .argParser(parseMode)
      .default(parseMode('1280x720@60'), '1280x720@60'),
  )
  .addOption(
    new Option('--seconds <n>', 'end this long after the first frame').argParser(
      parseNumber('--seconds', 0.1, 1e6),
    ),
  )
  .option('--record <file>', 'write a Matroska file, with capture times')
  .option('--stats <file>', 'write the numbers as JSON')
  .option('--frames <file>', 'write a line for each frame: number, capture and arrival time (us), bytes')
  .option('--type <text>', 'type a text; \\n is Enter, \\t is Tab')
  .addOption(
    new Option('--type-after <ms>', 'when, after the first frame')
      .argParser(parseNumber('--type-after', 0, 1e7))
      .default(1000),
  )
  .option('--input <file>', 'play a timed script of input')
  .addOption(new Option('--bitrate <kbps>', 'wished for').argParser(parseNumber('--bitrate', 100, 1e6)))
  .option('--no-audio', 'ask for no sound')
  .addOption(
    new Option('--channels <n>', 'of sound: 2, 6 (5.1) or 8 (7.1)').choices(['2', '6', '8']).default('2'),
  )
  .option('--play', 'show the picture in ffplay or mpv')
  .addOption(fingerprintOption())
  .addOption(identityOption())
  .addOption(quietOption())
  .action(streamFrom)
program
  .command('pair <host>')
  .description('pair with host[:port] by the PIN it shows')
  .requiredOption('--pin <digits>', 'the PIN')
  .addOption(identityOption())
  .addOption(quietOption())
  .action(async (host: string, options: Common & { pin: string }) => {
    const connection = await pair(await how(host, options), options.pin)
    connection.close()
  })
program
  .command('list')
  .description('list the known hosts')
  .addOption(identityOption())
  .action(async (options: Common) => {
    const { hosts } = await loadIdentity(options.identity)
    for (const host of hosts.list())
      process.stdout.write(`${host.address}\t${host.name}\t${host.fingerprint}\n`)
  })
program
  .command('forget <host>')
  .description('forget a known host, by address as listed or by fingerprint')
  .addOption(identityOption())
  .action(async (host: string, options: Common) => {
    const { hosts } = await loadIdentity(options.identity)
    const address = /^[0-9a-f]{64}$/.test(host) ? host : host.includes(':') ? host : `${host}:9777`
    if (await hosts.forget(address)) return
    process.stderr.write(`viewer: no known host has the address or fingerprint ${host}; "list" shows them\n`)
    process.exitCode = 1
  })

// Commander would leave with 1; a command line that makes no sense is 2 here, however it was noticed.
for (const command of [program, ...program.commands]) command.exitOverride()
try {
  await program.parseAsync()
} catch (error) {
  if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2)
  const isKnown = error instanceof StreamError
  process.stderr.write(
    `viewer: ${isKnown ? error.message : error instanceof Error ? error.stack : String(error)}\n`,
  )
  process.exitCode = isKnown ? (exitCodes[error.code] ?? 7) : 1
}
