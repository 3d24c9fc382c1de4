// A host that the crash tests run as a process of its own and kill: each mode leaves something behind.
import { writeFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { defineExtension } from 'svc-host/sdk'
import { Manifest } from '../../kernel/discover.ts'
import { startHost } from '../../kernel/index.ts'

const [configDir = '', mode = ''] = process.argv.slice(2)
const tell = (facts: object): void => void process.stdout.write(`TOLD ${JSON.stringify(facts)}\n`)

const extension = defineExtension({
  async setup(ctx) {
    if (mode === 'everything') {
      const folder = await ctx.folder('scratch')
      writeFileSync(`${folder}/file`, 'x')
      const flag = `${configDir}/flag`
      await ctx.durable('flag', { flag }, () => writeFileSync(flag, 'up'))
      // A child in the group, and a grandchild that has left the group and the parent.
      const started = await ctx.process('tree', {
        command: '/bin/sh',
        args: ['-c', 'sleep 600 & setsid sleep 601 & wait'],
        graceMs: 300,
      })
      tell({ folder, flag, pid: started.pid })
    }
    if (mode === 'before-change') {
      await ctx.durable('flag', { flag: `${configDir}/flag` }, () => process.kill(process.pid, 'SIGKILL'))
    }
    if (mode === 'descriptors') {
      const child = await ctx.process('ls', { command: '/bin/ls', args: ['/proc/self/fd'], output: 'pipe' })
      tell({ descriptors: (await text(child.stdout!)).trim().split('\n') })
    }
    if (mode === 'stray') {
      setTimeout(() => {
        throw new Error('thrown later')
      }, 10)
      setTimeout(() => void Promise.reject(new Error('rejected later')), 20)
    }
  },
})

const undoFile = `${configDir}/undo.mjs`
const manifest = Manifest.parse({
  id: 'leaver',
  version: '1.0.0',
  sdk: '*',
  title: 'Leaver',
  realm: 'kernel',
})
const loadUndo = async () => (await import(undoFile)).default
const host = await startHost({
  configDir,
  flags: { 'mgmt-bind': '127.0.0.1:0' },
  env: {},
  found:
    mode === 'empty'
      ? []
      : [
          {
            id: 'leaver',
            folder: configDir,
            builtin: true,
            manifest,
            undoFile,
            load: async () => extension,
            loadUndo,
          },
        ],
})
process.on('SIGTERM', () => void host.stop().then(() => process.exit(0)))
tell({ ready: true })
if (mode === 'stray') {
  setTimeout(() => {
    tell({ errors: host.extensions.list()[0]?.errors })
    void host.stop().then(() => process.exit(0))
  }, 300)
}
