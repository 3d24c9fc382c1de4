// Sound of sessions: where a plane finds what the programs of a display play.
import type { PictureSource, SoundChannels, SoundSource } from 'svc-host/api/media'
import { token } from 'svc-host/sdk'

export interface SessionSound {
  /**
   * The sound of a display, with this many channels: its programs are offered as many from now on. Does not wait for
   * the sound server to run. undefined: the display has no sound.
   */
  open(
    display: { readonly slot: number; readonly picture: PictureSource },
    channels: SoundChannels,
  ): Promise<SoundSource | undefined>
}
export const SessionSound = token<SessionSound>('session.sound', '1.0.0')
