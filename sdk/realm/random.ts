// Random numbers that cannot be foretold, where there is no system to ask: ChaCha20 from a seed that the host has drawn.

const rotate = (value: number, bits: number): number => (value << bits) | (value >>> (32 - bits))

/** One block of ChaCha20 (RFC 8439): 16 words of key stream from a key of 8 words, a counter and a nonce of 3 words. */
export function block(key: Uint32Array, counter: number, nonce: Uint32Array): Uint32Array {
  const start = Uint32Array.of(0x61707865, 0x3320646e, 0x79622d32, 0x6b206574, ...key, counter, ...nonce)
  const state = start.slice()
  const quarter = (a: number, b: number, c: number, d: number): void => {
    state[a]! += state[b]!
    state[d] = rotate(state[d]! ^ state[a]!, 16)
    state[c]! += state[d]!
    state[b] = rotate(state[b]! ^ state[c]!, 12)
    state[a]! += state[b]!
    state[d] = rotate(state[d]! ^ state[a]!, 8)
    state[c]! += state[d]!
    state[b] = rotate(state[b]! ^ state[c]!, 7)
  }
  for (let round = 0; round < 10; round++) {
    for (let at = 0; at < 4; at++) quarter(at, at + 4, at + 8, at + 12)
    for (let at = 0; at < 4; at++) quarter(at, 4 + ((at + 1) % 4), 8 + ((at + 2) % 4), 12 + ((at + 3) % 4))
  }
  return state.map((word, at) => word + start[at]!)
}

const nonce = new Uint32Array(3)
let key: Uint32Array | undefined

/** Takes 32 bytes of the host's. */
export function seed(bytes: Uint8Array): void {
  key = new Uint32Array(bytes.slice(0, 32).buffer)
}

/** Fills at most 65536 bytes; each key makes one answer and the next key, so that what was drawn cannot be found again. */
export function fill<T extends ArrayBufferView>(view: T): T {
  if (!key) throw new Error('random numbers are there from the setup on, not while the module is loaded')
  if (view.byteLength > 65536) throw new RangeError('at most 65536 random bytes at once')
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
  const own = key
  key = block(own, 0, nonce).slice(0, 8)
  for (let at = 0, counter = 1; at < bytes.length; at += 64, counter++)
    bytes.set(new Uint8Array(block(own, counter, nonce).buffer).subarray(0, bytes.length - at), at)
  return view
}

export function randomUuid(): string {
  const bytes = fill(new Uint8Array(16))
  bytes[6] = (bytes[6]! & 0x0f) | 0x40
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = [...bytes].map(byte => byte.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
