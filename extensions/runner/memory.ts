// How much memory a process and all that it has started take.
import { readdir, readFile } from 'node:fs/promises'

/** Those beyond are not looked at: nobody may have so many. */
const limit = 1024

const read = (path: string): Promise<string> => readFile(path, 'latin1').catch(() => '')

async function childrenOf(pid: number): Promise<number[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => [])
  const lists = await Promise.all(threads.map(thread => read(`/proc/${pid}/task/${thread}/children`)))
  return lists.flatMap(list => list.split(' ').filter(Boolean).map(Number))
}

/** Bytes that no file backs. */
export async function memoryOf(pid: number): Promise<number> {
  const pids = [pid]
  let kib = 0
  for (const each of pids) {
    const status = await read(`/proc/${each}/status`)
    for (const [, size] of status.matchAll(/^Rss(?:Anon|Shmem):\s+(\d+) kB$/gm)) kib += Number(size)
    if (pids.length < limit) pids.push(...(await childrenOf(each)))
  }
  return kib * 1024
}
