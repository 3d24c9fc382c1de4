// Keeps an advert in the local network: probed, announced, answered, taken back; and again when the network has changed.
import { createSocket } from 'node:dgram'
import { networkInterfaces } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { getResponder } from '@homebridge/ciao'
import type { Log } from 'svc-host/sdk'
import type { Advert } from './advert.ts'

const mdnsPort = 5353
/** How often the network is looked at. */
const lookMs = 5000

/** Those that lead out of this machine. The responder's own search for them misses those of containers. */
const outward = (): string[] =>
  Object.entries(networkInterfaces())
    .filter(([, addresses]) => addresses?.some(({ internal }) => !internal))
    .map(([name]) => name)
    .sort()

/** Rejects where somebody holds the port alone; the usual responders of a system share it. */
async function probePort(): Promise<void> {
  const socket = createSocket({ type: 'udp4', reuseAddr: true })
  try {
    await new Promise<void>((resolve, reject) => {
      socket.once('error', reject)
      socket.bind(mdnsPort, resolve)
    })
  } finally {
    socket.close()
  }
}

async function announce(advert: Advert, networks: string[], log: Log): Promise<() => Promise<void>> {
  await probePort()
  const responder = getResponder({ advertiseIpv6: true, interface: networks })
  const service = responder.createService({ ...advert, txt: { ...advert.txt } })
  service.on('name-change', name =>
    log.warn(`another host here is called "${advert.name}"; this one shows as "${name}"`),
  )
  const stop = async (): Promise<void> => {
    await service.destroy().catch(() => {})
    await responder.shutdown()
  }
  try {
    await service.advertise()
    log.info(`announced as "${advert.name}" on ${networks.join(', ')}`)
    return stop
  } catch (error) {
    await stop()
    throw error
  }
}

const explain = (error: unknown): string =>
  (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
    ? `another program holds UDP port ${mdnsPort} alone; clients here cannot find this host by themselves until it ends`
    : `this host cannot be announced: ${(error as Error).message}`

/** Advertises until the function that it returns is called; what goes wrong is told of once and tried again. */
export function advertise(advert: Advert, log: Log): () => Promise<void> {
  const stopping = new AbortController()
  const { signal } = stopping
  const run = async (): Promise<void> => {
    let stop: (() => Promise<void>) | undefined
    let known = ''
    let told = ''
    while (!signal.aborted) {
      const networks = outward()
      if (networks.join() !== known) {
        await stop?.()
        stop = undefined
        known = networks.join()
      }
      if (!stop && networks.length > 0) {
        try {
          stop = await announce(advert, networks, log)
          told = ''
        } catch (error) {
          const why = explain(error)
          if (why !== told) log.warn(why)
          told = why
        }
      }
      await delay(lookMs, undefined, { signal, ref: false }).catch(() => {})
    }
    await stop?.()
  }
  const running = run()
  return () => {
    stopping.abort()
    return running
  }
}
