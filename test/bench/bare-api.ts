// The peer of the API benchmark: a bare fastify over TLS that gives one answer by one schema, and does nothing else.
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { fastify } from 'fastify'

const [certificate = '', key = '', about = ''] = process.argv.slice(2)
const { answer, schema } = JSON.parse(readFileSync(about, 'utf8'))
const app = fastify({
  https: { cert: readFileSync(certificate), key: readFileSync(key), minVersion: 'TLSv1.3' },
})
app.get('/api/v1/status', { schema: { response: { 200: schema } } }, () => answer)
await app.listen({ host: '127.0.0.1', port: 0 })
process.stdout.write(`${(app.server.address() as AddressInfo).port}\n`)
