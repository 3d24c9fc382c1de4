// The plugin runner over the API.
import { type Route, route } from 'svc-host/sdk'
import type { HostedRunner } from './hosted.ts'
import { RunnerRequest, RunnerState } from './schema.ts'

const admin = { tag: 'store', lanes: { plugin: false, device: false } } as const

export const routes = (runner: HostedRunner): Route[] => [
  route({
    ...admin,
    method: 'GET',
    path: '/store/runtime',
    id: 'getPluginRuntime',
    summary: 'Read whether the plugin runner is on, and how it fares',
    replies: { 200: RunnerState },
    handler: () => runner.state(),
  }),
  route({
    ...admin,
    method: 'POST',
    path: '/store/runtime',
    id: 'setPluginRuntime',
    summary: 'Switch the plugin runner on or off',
    body: RunnerRequest,
    invalidBody: 400,
    replies: { 200: RunnerState },
    errors: { 400: 'the body does not fit; nothing is stored' },
    handler: ({ body }) => runner.setEnabled(body.enabled),
  }),
]
