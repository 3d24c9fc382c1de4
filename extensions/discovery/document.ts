// The API document, made anew only when the live routes have changed: anyone may ask for it, and as often as they like.
import type { ApiRoutes } from 'svc-host/sdk'

/** Returns the way to get the document of the live routes as JSON text. */
export function createApiDocument(api: Pick<ApiRoutes, 'list' | 'document'>): () => string {
  let seen: readonly unknown[] = []
  let text = ''
  return () => {
    const live = api.list().map(({ route }) => route)
    if (text === '' || live.length !== seen.length || live.some((route, i) => route !== seen[i])) {
      text = JSON.stringify(api.document())
      seen = live
    }
    return text
  }
}
