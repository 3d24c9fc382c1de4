// An X server and a sound server of the engine's own tests: real ones, and nobody else's.
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { until } from '../harness/host.ts'

export interface Devices {
  /** What the core's tests look for. */
  readonly env: Record<string, string>
  stop(): void
}

/** Starts both, with files in `folder`. */
export async function startDevices(folder: string): Promise<Devices> {
  const children: ChildProcess[] = []
  const start = (command: string, ...args: string[]): ChildProcess => {
    const child = spawn(command, args, { stdio: ['ignore', 'ignore', 'ignore', 'pipe'] })
    children.push(child)
    return child
  }
  const stop = () => {
    for (const child of children) child.kill()
  }
  try {
    const screen = ['-screen', '0', '640x480x24', '-noreset', '-nolisten', 'tcp']
    const server = start('Xvfb', '-displayfd', '3', ...screen)
    let number = ''
    server.stdio[3]?.on('data', chunk => (number += chunk))
    const socket = join(folder, 'pulse')
    start(
      ...(['pulseaudio', '-n', '--daemonize=no', '--use-pid-file=no', '--exit-idle-time=-1'] as const),
      ...['--disable-shm=yes', '-L', `module-native-protocol-unix socket=${socket} auth-anonymous=1`],
      ...['-L', 'module-null-sink sink_name=sink rate=48000 format=float32le'],
    )
    await until('an X server and a sound server', () => number.includes('\n') && existsSync(socket))
    return { env: { SVC_TEST_DISPLAY: `:${number.trim()}`, SVC_TEST_PULSE: socket }, stop }
  } catch (error) {
    stop()
    throw error
  }
}
