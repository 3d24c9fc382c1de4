// Reed-Solomon parity over GF(2^8), polynomial 0x11D, systematic with Cauchy rows: PROTOCOL.md, section 5.2.

const exp = new Uint8Array(512)
const log = new Uint8Array(256)
for (let i = 0, x = 1; i < 255; i++) {
  exp[i] = x
  exp[i + 255] = x
  log[x] = i
  x <<= 1
  if (x & 0x100) x ^= 0x11d
}

/** Row `c` holds c times every byte: one look-up for each byte in the inner loop. */
const products = new Uint8Array(256 * 256)
for (let a = 1; a < 256; a++) {
  for (let b = 1; b < 256; b++) products[(a << 8) | b] = exp[log[a]! + log[b]!]!
}

export const multiply = (a: number, b: number): number => products[(a << 8) | b]!
export const inverse = (a: number): number => exp[255 - log[a]!]!

/** Coefficient of data shard `column` in parity shard `row` of a block of `k` data shards. */
export const coefficient = (k: number, row: number, column: number): number => inverse((k + row) ^ column)

/** target ^= factor * source, over the shorter of both. */
const addProduct = (target: Uint8Array, source: Uint8Array, factor: number): void => {
  const length = Math.min(target.length, source.length)
  const row = products.subarray(factor << 8, (factor + 1) << 8)
  for (let i = 0; i < length; i++) target[i]! ^= row[source[i]!]!
}

/** The parity shards of a block; all data shards have one size. k + m is at most 256. */
export const parityOf = (data: readonly Uint8Array[], m: number): Uint8Array[] =>
  Array.from({ length: m }, (_, row) => {
    const parity = new Uint8Array(data[0]?.length ?? 0)
    for (let column = 0; column < data.length; column++) {
      addProduct(parity, data[column]!, coefficient(data.length, row, column))
    }
    return parity
  })

/** Inverts a square matrix in place by Gauss-Jordan; a square part of a Cauchy matrix always has an inverse. */
const invert = (matrix: Uint8Array[]): Uint8Array[] => {
  const n = matrix.length
  const result = matrix.map((_, i) => Uint8Array.from({ length: n }, (_, j) => (i === j ? 1 : 0)))
  for (let c = 0; c < n; c++) {
    let pivot = c
    while (matrix[pivot]![c] === 0) pivot++
    if (pivot !== c) {
      ;[matrix[c], matrix[pivot]] = [matrix[pivot]!, matrix[c]!]
      ;[result[c], result[pivot]] = [result[pivot]!, result[c]!]
    }
    const scale = inverse(matrix[c]![c]!)
    for (let j = 0; j < n; j++) {
      matrix[c]![j] = multiply(scale, matrix[c]![j]!)
      result[c]![j] = multiply(scale, result[c]![j]!)
    }
    for (let r = 0; r < n; r++) {
      const factor = matrix[r]![c]!
      if (r === c || factor === 0) continue
      addProduct(matrix[r]!, matrix[c]!, factor)
      addProduct(result[r]!, result[c]!, factor)
    }
  }
  return result
}

/**
 * Fills in the missing data shards of a block. `shards[i]` is data shard i below `k` and parity shard i - k from
 * there on, undefined where it has not arrived; all have one size. Only the part of the matrix that belongs to what
 * is missing is inverted. Gives how many were filled in, or -1 when fewer than `k` shards are there.
 */
export const recover = (shards: (Uint8Array | undefined)[], k: number): number => {
  const missing: number[] = []
  for (let i = 0; i < k; i++) if (!shards[i]) missing.push(i)
  if (missing.length === 0) return 0
  const rows: number[] = []
  for (let i = k; i < shards.length && rows.length < missing.length; i++) if (shards[i]) rows.push(i - k)
  if (rows.length < missing.length) return -1
  // What the chosen parity shards hold of the missing data alone.
  const residues = rows.map(row => {
    const residue = new Uint8Array(shards[k + row]!)
    for (let column = 0; column < k; column++) {
      const data = shards[column]
      if (data) addProduct(residue, data, coefficient(k, row, column))
    }
    return residue
  })
  const solved = invert(rows.map(row => Uint8Array.from(missing, column => coefficient(k, row, column))))
  missing.forEach((column, i) => {
    const shard = new Uint8Array(residues[0]!.length)
    residues.forEach((residue, j) => {
      addProduct(shard, residue, solved[i]![j]!)
    })
    shards[column] = shard
  })
  return missing.length
}
