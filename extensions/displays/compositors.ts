// The desktops that displays can be made on, as clients choose from them (wire-decisions, "Compositors").
import { type Route, route } from 'svc-host/sdk'
import { z } from 'zod'
import type { DisplayBackend } from './api.ts'
import { type BackendChoice, chooseBackend } from './choice.ts'

const ids = ['x11', 'kwin', 'mutter', 'wlroots', 'hyprland', 'gamescope'] as const

const Compositor = z
  .object({
    id: z.enum(ids),
    label: z.string(),
    available: z.boolean().describe('displays can be made on it now'),
    default: z.boolean().describe('an automatic choice takes it now'),
  })
  .meta({ id: 'Compositor' })
type Compositor = z.output<typeof Compositor>

/** A picture without a desktop is none of them. */
const isCompositor = (backend: DisplayBackend): backend is DisplayBackend & { id: Compositor['id'] } =>
  (ids as readonly string[]).includes(backend.id)

async function listCompositors(
  backends: readonly DisplayBackend[],
  choice: BackendChoice,
): Promise<Compositor[]> {
  const chosen = await chooseBackend(backends, choice).catch(() => undefined)
  return Promise.all(
    backends.filter(isCompositor).map(async backend => ({
      id: backend.id,
      label: backend.label,
      available: (await backend.available()) === true,
      default: backend === chosen,
    })),
  )
}

export const compositorRoute = (backends: () => readonly DisplayBackend[], choice: BackendChoice): Route =>
  route({
    method: 'GET',
    path: '/compositors',
    id: 'listCompositors',
    tag: 'display',
    summary: 'The desktops that displays can be made on',
    lanes: { plugin: 'all', device: 'any' },
    replies: { 200: z.array(Compositor) },
    handler: () => listCompositors(backends(), choice),
  })
