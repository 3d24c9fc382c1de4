// The `kinds` filter: which events a stream wants.

/**
 * Reads a comma-separated list of exact kinds, `domain.*` and `*`; nothing listed means all. The answer looks up a
 * kind in time that does not depend on how long the list is.
 */
export function kindFilter(list: string | undefined): (kind: string) => boolean {
  const items = (list ?? '').split(',').map(item => item.trim())
  const wanted = new Set(items.filter(item => item !== ''))
  if (wanted.size === 0 || wanted.has('*')) return () => true
  return kind => {
    if (wanted.has(kind)) return true
    for (let dot = kind.indexOf('.'); dot >= 0; dot = kind.indexOf('.', dot + 1))
      if (wanted.has(`${kind.slice(0, dot)}.*`)) return true
    return false
  }
}
