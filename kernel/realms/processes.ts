// The process realm: an extension in a process of its own, which whoever provides `ProcessRealm` starts.
import { type Log, ProcessRealm } from 'svc-host/sdk'
import type { Found } from '../discover.ts'
import type { Rights } from '../permissions.ts'
import type { Services } from '../services.ts'
import { createCell } from './cell.ts'
import { createChannel } from './channel.ts'
import type { Place } from './realms.ts'

export interface ProcessesOptions {
  readonly services: Services
  logOf(owner: string): Log
  isTrusted(id: string): boolean
  rightsOf(found: Found): Rights
}

export function createProcesses({ services, logOf, isTrusted, rightsOf }: ProcessesOptions): Place {
  return async (found, told) => {
    const realm = services.get(ProcessRealm)
    if (!realm) throw new Error(`service ${ProcessRealm.id} has gone while it started`)
    const { id, folder, mainFile } = found
    const { decided, has } = rightsOf(found)
    const log = logOf(id)
    const granted = decided.asked.filter(has)
    const child = await realm.start({ id, folder, main: mainFile!, granted, isTrusted: isTrusted(id), log })
    return {
      cell: createCell('process', told, hands => createChannel(child, log, hands)),
      label: child.hasWalls ? 'process' : 'process without walls',
    }
  }
}
