// The API document, made anew only when the live routes have changed: anyone may ask for it, and as often as they like.
import type { ApiRoutes } from 'svc-host/sdk'

/** Returns the way to get the live routes, as `describe` has them, as JSON text. */
export function createApiDocument(
  api: ApiRoutes,
  describe: (routes: ReturnType<ApiRoutes['list']>) => object,
): () => string {
  let seen: readonly unknown[] = []
  let text = ''
  return () => {
    const routes = api.list()
    const live = routes.map(({ route }) => route)
    if (text === '' || live.length !== seen.length || live.some((route, i) => route !== seen[i])) {
      text = JSON.stringify(describe(routes))
      seen = live
    }
    return text
  }
}
