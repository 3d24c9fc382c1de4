// The PIN exchange of a browser's key, two requests long: the window admits one at a time, and so does this.
import type { PairingExchange, PairingRefusal, PairingWindow } from 'svc-host/api/pairing'
import { exchangeId, readDeviceKey } from './key.ts'

/** How long the second request may take. */
const limitMs = 60_000

export interface BrowserExchange {
  /** Begins with the share of a key; resolves to the host's share. */
  share(
    key: string,
    name: string,
    share: string,
    address: string,
  ): { share: string; fingerprint: string } | PairingRefusal | { refused: 'bad-key' }
  /** Ends the one that this address has begun. */
  confirm(
    tag: string,
    address: string,
  ): Promise<{ confirm: string; fingerprint: string } | PairingRefusal | { refused: 'none' }>
  close(): void
}

interface Live {
  readonly exchange: PairingExchange
  readonly fingerprint: string
  readonly address: string
  readonly timer: NodeJS.Timeout
}

const bytes = (text: string): Buffer => Buffer.from(text, 'base64')

export function createExchange(window: PairingWindow, hostFingerprint: string): BrowserExchange {
  let live: Live | undefined
  const end = (): Live | undefined => {
    const ended = live
    clearTimeout(ended?.timer)
    live = undefined
    return ended
  }
  return {
    share(key, name, share, address) {
      const device = readDeviceKey(key)
      if (!device) return { refused: 'bad-key' }
      const { fingerprint } = device
      const sid = exchangeId(hostFingerprint, fingerprint)
      const begun = window.begin({ fingerprint, name, address, hostFingerprint, sid, share: bytes(share) })
      if ('refused' in begun) return begun
      // The window has been armed anew, so that the one before can pair nothing any more.
      end()?.exchange.abandon()
      const timer = setTimeout(() => end()?.exchange.abandon(), limitMs).unref()
      live = { exchange: begun, fingerprint, address, timer }
      return { share: Buffer.from(begun.share).toString('base64'), fingerprint }
    },
    async confirm(tag, address) {
      if (live?.address !== address) return { refused: 'none' }
      const { exchange, fingerprint } = end()!
      const done = await exchange.confirm(bytes(tag))
      exchange.abandon()
      if ('refused' in done) return done
      return { confirm: Buffer.from(done.tag).toString('base64'), fingerprint }
    },
    close: () => end()?.exchange.abandon(),
  }
}
