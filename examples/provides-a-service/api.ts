// The public face: what others import to use the service. Its methods are described, so that it crosses realms.
import { event, token } from 'svc-host/sdk'
import { z } from 'zod'

/** A book of phrases by language; it outlives restarts. */
export interface PhraseBook {
  /** The phrase in this language, or null. */
  find(language: string, phrase: string): Promise<string | null>
  learn(language: string, phrase: string, translation: string): Promise<void>
}

const language = z.string().regex(/^[a-z]{2}$/)
const phrase = z.string().min(1).max(200)

export const PhraseBook = token<PhraseBook>('phrase.book', '1.0.0', {
  find: { args: [language, phrase], returns: phrase.nullable() },
  learn: { args: [language, phrase, phrase] },
})

export const phraseLearned = event('provides-a-service.phrase-learned', z.object({ language, phrase }))
