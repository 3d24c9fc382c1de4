// Pairing: the PIN window, devices that knock, the native roster and the device lane's registry.
import { statusCollect, summaryCollect } from 'svc-host/api/status'
import { defineExtension } from 'svc-host/sdk'
import { z } from 'zod'
import { PairingQueue, PairingRoster, PairingWindow } from './api.ts'
import { provideDeviceLane } from './device-lane.ts'
import { withGuests } from './guests.ts'
import { queueNews, rosterNews } from './news.ts'
import { createQueue } from './queue.ts'
import { createRoster } from './roster.ts'
import { routes } from './routes.ts'
import { RosterFile } from './schema.ts'
import { createPairing } from './service.ts'
import { createServing } from './serving.ts'

/** Over all lives of this extension in a process: a late approval must never reach another device than was meant. */
let pendingIds = 0

export default defineExtension({
  config: z.object({ open: z.boolean().default(false) }),
  async setup(ctx) {
    const roster = createRoster(await ctx.document('native-paired.json', RosterFile), rosterNews(ctx.emit))
    const serving = createServing()
    const pairing = createPairing(roster, serving, error => {
      ctx.log.error('a device proved the PIN but could not be stored', { err: error })
    })
    const queue = createQueue({
      roster,
      serving,
      news: queueNews(ctx.emit, ctx.log),
      newId: () => pendingIds++,
    })
    await ctx.effect('watch over ends of access and of waiting', () => {
      const timer = setInterval(() => {
        roster.expire()
        queue.sweep()
      }, 1000).unref()
      return () => clearInterval(timer)
    })
    provideDeviceLane(ctx, roster)
    if (ctx.config.open) ctx.log.warn('this host is open: whoever reaches it may stream, paired or not')
    ctx.provide(PairingRoster, ctx.config.open ? withGuests(roster) : roster)
    ctx.provide(PairingWindow, pairing)
    ctx.provide(PairingQueue, queue)
    ctx.route(...routes({ pairing, serving, queue, roster }))
    ctx.tap(statusCollect, record => ({ ...record, native_paired_clients: roster.list().length }))
    ctx.tap(summaryCollect, record => ({
      ...record,
      native_paired_clients: roster.list().length,
      pending_approvals: queue.list().length,
    }))
  },
})
