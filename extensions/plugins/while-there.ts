// A service of another extension for as long as it is there.
import type { Scope, Token } from 'svc-host/sdk'

export function whileThere<T>(scope: Scope, token: Token<T>): () => T | undefined {
  let held: T | undefined
  scope.using(token, (service, sub) =>
    sub.effect(`uses ${token.id}`, () => {
      held = service
      return () => {
        held = undefined
      }
    }),
  )
  return () => held
}
