// The event stream's public face: what its control frames look like on the wire.
import { z } from 'zod'

/** First frame when events after the cursor are gone from the ring: read state over REST again. */
export const Dropped = z.object({ dropped: z.literal(true) })
/** Sent once, right after the replay: what follows happened after the connect. */
export const Live = z.object({ live: z.literal(true) })

/** The cursor of a reader who wants no replay and no word of what it missed. */
export const tailCursor = Number.MAX_SAFE_INTEGER
