// What a process and all that it has started use together.
import { readdir, readFile } from 'node:fs/promises'

/** Ticks of the clock in which Linux counts, whatever its own rate is. */
const tickMs = 10
/** Those beyond are not looked at: nobody may have so many. */
const limit = 1024

const read = (path: string): Promise<string> => readFile(path, 'latin1').catch(() => '')

const childrenOf = async (pid: number): Promise<number[]> => {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => [])
  const lists = await Promise.all(threads.map(thread => read(`/proc/${pid}/task/${thread}/children`)))
  return lists.flatMap(list => list.split(' ').filter(Boolean).map(Number))
}

/** CPU time, that of children that have ended among it, and memory that no file backs. */
export async function usageOf(pid: number): Promise<{ cpuMs: number; memoryBytes: number }> {
  const pids = [pid]
  let ticks = 0
  let kib = 0
  for (const each of pids) {
    const [stat, status] = await Promise.all([read(`/proc/${each}/stat`), read(`/proc/${each}/status`)])
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    for (const time of fields.slice(11, 15)) ticks += Number(time) || 0
    for (const [, size] of status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+) kB$/gm)) kib += Number(size)
    if (pids.length < limit) pids.push(...(await childrenOf(each)))
  }
  return { cpuMs: ticks * tickMs, memoryBytes: kib * 1024 }
}
