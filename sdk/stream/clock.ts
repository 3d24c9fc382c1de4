// How far the host's clock is ahead of ours, from the pings' round trips: PROTOCOL.md, section 7.

/** This client's monotonic clock, microseconds. */
export const nowUs = (): number => Math.round(performance.now() * 1000)

export interface ClockSync {
  /** The host's answer to a ping sent at `sentUs`, received and sent by the host at its times, here at `arrivedUs`. */
  sample(sentUs: number, hostReceiveUs: number, hostSendUs: number, arrivedUs: number): void
  /** Host's clock minus ours, microseconds; undefined before the first sample. */
  readonly offsetUs: number | undefined
  /** Smallest round trip of the last 8 pings without the host's own time, microseconds. */
  readonly rttUs: number | undefined
}

export const createClockSync = (): ClockSync => {
  const samples: { readonly rttUs: number; readonly offsetUs: number }[] = []
  let best: { readonly rttUs: number; readonly offsetUs: number } | undefined
  return {
    sample: (sentUs, hostReceiveUs, hostSendUs, arrivedUs) => {
      const rttUs = arrivedUs - sentUs - (hostSendUs - hostReceiveUs)
      if (!(rttUs >= 0)) return
      samples.push({ rttUs, offsetUs: (hostReceiveUs - sentUs + (hostSendUs - arrivedUs)) / 2 })
      if (samples.length > 8) samples.shift()
      best = samples.reduce((least, sample) => (sample.rttUs < least.rttUs ? sample : least))
    },
    get offsetUs() {
      return best?.offsetUs
    },
    get rttUs() {
      return best?.rttUs
    },
  }
}
