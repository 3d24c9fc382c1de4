// A client's network finds this host: a real resolver in a network namespace of its own asks, on the other side of a wire.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cleanEnvironment, nodeFlags, root, run, until } from '../harness/host.ts'

const id = process.pid % 100_000
const spaces = [`svc-mdns-${id}a`, `svc-mdns-${id}b`] as const
const [here, there] = spaces
const folder = mkdtempSync(join(tmpdir(), 'svc-mdns-'))
const children: ChildProcess[] = []

const must = async (command: string, ...args: string[]): Promise<string> => {
  const { code, out, err } = await run(command, args)
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}: ${err || out}`)
  return out
}
const start = (space: string, env: NodeJS.ProcessEnv, ...command: string[]): ChildProcess => {
  const child = spawn('ip', ['netns', 'exec', space, ...command], { env, stdio: 'ignore' })
  children.push(child)
  return child
}
const end = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill()
  const slow = setTimeout(() => child.kill('SIGKILL'), 10_000)
  await exited
  clearTimeout(slow)
}

const bus = join(folder, 'bus')
const resolver = { PATH: process.env['PATH'] ?? '', DBUS_SYSTEM_BUS_ADDRESS: `unix:path=${bus}` }
/** What the resolver sees now: one line a service and address. */
const browse = async (): Promise<string[]> => {
  const [command, ...args] = ['netns', 'exec', there, 'avahi-browse', '-rptk', '_svc-stream._tcp']
  const { out } = await run('ip', [command!, ...args], { env: resolver })
  return out.split('\n').filter(line => line.startsWith('='))
}
const serve = (...args: string[]): ChildProcess => {
  const env = cleanEnvironment({
    SVC_CONFIG_DIR: join(folder, 'config'),
    SVC_SOURCE: 'software',
    SVC_HOST_NAME: 'Höhle; 2',
  })
  const command = [process.execPath, ...nodeFlags, join(root, 'kernel/main.ts'), 'serve', ...args]
  return start(here, { ...env, SVC_MDNS: '1' }, ...command)
}

beforeAll(async () => {
  for (const space of spaces) await must('ip', 'netns', 'add', space)
  const ends = [`svcm${id}a`, `svcm${id}b`] as const
  await must(
    'ip',
    'link',
    'add',
    ends[0],
    'netns',
    here,
    'type',
    'veth',
    'peer',
    'name',
    ends[1],
    'netns',
    there,
  )
  for (const [i, space] of spaces.entries()) {
    await must('ip', '-n', space, 'link', 'set', 'lo', 'up')
    await must('ip', '-n', space, 'addr', 'add', `10.199.7.${i + 1}/24`, 'dev', ends[i]!)
    await must('ip', '-n', space, 'link', 'set', ends[i]!, 'up')
  }
  const policy = '<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>'
  const config = join(folder, 'bus.conf')
  writeFileSync(
    config,
    `<busconfig><type>session</type><listen>unix:path=${bus}</listen><policy context="default">${policy}</policy></busconfig>`,
  )
  start(there, resolver, 'dbus-daemon', `--config-file=${config}`, '--nofork', '--nopidfile')
  // Its socket and its process number lie in a folder of the system; here it gets one that nobody else sees.
  const daemon =
    'mount -t tmpfs none /run && mkdir /run/avahi-daemon && exec avahi-daemon --no-drop-root --no-chroot --no-rlimits'
  await until('the bus', () => run('test', ['-S', bus]).then(({ code }) => code === 0), 5000)
  start(there, resolver, 'unshare', '--mount', 'sh', '-c', daemon)
})
afterAll(async () => {
  for (const child of children.reverse()) await end(child)
  for (const space of spaces) await run('ip', ['netns', 'del', space])
  rmSync(folder, { recursive: true, force: true })
})

test('a resolver sees the host with its ports and its certificate, and no more once it has gone', async () => {
  // Somebody else holds the port alone at first: the host runs all the same, and is there once the port is free.
  const hog = 'require("dgram").createSocket("udp4").bind(5353)'
  const taken = start(here, {}, process.execPath, '-e', hog)
  await until(
    'the port to be taken',
    async () => (await must('ip', 'netns', 'exec', here, 'ss', '-lun')).includes(':5353'),
    5000,
  )
  const host = serve('--open', '--native-port', '9888', '--mgmt-bind', '[::]:47999')
  const endpoint = join(folder, 'config', 'mgmt-endpoint')
  await until('the host', () => run('test', ['-s', endpoint]).then(({ code }) => code === 0), 20_000)
  expect(await browse()).toEqual([])
  await end(taken)
  const [line] = await until(
    'the advert',
    async () => {
      const lines = await browse()
      return lines.length > 0 ? lines : undefined
    },
    30_000,
  )
  const pem = await must(
    'openssl',
    'x509',
    '-in',
    join(folder, 'config', 'native-cert.pem'),
    '-noout',
    '-fingerprint',
    '-sha256',
  )
  const fingerprint = pem.trim().split('=')[1]!.replaceAll(':', '').toLowerCase()
  const [, , protocol, name, type, , , address, port, txt = ''] = line!.split(';')
  expect([protocol, type, address, port]).toEqual(['IPv4', '_svc-stream._tcp', '10.199.7.1', '9888'])
  expect(name).toBe('H\\195\\182hle\\059\\0322')
  for (const field of ['txtvers=1', 'mgmt=47999', `fp=${fingerprint}`, 'pair=open'])
    expect(txt).toContain(`"${field}"`)
  await end(host)
  await until('the goodbye', async () => (await browse()).length === 0, 5000)
}, 90_000)
