// Garbage on the native plane's ports while a good client streams: silence or typed refusals, and the stream goes on.
import { createSocket } from 'node:dgram'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { serve, startViewer, until, viewer } from '../harness/host.ts'
import type { Sweep } from './main.ts'

export const hostileSweep: Sweep = {
  name: 'hostile',
  rounds: 100,
  async begin() {
    const folder = mkdtempSync(join(tmpdir(), 'svc-soak-hostile-'))
    const identity = join(folder, 'identity')
    const host = await serve({ env: { SVC_SOURCE: 'software' } })
    const paired = await viewer(identity, 'pair', `127.0.0.1:${host.nativePort}`, '--pin', await host.arm())
    if (paired.code !== 0) throw new Error(`pairing failed: ${paired.err}`)
    const resident = () =>
      Number(readFileSync(`/proc/${host.pid}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)?.[1])
    const watching = startViewer(
      identity,
      'stream',
      `127.0.0.1:${host.nativePort}`,
      '--mode',
      '640x360@30',
      '--seconds',
      '36000',
    )
    await until('the stream', async () => (await host.api('GET', '/status')).body.video_streaming)
    let residentAtFirstKb = 0
    return {
      async round(random) {
        const bytes = (n: number) => Buffer.from(Array.from({ length: n }, () => Math.floor(random() * 256)))
        const answers = await datagrams(host.nativePort, () => {
          const datagram = bytes(1 + Math.floor(random() * 1400))
          if (random() < 0.5) datagram[0] = 0x10 | (1 + Math.floor(random() * 4))
          return datagram
        })
        if (answers)
          throw new Error(`${answers} datagrams were sent to an address that has not proven itself`)
        for (let i = 0; i < 8; i++)
          await garbage(host.nativePort, bytes(Math.floor(random() * 4000)), random() < 0.5)
        const status = await host.api('GET', '/status')
        if (!status.body.video_streaming) throw new Error('the stream of the good client has ended')
        residentAtFirstKb ||= resident()
        if (resident() > residentAtFirstKb * 1.5 + 65536)
          throw new Error(`memory grew from ${residentAtFirstKb} to ${resident()} kB`)
        return `200 datagrams and 8 connections of garbage, ${resident()} kB`
      },
      async end() {
        watching.kill()
        await host.stop()
        rmSync(folder, { recursive: true, force: true })
      },
    }
  },
}

/** Sends 200 datagrams and counts the answers. */
async function datagrams(port: number, make: () => Buffer): Promise<number> {
  const socket = createSocket('udp4')
  let answers = 0
  socket.on('message', () => answers++)
  for (let i = 0; i < 200; i++) await new Promise(resolve => socket.send(make(), port, '127.0.0.1', resolve))
  await new Promise(resolve => setTimeout(resolve, 50))
  await new Promise<void>(resolve => socket.close(resolve))
  return answers
}

/** Opens a connection, plain or TLS without a certificate, writes garbage and leaves. */
const garbage = (port: number, data: Buffer, secure: boolean): Promise<void> =>
  new Promise(resolve => {
    const socket = secure
      ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['svc/1'] })
      : connect({ port, host: '127.0.0.1' })
    socket.on('error', () => {})
    socket.once('close', () => resolve())
    socket.end(data)
    setTimeout(() => socket.destroy(), 100)
  })
