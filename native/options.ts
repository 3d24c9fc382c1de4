// Checks options before they are copied into the engine: one form of complaint for all of them.
import type {
  AudioSourceConfig,
  InputSinkConfig,
  Mode,
  NativeError,
  PlaneConfig,
  SessionConfig,
  SourceConfig,
} from './index.ts'

function refuse(expected: string, name: string, received: unknown): never {
  const shown = typeof received === 'string' || typeof received === 'number' ? JSON.stringify(received) : ''
  const message = `expected ${expected} for ${name} but received ${shown} of type ${typeof received}`
  throw Object.assign(new TypeError(message.replace('  ', ' ')), {
    stage: 'options',
    code: `bad-${name}`,
  }) satisfies NativeError
}

/** A whole number of a range; gives it back. */
export function checkNumber(name: string, value: unknown, least: number, most: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= least && value <= most) return value
  return refuse(`a whole number from ${least} to ${most}`, name, value)
}

function checkText(name: string, value: unknown, pattern: RegExp, expected: string): void {
  if (typeof value !== 'string' || !pattern.test(value)) refuse(expected, name, value)
}

function checkEven(name: string, value: unknown, least: number, most: number): void {
  if (checkNumber(name, value, least, most) % 2 !== 0) refuse('an even number', name, value)
}

/** PROTOCOL.md, section 2.3: what a mode may be. */
export function checkMode(mode: Mode): void {
  checkEven('width', mode?.width, 64, 7680)
  checkEven('height', mode?.height, 64, 4320)
  checkNumber('hz', mode?.hz, 1, 240)
}

function checkDisplay(config: { display: string; xauthority: string }): void {
  checkText('display', config.display, /^:\d{1,5}(\.\d{1,3})?$/, 'a local X display such as ":90"')
  checkText('xauthority', config.xauthority, /^[^\0]*$/, 'a path, or an empty text')
}

export function checkSource(config: SourceConfig): void {
  if (config?.kind === 'test') {
    checkMode(config)
    return
  }
  if (config?.kind !== 'x11') refuse('"x11" or "test"', 'kind', (config as { kind?: unknown })?.kind)
  checkDisplay(config)
  if (typeof config.cursor !== 'boolean') refuse('true or false', 'cursor', config.cursor)
}

function checkChannels(channels: unknown): void {
  if (channels !== 2 && channels !== 6 && channels !== 8) refuse('2, 6 or 8', 'channels', channels)
}

export function checkAudioSource(config: AudioSourceConfig): void {
  checkChannels(config?.channels)
  if (config.kind === 'tone') return
  if (config.kind !== 'pulse') refuse('"pulse" or "tone"', 'kind', (config as { kind?: unknown }).kind)
  checkText('server', config.server, /^\/[^\0]*$/, 'the path of a socket')
  checkText('cookie', config.cookie, /^\/[^\0]*$/, 'a path')
  checkText('device', config.device, /^[^\0\s]+$/, 'the name of a source')
}

export function checkSink(config: InputSinkConfig): void {
  if (config?.kind !== 'x11') refuse('"x11"', 'kind', (config as { kind?: unknown })?.kind)
  checkDisplay(config)
}

export function checkPlane(config: PlaneConfig): void {
  checkText('address', config?.address, /^[0-9a-fA-F.:]+$/, 'an IP address')
  checkNumber('port', config.port, 0, 65_535)
}

export function checkSession(config: SessionConfig): void {
  checkText('id', config?.id, /^[0-9a-f]{16}$/, '16 lowercase hex characters')
  checkNumber('epoch', config.epoch, 1, 0xffff_ffff)
  checkNumber('generation', config.generation, 0, 0xffff_ffff)
  for (const name of ['videoOut', 'audioOut', 'pathOut', 'inputIn', 'pathIn'] as const) {
    const key: unknown = config.keys?.[name]
    // A key is never shown, not even a wrong one.
    if (!(key instanceof Uint8Array) || key.byteLength !== 28) refuse('28 bytes', `keys.${name}`, undefined)
  }
  checkMode(config.mode)
  checkText('codec', config.codec, /^(h264)$/, '"h264"')
  checkNumber('bitrateKbps', config.bitrateKbps, 100, 1_000_000)
  checkNumber('grants', config.grants, 0, 0xffff_ffff)
  checkNumber('maxDatagramBytes', config.maxDatagramBytes, 1200, 1452)
  checkNumber('idleTimeoutMs', config.idleTimeoutMs, 1000, 120_000)
  if (config.audio) {
    const { channels, frameMs } = config.audio
    checkChannels(channels)
    if (frameMs !== 5 && frameMs !== 10) refuse('5 or 10', 'frameMs', frameMs)
  }
  checkNumber('fecPercent', config.fecPercent, 0, 100)
}
