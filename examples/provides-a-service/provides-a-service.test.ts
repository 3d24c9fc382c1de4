// The service in each realm it runs in, used from the other.
import { fileURLToPath } from 'node:url'
import { startHost } from 'svc-host/testing'
import { expect, test, vi } from 'vitest'
import { PhraseBook, phraseLearned } from './api.ts'

// A process takes its time to start where many want to.
vi.setConfig({ testTimeout: 60_000 })

const folder = fileURLToPath(new URL('.', import.meta.url))

test.for(['kernel', 'isolate', 'process'] as const)('learns, tells, keeps and finds: %s', async realm => {
  const host = await startHost({ extensions: [folder], realm })
  try {
    const book = (): PhraseBook => host.service(PhraseBook)!
    expect(await book().find('de', 'good day')).toBeNull()
    await book().learn('de', 'good day', 'Guten Tag')
    await expect
      .poll(() => host.events().find(({ kind }) => kind === phraseLearned.kind))
      .toMatchObject({
        language: 'de',
        phrase: 'good day',
      })
    await host.extensions.enable('provides-a-service', false)
    expect(host.service(PhraseBook)).toBeUndefined()
    await host.extensions.enable('provides-a-service', true)
    expect(await book().find('de', 'good day')).toBe('Guten Tag')
  } finally {
    await host.stop()
  }
})
