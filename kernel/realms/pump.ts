// The way into an isolate: what is said waits, and is carried in with one entry at a time, no longer and no more often than is its share.
import { messageOf } from '../errors.ts'
import type { Carrier, Hands } from './cell.ts'
import { type Load, requestKind, verdict } from './requests.ts'
import type { Sandbox } from './sandbox.ts'
import { createShare } from './share.ts'

/** How long its code may run at a stretch, and while its modules are evaluated. */
const entryLimitMs = 500
const loadLimitMs = 2000
/** What may wait for it. */
const queueLimit = 1024

export function createPump(sandbox: Sandbox, number: number, load: Load, hands: Hands): Carrier {
  const queue: string[] = []
  const share = createShare(hands.isSlow)
  let isEntered = false
  let cpuUs = 0

  const answered = (kind: number, amount: number, text: string): void => {
    cpuUs += amount
    if (kind === verdict.dead || kind === verdict.starved) {
      hands.fail(text, kind === verdict.starved)
      return
    }
    const began = performance.now()
    try {
      const isStray = kind === verdict.threw
      const at = isStray ? text.lastIndexOf('\n') : -1
      if (isStray) hands.report('an error that nobody caught', new Error(text.slice(0, at)))
      hands.take(text.slice(at + 1))
    } catch (error) {
      hands.fail(messageOf(error))
    }
    share.charge(amount / 1000 + performance.now() - began)
  }

  const pump = async (): Promise<void> => {
    if (isEntered || hands.isGone() || queue.length === 0) return
    isEntered = true
    const debtMs = share.debtMs()
    if (debtMs > 0) await new Promise(done => setTimeout(done, debtMs))
    const text = `[${queue.splice(0).join(',')}]`
    try {
      const answer = await sandbox.request(requestKind.enter, number, text, entryLimitMs)
      isEntered = false
      if (!hands.isGone()) answered(answer.kind, answer.amount, answer.text)
    } catch {
      // The process has ended; whoever keeps it says so.
      return
    }
    void pump()
  }

  return {
    async open() {
      const text = JSON.stringify(load)
      const tryIt = () => sandbox.request(requestKind.open, number, text, loadLimitMs)
      let answer = await tryIt()
      // Whoever waits for it has a limit of their own.
      while (answer.kind === verdict.starved && !hands.isGone()) answer = await tryIt()
      if (answer.kind === verdict.dead || answer.kind === verdict.starved) throw new Error(answer.text)
      answered(answer.kind, answer.amount, answer.text)
    },
    hasRoom: () => queue.length < queueLimit,
    send(message) {
      queue.push(message)
      void pump()
    },
    close: async () => void (await sandbox.request(requestKind.close, number, '', entryLimitMs)),
    cpuMs: () => Math.round(cpuUs / 1000),
    memoryBytes: () => sandbox.memoryOf(number),
    memoryLimitBytes: load.memoryMb * 2 ** 20,
  }
}
