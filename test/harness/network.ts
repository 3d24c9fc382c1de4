// A network namespace joined to the host's by a pair of virtual interfaces, with packet loss by nftables and a
// bottleneck by tc; needs root.
import { run } from './host.ts'

export interface Network {
  /** Of the namespace: for `ip netns exec`. */
  readonly name: string
  /** Where the outside is reached from within. */
  readonly hostAddress: string
  /** Drops this percentage of the UDP packets that come into the namespace, each by its own chance. */
  dropUdp(percent: number): Promise<void>
  /** How many packets were dropped. */
  dropped(): Promise<number>
  /** Lets no more than this into the namespace; what waits for its turn beyond `queueBytes` is lost. */
  narrow(kbps: number, queueBytes: number): Promise<void>
  /** How many packets were lost because the queue was full. */
  overflowed(): Promise<number>
  close(): Promise<void>
}

const must = async (...[command, ...args]: [string, ...string[]]): Promise<string> => {
  const { code, out, err } = await run(command, args)
  if (code !== 0) throw new Error(`${command} ${args.join(' ')}: ${err || out}`)
  return out
}

/** With private addresses, or with public ones of a range that is for examples only. */
export async function openNetwork(range: 'private' | 'public' = 'private'): Promise<Network> {
  // Names of interfaces are short; the process number keeps runs apart.
  const id = process.pid % 100_000
  const name = `svc-loss-${id}`
  const [outside, inside] = [`svcl${id}a`, `svcl${id}b`]
  const subnet = range === 'private' ? `10.${200 + (id % 50)}.${(id >> 6) % 250}` : '203.0.113'
  const first = range === 'private' ? 0 : 4 * (id % 64)
  const [near, far] = [1, 2].map(last => `${subnet}.${first + last}`) as [string, string]
  const inNamespace = (...args: [string, ...string[]]) => must('ip', 'netns', 'exec', name, ...args)
  const close = async () => {
    await run('ip', ['link', 'del', outside])
    await run('ip', ['netns', 'del', name])
  }
  try {
    await must('ip', 'netns', 'add', name)
    await must('ip', 'link', 'add', outside, 'type', 'veth', 'peer', 'name', inside)
    await must('ip', 'link', 'set', inside, 'netns', name)
    // Without this a burst crosses as one segment, and one throw of the dice drops all of it.
    await must('ip', 'link', 'set', outside, 'gso_max_segs', '1')
    await must('ip', 'addr', 'add', `${near}/30`, 'dev', outside)
    await must('ip', 'link', 'set', outside, 'up')
    await inNamespace('ip', 'addr', 'add', `${far}/30`, 'dev', inside)
    await inNamespace('ip', 'link', 'set', inside, 'up')
    await inNamespace('ip', 'link', 'set', 'lo', 'up')
  } catch (error) {
    await close()
    throw error
  }
  const nft = (rules: string) => inNamespace('nft', rules)
  return {
    name,
    hostAddress: near,
    dropUdp: async percent => {
      await nft('add table inet loss')
      await nft('add chain inet loss in { type filter hook input priority 0; }')
      await nft(`add rule inet loss in meta l4proto udp numgen random mod 100 < ${percent} counter drop`)
    },
    dropped: async () => Number((await nft('list ruleset')).match(/counter packets (\d+)/)?.[1] ?? 0),
    narrow: async (kbps, queueBytes) => {
      // The bucket holds two packets: none passes faster than the rate.
      const bucket = ['rate', `${kbps}kbit`, 'burst', '3100', 'limit', String(queueBytes)]
      await must('tc', 'qdisc', 'replace', 'dev', outside, 'root', 'tbf', ...bucket)
    },
    overflowed: async () => {
      const told = await must('tc', '-s', 'qdisc', 'show', 'dev', outside)
      return Number(told.match(/dropped (\d+)/)![1])
    },
    close,
  }
}
