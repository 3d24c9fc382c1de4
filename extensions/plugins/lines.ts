// Where in a JSON file something stands, so that what is wrong with it can be found.

/** The line of each value, from 1, by its dotted path, as `permissions.0`; nothing of text that is not JSON. */
export function linesOf(text: string): Map<string, number> {
  const lines = new Map<string, number>()
  const stack: { isList: boolean; at: string | number }[] = []
  let line = 1
  let isKey = false
  const note = (): void => {
    const path = stack.map(({ at }) => at).join('.')
    if (path !== '' && !lines.has(path)) lines.set(path, line)
  }
  for (const [token] of text.matchAll(/"(?:[^"\\\n]|\\.)*"|\n|[{}[\],:]|[^\s{}[\],:"]+/g)) {
    const top = stack.at(-1)
    if (token === '\n') line += 1
    else if (token === '{' || token === '[') {
      if (top?.isList) note()
      stack.push({ isList: token === '[', at: token === '[' ? 0 : '' })
      isKey = token === '{'
    } else if (token === '}' || token === ']') stack.pop()
    else if (token === ',' && top) {
      if (top.isList) top.at = Number(top.at) + 1
      isKey = !top.isList
    } else if (token === ':') isKey = false
    else if (top && !top.isList && isKey) {
      top.at = keyOf(token)
      note()
    } else if (top?.isList) note()
  }
  return lines
}

const keyOf = (token: string): string => {
  try {
    return String(JSON.parse(token))
  } catch {
    return token
  }
}

/** Parts a sentence such as `file: path: why; path: why` into one for each place, each with its line in the file's text. */
export function pointAt(problem: string, file: string, text: string): string[] {
  const rest = problem.startsWith(`${file}: `) ? problem.slice(file.length + 2) : undefined
  if (rest === undefined) return [problem]
  const lines = linesOf(text)
  const lineOf = (part: string): number | undefined => {
    const path = /^([^\s:]+): /.exec(part)?.[1] ?? /^Unrecognized keys?: "([^"]+)"/.exec(part)?.[1]
    for (let at = path; at; at = at.includes('.') ? at.slice(0, at.lastIndexOf('.')) : undefined)
      if (lines.has(at)) return lines.get(at)
    return undefined
  }
  const isPlace = (part: string): boolean =>
    lineOf(part) !== undefined || /^[a-z]+: Invalid input|^Unrecognized key/.test(part)
  const parts: string[] = []
  for (const part of rest.split('; ')) {
    if (parts.length === 0 || isPlace(part)) parts.push(part)
    else parts.push(`${parts.pop()}; ${part}`)
  }
  return parts.map(part => {
    const line = lineOf(part)
    return line === undefined ? `${file}: ${part}` : `${file}:${line}: ${part}`
  })
}
