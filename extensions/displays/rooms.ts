// The rooms of the displays' programs: others hear of each before its first program runs, and after its last.
import type { BackendRequest, DisplayRoom } from './api.ts'

export interface Rooms {
  prepare(slot: number): BackendRequest['prepare']
  list(): readonly DisplayRoom[]
}

/** `onPrepare` and `onClear` ask the taps. */
export function createRooms(
  onPrepare: (room: DisplayRoom) => Promise<DisplayRoom>,
  onClear: (room: DisplayRoom) => Promise<unknown>,
): Rooms {
  const rooms = new Set<DisplayRoom>()
  return {
    list: () => [...rooms],
    prepare: slot => async told => {
      const room = { ...told, slot }
      rooms.add(room)
      const { env } = await onPrepare(room).catch(() => room)
      let cleared: Promise<void> | undefined
      return {
        env,
        clear: () => {
          rooms.delete(room)
          cleared ??= onClear(room).then(
            () => {},
            () => {},
          )
          return cleared
        },
      }
    },
  }
}
