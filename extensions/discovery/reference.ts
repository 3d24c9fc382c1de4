// The interactive reference: a page of our own around Swagger UI, all of it from this host and nothing from elsewhere.
import { createReadStream, existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { streamReply } from 'svc-host/sdk'

/** Where the page lives; outside `/api/v1`, as it describes that. */
export const referencePath = '/api/docs'

/** Nothing but what this host serves is loaded, asked or framed, and no script stands in the page itself. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const headers = {
  'Content-Security-Policy': contentSecurityPolicy,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
}

const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>svc-host API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${referencePath}/swagger-ui.css">
<div id="reference"></div>
<noscript>This page needs JavaScript; the document itself is at <a href="/api/v1/openapi.json">openapi.json</a>.</noscript>
<script src="${referencePath}/swagger-ui-bundle.js"></script>
<script src="${referencePath}/start.js"></script>
</html>
`

/** No validator elsewhere is asked, and a token that was typed in is forgotten with the page. */
const start = `SwaggerUIBundle({
  url: '/api/v1/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  docExpansion: 'list',
  displayRequestDuration: true,
  filter: true,
  persistAuthorization: false,
  tagsSorter: 'alpha',
  tryItOutEnabled: true,
  validatorUrl: null,
})
`

/** The files of Swagger UI that the page loads, with their content types. */
const assets = {
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
} as const
const names = Object.keys(assets) as (keyof typeof assets)[]

/** Beside this file in the published package, in the checkout's own modules otherwise; undefined: nowhere. */
function assetFolder(): string | undefined {
  const beside = fileURLToPath(new URL('./swagger-ui/', import.meta.url))
  if (names.every(name => existsSync(join(beside, name)))) return beside
  try {
    return dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/swagger-ui.css'))
  } catch {
    return undefined
  }
}

/** One file of the reference. */
export interface ReferenceFile {
  readonly path: string
  readonly type: string
  open(): ReturnType<typeof streamReply>
}

const made = (path: string, type: string, text: string): ReferenceFile => ({
  path,
  type,
  open: () =>
    streamReply(
      headers,
      (async function* () {
        yield text
      })(),
    ),
})

/** All files of the reference; none where the assets are not installed. */
export function referenceFiles(): readonly ReferenceFile[] {
  const folder = assetFolder()
  if (folder === undefined) return []
  const shipped = names.map(
    (name): ReferenceFile => ({
      path: `${referencePath}/${name}`,
      type: assets[name],
      // They change with the release only.
      open: () =>
        streamReply(
          { ...headers, 'Cache-Control': 'private, max-age=3600' },
          createReadStream(join(folder, name)),
        ),
    }),
  )
  return [
    made(referencePath, 'text/html; charset=utf-8', page),
    made(`${referencePath}/start.js`, 'text/javascript; charset=utf-8', start),
    ...shipped,
  ]
}
