// Log entries as the API shows them.
import { z } from 'zod'

/** One entry (wire-decisions, "Log entries"). */
export const LogEntry = z
  .object({
    seq: z.int().describe('number of the entry, from 1; what `after` takes'),
    ts_ms: z.int().describe('Unix milliseconds'),
    level: z.enum(['ERROR', 'WARN', 'INFO', 'DEBUG', 'TRACE']),
    target: z
      .string()
      .describe('the extension that wrote it; plugin:<source> for lines of the plugin runner'),
    msg: z.string().describe('the text, then the fields as key=value'),
  })
  .meta({ id: 'LogEntry' })
export type LogEntry = z.output<typeof LogEntry>

/** The answer of `GET /logs`. */
export const LogPage = z
  .object({
    entries: z.array(LogEntry).describe('oldest first'),
    next: z
      .int()
      .describe('cursor of the next page: the last seq here, or the given one where there is none'),
    dropped: z.boolean().describe('entries between the cursor and the first one here are gone'),
  })
  .meta({ id: 'LogPage' })
export type LogPage = z.output<typeof LogPage>
