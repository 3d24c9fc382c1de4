// Registrations' public face: the event about plugins that come and go.
import { event } from 'svc-host/sdk'
import { z } from 'zod'

/** A plugin has registered, has changed what it registered, or has gone. */
export const pluginsChanged = event('plugins.changed', z.object({ id: z.string() }))
