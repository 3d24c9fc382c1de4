// Host info, status record and local summary over the API.
import { route } from 'svc-host/sdk'
import { HostRecord, LocalSummary, StatusRecord } from './api.ts'
import type { Collector } from './collector.ts'

export const routes = (collector: Collector, hostInfo: () => Promise<HostRecord>) => [
  route({
    method: 'GET',
    path: '/host',
    id: 'getHostInfo',
    tag: 'host',
    summary: 'Who this host is, what it can encode and where it listens',
    lanes: { plugin: false, device: 'any' },
    replies: { 200: HostRecord },
    handler: hostInfo,
  }),
  route({
    method: 'GET',
    path: '/status',
    id: 'getStatus',
    tag: 'host',
    summary: 'What the host is doing now: sessions, streams and games on all planes',
    lanes: { plugin: 'all', device: 'any' },
    replies: { 200: StatusRecord },
    handler: collector.status,
  }),
  route({
    method: 'GET',
    path: '/local/summary',
    id: 'getLocalSummary',
    tag: 'host',
    summary: 'Counts and booleans for the tray icon; this machine only, no credential',
    lanes: 'loopback',
    replies: { 200: LocalSummary },
    handler: collector.summary,
  }),
]
