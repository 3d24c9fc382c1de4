// Provides a service that any extension in any realm can use, keeps its data in storage, and tells of changes.
import { defineExtension, type KeyValueStorage } from 'svc-host/sdk'
import { z } from 'zod'
import { PhraseBook, phraseLearned } from './api.ts'

const Page = z.record(z.string(), z.string()).catch({})

const readPage = async (storage: KeyValueStorage, language: string): Promise<Record<string, string>> =>
  Page.parse(await storage.get(`page.${language}`))

export default defineExtension({
  setup(ctx) {
    ctx.provide(PhraseBook, {
      find: async (language, phrase) => (await readPage(ctx.storage, language))[phrase] ?? null,
      async learn(language, phrase, translation) {
        const page = await readPage(ctx.storage, language)
        await ctx.storage.set(`page.${language}`, { ...page, [phrase]: translation })
        ctx.emit(phraseLearned, { language, phrase })
      },
    })
  },
})
