// Runs the command lines that an extension was granted: no shell, no rights, and no value that could be anything but a value.
import { setTimeout as delay } from 'node:timers/promises'
import type { Scope } from 'svc-host/sdk'
import { createGate } from '../../sdk/egress/gate.ts'
import type { Outside } from '../../sdk/outside.ts'

const limitMs = 30_000
const outputLimitBytes = 1024 * 1024
const valueLimit = 64 * 1024

/** Program and arguments of a template; throws where a value is missing, not named by it, or not only a value. */
export function commandOf(template: string, values: Readonly<Record<string, string>>): [string, string[]] {
  const [program, ...parts] = template.split(' ').filter(Boolean)
  if (!program?.startsWith('/') || program.includes('{'))
    throw new Error(`"${template.slice(0, 200)}" begins with no program; write its absolute path`)
  const used = new Set<string>()
  const args = parts.map(part => {
    const arg = part.replaceAll(/\{([A-Za-z]\w*)\}/g, (_, name: string) => {
      const value = Object.hasOwn(values, name) ? values[name] : undefined
      if (typeof value !== 'string') throw new Error(`no value for {${name}} of "${template}"`)
      if (value.includes('\0') || value.length > valueLimit)
        throw new Error(`the value for {${name}} has a NUL in it or is over ${valueLimit} characters`)
      used.add(name)
      return value
    })
    if (part.startsWith('{') && arg.startsWith('-'))
      throw new Error(`the value for ${part} begins with "-" and would be taken for an option`)
    return arg
  })
  const extra = Object.keys(values).find(name => !used.has(name))
  if (extra !== undefined) throw new Error(`"${template}" has no place for {${extra.slice(0, 64)}}`)
  return [program, args]
}

/** `check` throws where this template was not granted. */
export function createExec(start: Scope['process'], check: (permission: string) => void): Outside['exec'] {
  const gate = createGate(4, 64, 'commands')
  return (template, values = {}) => {
    check(`exec:${template}`)
    const [command, args] = commandOf(template, values)
    return gate(async () => {
      // No folder of a scope: the secrets of other processes of its account lie there.
      const walls = { unprivileged: true, folders: [], output: 'pipe' } as const
      const running = await start(`exec ${command}`, { command, args, ...walls })
      running.stdin?.end()
      let trouble: Error | undefined
      const end = (why: string): void => {
        trouble ??= new Error(`${command} ${why} and was ended`)
        void running.stop().catch(() => {})
      }
      const collect = (stream: NodeJS.ReadableStream | null) => {
        const chunks: Buffer[] = []
        let total = 0
        stream?.on('data', (chunk: Buffer) => {
          total += chunk.length
          if (total <= outputLimitBytes) chunks.push(chunk)
          else end(`wrote over ${outputLimitBytes} bytes`)
        })
        const ended = new Promise(done =>
          stream ? stream.on('end', done).on('error', done) : done(undefined),
        )
        return { ended, text: () => Buffer.concat(chunks).toString('utf8') }
      }
      const [out, err] = [collect(running.stdout), collect(running.stderr)]
      const timer = setTimeout(() => end(`took over ${limitMs / 1000} s`), limitMs)
      const { code } = await running.exited
      clearTimeout(timer)
      // What it has left behind may hold its output open.
      await Promise.race([Promise.all([out.ended, err.ended]), delay(200)])
      await running.stop()
      if (trouble) throw trouble
      return { code: code ?? -1, stdout: out.text(), stderr: err.text() }
    })
  }
}
