// The program inside the walls: runs one script or plugin, and sees to it that its finalizers run and its client closes
// before the end.
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { Socket } from 'node:net'
import { pathToFileURL } from 'node:url'
import { type ApiClient, connect, readLineValue } from 'svc-host/client'
import type { PluginDefinition, UnitContext } from './api.ts'

const [id = '', file = '', storageDir = ''] = process.argv.slice(2)
const root = new URL('../..', import.meta.url).href

registerHooks({
  resolve(specifier, context, next) {
    const isShared = specifier === 'zod' || specifier.startsWith('zod/') || specifier.startsWith('svc-host/')
    const isOwn = !context.parentURL?.startsWith(root)
    return next(specifier, isShared && isOwn ? { ...context, parentURL: import.meta.url } : context)
  },
})

const channel = new Socket({ fd: 3 })
channel.unref()
const say = (value: unknown): void => void channel.write(`${JSON.stringify(value)}\n`)
const messageOf = (error: unknown): string =>
  error instanceof Error ? (error.stack ?? error.message) : String(error)
const line = (level: string) => (message: string, fields?: object) => {
  const told = Object.entries(fields ?? {}).map(
    ([key, value]) => ` ${key}=${value instanceof Error ? value.message : JSON.stringify(value)}`,
  )
  say({ level, msg: `${message}${told.join('')}` })
}
const log = { debug: line('DEBUG'), info: line('INFO'), warn: line('WARN'), error: line('ERROR') }

process.env['SVC_PLUGIN_TOKEN'] = readLineValue(readFileSync(`${storageDir}/.plugin-token`, 'utf8')) ?? ''

const stopping = new AbortController()
const finalizers: (() => void | Promise<void>)[] = []
let client: ApiClient | undefined
let isRunning = false
let hasEnded = false

/** Once: finalizers last added first, then the client, then the end. */
async function end(code: number): Promise<void> {
  if (hasEnded) return
  hasEnded = true
  if (!stopping.signal.aborted) stopping.abort()
  let outcome = code
  for (const finalizer of finalizers.splice(0).reverse())
    try {
      await finalizer()
    } catch (error) {
      log.error(`a finalizer failed: ${messageOf(error)}`)
      outcome ||= 1
    }
  client?.close()
  channel.end(() => process.exit(outcome))
}

const fail = (error: unknown): void => {
  const isStop = stopping.signal.aborted && (error as { name?: string } | undefined)?.name === 'AbortError'
  if (!isStop && !hasEnded) log.error(messageOf(error))
  void end(isStop ? 0 : 1)
}
process.on('uncaughtException', fail)
process.on('unhandledRejection', fail)
// A script is complete when nothing is left for it to do.
process.on('beforeExit', () => void end(Number(process.exitCode ?? 0)))

function stop(): void {
  if (stopping.signal.aborted) return
  stopping.abort()
  // Programs that know nothing of us end at this signal, if they listen; whoever was given the other one ends by itself.
  const isHeard = process.emit('SIGTERM')
  if (!isHeard && !isRunning) void end(0)
}
channel.setEncoding('utf8').on('data', text => String(text).includes('stop') && stop())
channel.on('end', stop)

/** Runs what was exported with all that a unit is given. */
async function run(main: (context: UnitContext) => unknown): Promise<void> {
  isRunning = true
  // Whoever waits for nothing but the signal is not done.
  channel.ref()
  client = await connect()
  const { signal } = stopping
  const onEnd: UnitContext['onEnd'] = finalizer => void finalizers.push(finalizer)
  try {
    await main({ id, client, signal, log, storageDir, onEnd })
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    isRunning = false
    channel.unref()
  }
}

const isPlugin = (value: unknown): value is PluginDefinition =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as PluginDefinition).name === 'string' &&
  typeof (value as PluginDefinition).main === 'function'

try {
  const { default: given } = (await import(pathToFileURL(file).href)) as { default?: unknown }
  say({ plugin: isPlugin(given) ? given.name.slice(0, 64) : null })
  if (isPlugin(given)) {
    await run(context => given.main(context))
    await end(0)
  } else if (typeof given === 'function') await run(context => given(context))
  if (stopping.signal.aborted) await end(0)
} catch (error) {
  fail(error)
}
