// Shared handles over every order of holding, letting go, failing and ending.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { captureKey } from './capture.ts'
import { createCounted, type Held } from './counted.ts'

const mode = { width: 640, height: 480, hz: 60 }

class Device {
  readonly ended: Promise<unknown>
  closed = 0
  end: () => void = () => {}
  constructor() {
    this.ended = new Promise<void>(resolve => {
      this.end = resolve
    })
  }
  async close(): Promise<void> {
    this.closed++
  }
}

test('users at once share one opening, and the last one closes it', async () => {
  const shared = createCounted<Device>()
  let opened = 0
  const open = async () => {
    opened++
    await new Promise(resolve => setTimeout(resolve, 5))
    return new Device()
  }
  const held = await Promise.all([1, 2, 3].map(() => shared.hold('a', open)))
  expect(opened).toBe(1)
  const device = held[0]!.value
  await held[0]!.release()
  await held[0]!.release()
  await held[1]!.release()
  expect(device.closed).toBe(0)
  await held[2]!.release()
  expect(device.closed).toBe(1)
  expect(shared.keys()).toEqual([])
})

test('an opening that fails fails for all who wait, and the next one opens anew', async () => {
  const shared = createCounted<Device>()
  const fail = () => Promise.reject(new Error('no such display'))
  const both = await Promise.allSettled([shared.hold('a', fail), shared.hold('a', fail)])
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await expect(shared.hold('a', async () => new Device())).resolves.toBeDefined()
})

test('what has ended is opened anew for newcomers and closed once by those who held it', async () => {
  const shared = createCounted<Device>()
  const open = async () => new Device()
  const [first, second] = [await shared.hold('a', open), await shared.hold('a', open)]
  first.value.end()
  await first.value.ended
  const third = await shared.hold('a', open)
  expect(third.value).not.toBe(first.value)
  await first.release()
  expect(first.value.closed).toBe(0)
  await second.release()
  expect(first.value.closed).toBe(1)
  expect(shared.keys()).toEqual(['a'])
  await third.release()
})

test('over any order nothing is closed while held, and everything once afterwards', async () => {
  const step = fc.record({
    do: fc.constantFrom('hold', 'release', 'end'),
    key: fc.constantFrom('a', 'b'),
    which: fc.nat(),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async steps => {
      const shared = createCounted<Device>()
      const devices: Device[] = []
      const held: Held<Device>[] = []
      for (const { do: what, key, which } of steps) {
        if (what === 'hold') {
          held.push(
            await shared.hold(key, async () => {
              const device = new Device()
              devices.push(device)
              return device
            }),
          )
        } else if (held.length > 0 && what === 'release')
          await held.splice(which % held.length, 1)[0]!.release()
        else if (held.length > 0) held[which % held.length]!.value.end()
        await Promise.resolve()
        for (const { value } of held) expect(value.closed).toBe(0)
      }
      for (const one of held) await one.release()
      expect(devices.map(({ closed }) => closed)).toEqual(devices.map(() => 1))
      expect(shared.keys()).toEqual([])
    }),
  )
})

test('a display is one source whatever the mode; a generated picture is one for each mode', () => {
  const x11 = { kind: 'x11', display: ':9', xauthority: '/x' } as const
  expect(captureKey(x11, mode)).toBe(captureKey(x11, { ...mode, width: 800 }))
  expect(captureKey(x11, mode)).not.toBe(captureKey({ ...x11, display: ':10' }, mode))
  expect(captureKey({ kind: 'test' }, mode)).not.toBe(captureKey({ kind: 'test' }, { ...mode, hz: 30 }))
})
