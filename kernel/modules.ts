// Modules: every extension gets the host's own copy of the SDK and of zod, wherever its folder lies.
import { registerHooks } from 'node:module'

const root = new URL('..', import.meta.url).href

registerHooks({
  resolve(specifier, context, next) {
    const isShared = specifier === 'zod' || specifier.startsWith('zod/') || specifier.startsWith('svc-host/')
    const isStranger = !context.parentURL?.startsWith(root)
    return next(specifier, isShared && isStranger ? { ...context, parentURL: import.meta.url } : context)
  },
})
