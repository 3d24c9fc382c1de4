// Takes the place of the built-in catalog: plugins come from a list that the operator has vetted, and from nowhere else.
import { type CatalogOffer, PluginCatalog } from 'svc-host/api/catalog'
import { defineExtension } from 'svc-host/sdk'
import { z } from 'zod'

const Vetted = z.object({
  id: z.string(),
  pkg: z.string(),
  version: z.string(),
  integrity: z.string().regex(/^sha512-[A-Za-z0-9+/]{86}==$/),
})

export default defineExtension({
  config: z.object({
    vetted: z
      .array(Vetted)
      .default([])
      .describe('versions that may be installed; the last of a package is its newest'),
  }),
  setup(ctx) {
    const offers = ctx.config.vetted.map(
      (each): CatalogOffer => ({ ...each, source: 'vetted', tier: 'external' }),
    )
    const last = (isIt: (offer: CatalogOffer) => boolean, source: string): CatalogOffer | undefined =>
      source === 'vetted' ? offers.findLast(isIt) : undefined
    ctx.provide(PluginCatalog, {
      find: (source, id) => last(offer => offer.id === id, source),
      newest: (source, pkg) => last(offer => offer.pkg === pkg, source),
      blocked(pkg, version) {
        const isVetted = offers.some(offer => offer.pkg === pkg && offer.version === version)
        return isVetted ? undefined : 'it is not on the list of vetted plugins'
      },
    })
  },
})
