// The store over the API: what is installed, and package operations as jobs.
import { HttpError, type Route, reply, route } from 'svc-host/sdk'
import { z } from 'zod'
import type { Jobs } from './jobs.ts'
import type { Packages } from './packages.ts'
import {
  InstalledRow,
  InstallRequest,
  Job,
  JobReference,
  PinRequest,
  RollbackRequest,
  UninstallRequest,
  UpdateRequest,
} from './schema.ts'

export interface Store {
  readonly packages: Packages
  readonly jobs: Jobs
  rows(): Promise<InstalledRow[]>
}

const admin = { tag: 'store', lanes: { plugin: false, device: false } } as const
const begins = {
  replies: { 202: JobReference },
  invalidBody: 400,
  errors: { 400: 'it cannot be done as it was asked', 409: 'another package operation is under way' },
} as const

const accepted = ({ id }: Job) => reply(202, { job: id })

export const routes = ({ packages, jobs, rows }: Store): Route[] => [
  route({
    ...admin,
    method: 'GET',
    path: '/store/installed',
    id: 'listInstalledPlugins',
    summary: 'List the installed packages',
    replies: { 200: z.array(InstalledRow) },
    handler: rows,
  }),
  route({
    ...admin,
    ...begins,
    method: 'POST',
    path: '/store/install',
    id: 'installPlugin',
    summary: 'Install a package, or another version of an installed one',
    body: InstallRequest,
    handler: ({ body }) => accepted(packages.install(body)),
  }),
  route({
    ...admin,
    ...begins,
    method: 'POST',
    path: '/store/uninstall',
    id: 'uninstallPlugin',
    summary: 'Remove a package and all that it has left',
    body: UninstallRequest,
    handler: async ({ body }) => accepted(await packages.uninstall(body.pkg, body.keep_data)),
  }),
  route({
    ...admin,
    ...begins,
    method: 'POST',
    path: '/store/update',
    id: 'updatePlugin',
    summary: 'Update a package; it goes back by itself when the new version does not come up',
    body: UpdateRequest,
    handler: async ({ body }) => accepted(await packages.update(body.pkg, body.version, body.grant)),
  }),
  route({
    ...admin,
    ...begins,
    method: 'POST',
    path: '/store/rollback',
    id: 'rollbackPlugin',
    summary: 'Go back to the version before',
    body: RollbackRequest,
    handler: async ({ body }) => accepted(await packages.rollback(body.pkg, body.grant)),
  }),
  route({
    ...admin,
    method: 'PUT',
    path: '/store/pin',
    id: 'pinPlugin',
    summary: 'Keep a package at its version when all are updated, or no longer',
    body: PinRequest,
    invalidBody: 400,
    replies: { 204: null },
    errors: { 400: 'it is not installed', 409: 'another package operation is under way' },
    handler: async ({ body }) => {
      await packages.pin(body.pkg, body.pinned)
      return reply(204)
    },
  }),
  route({
    ...admin,
    method: 'GET',
    path: '/store/jobs',
    id: 'listPluginJobs',
    summary: 'List the newest package operations, oldest first',
    replies: { 200: z.array(Job) },
    handler: () => [...jobs.list()],
  }),
  route({
    ...admin,
    method: 'GET',
    path: '/store/jobs/{id}',
    id: 'getPluginJob',
    summary: 'One package operation with its log',
    params: z.object({ id: z.string() }),
    replies: { 200: Job },
    errors: { 404: 'no such job' },
    handler: ({ params }) => {
      const job = jobs.get(params.id)
      if (!job) throw new HttpError(404, 'job not found')
      return job
    },
  }),
]
