// What PulseAudio is told: its command line and the lines of its console. All text, made from plain values.
import type { SoundChannels } from 'svc-host/api/media'

/** In the order in which games and films on Linux expect them. */
const channelMaps: Readonly<Record<SoundChannels, string>> = {
  2: 'front-left,front-right',
  6: 'front-left,front-right,rear-left,rear-right,front-center,lfe',
  8: 'front-left,front-right,rear-left,rear-right,front-center,lfe,side-left,side-right',
}

export const sinkName = (channels: SoundChannels): string => `stream-${channels}`

const nullSink = (channels: SoundChannels): string =>
  `module-null-sink sink_name=${sinkName(channels)} rate=48000 format=float32le channels=${channels} ` +
  `channel_map=${channelMaps[channels]} sink_properties=device.description=Stream`

/** Makes a sink; the one that is there stays for those who name it. */
export const loadSink = (channels: SoundChannels): string => `load-module ${nullSink(channels)}\n`

/** What programs play moves there, and so does what they will play. */
export const useSink = (channels: SoundChannels): string => `set-default-sink ${sinkName(channels)}\n`

export const pulseArguments = (options: {
  readonly socket: string
  readonly cookie: string
  readonly channels: SoundChannels
}): string[] => [
  // Nothing of the machine's own configuration: no hardware, no network, no saved volumes.
  ...[
    '-n',
    '--daemonize=no',
    '--use-pid-file=no',
    '--exit-idle-time=-1',
    '--log-target=stderr',
    '--log-level=warn',
  ],
  ...['--high-priority=no', '--realtime=no', '--disable-shm=yes'],
  ...['-L', `module-native-protocol-unix socket=${options.socket} auth-cookie=${options.cookie}`],
  ...['-L', nullSink(options.channels)],
  // Its console is this host's pipe: it ends with it, whatever becomes of the host.
  ...['-L', 'module-cli exit_on_eof=1'],
]
