// Session settings: what becomes of games and sessions when the other ends (wire-decisions, "Session settings").
import { type DocumentFile, type Route, route } from 'svc-host/sdk'
import { z } from 'zod'

const AtSessionEnd = z.enum(['keep', 'on_quit', 'always'])
const AtNewLaunch = z.enum(['keep', 'end'])

/** As they are stored and shown: every key is there. */
export const SessionSettings = z
  .object({
    version: z.int(),
    game_on_session_end: AtSessionEnd.describe(
      'what becomes of the game when its session ends; on_quit: a deliberate stop ends it, a lost connection leaves it running',
    ),
    session_on_game_exit: z.boolean().describe('end the session when the game exits'),
    game_on_new_launch: AtNewLaunch.describe(
      'what becomes of a client’s earlier game when it starts another',
    ),
    disconnect_grace_seconds: z
      .int()
      .describe('10..86400; how long a game outlives a lost connection; used with always only'),
  })
  .meta({ id: 'SessionSettings' })
export type SessionSettings = z.output<typeof SessionSettings>

/** A body, and the file: what is missing takes its default, the number is clamped. */
export const SessionSettingsInput = z.object({
  version: z
    .any()
    .default(1)
    .transform(() => 1),
  game_on_session_end: AtSessionEnd.default('keep'),
  session_on_game_exit: z.boolean().default(true),
  game_on_new_launch: AtNewLaunch.default('keep'),
  disconnect_grace_seconds: z
    .int()
    .default(300)
    .transform(seconds => Math.min(86_400, Math.max(10, seconds))),
})

const Answer = z
  .object({
    settings: SessionSettings,
    configured: z.boolean().describe('true once they have been stored'),
    enforced: z.array(z.string()).describe('settings that something on this host acts by now'),
  })
  .meta({ id: 'SessionSettingsAnswer' })

/** `enforced` asks those that act by them. */
export function settingsRoutes(
  file: DocumentFile<SessionSettings>,
  enforced: () => Promise<readonly string[]>,
): Route[] {
  const answer = async (): Promise<z.input<typeof Answer>> => ({
    settings: file.value,
    configured: file.exists,
    enforced: [...(await enforced())],
  })
  const common = {
    path: '/session/settings',
    tag: 'session',
    lanes: { plugin: 'all', device: false },
    replies: { 200: Answer },
  } as const
  return [
    route({
      ...common,
      method: 'GET',
      id: 'getSessionSettings',
      summary: 'What becomes of games and sessions when the other ends',
      handler: answer,
    }),
    route({
      ...common,
      method: 'PUT',
      id: 'setSessionSettings',
      summary: 'Store the session settings; they act on live sessions too',
      description: 'The whole object: a key that is missing goes back to its default. The number is clamped.',
      body: SessionSettingsInput,
      invalidBody: 400,
      errors: { 500: 'the settings could not be stored' },
      handler: async ({ body }) => {
        await file.write(body)
        return answer()
      },
    }),
  ]
}
