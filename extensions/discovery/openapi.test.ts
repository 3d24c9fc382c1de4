// The document says what the routes say: parameters, bodies, answers, refusals, lanes and owners.
import { type Route, route } from 'svc-host/sdk'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { openApiDocument } from './openapi.ts'

const Shared = z.object({ a: z.number().default(1), b: z.string().optional() }).meta({ id: 'Shared' })
const put = route({
  method: 'PUT',
  path: '/things/{id}',
  id: 'putThing',
  tag: 'things',
  summary: 'Stores a thing',
  lanes: { plugin: 'own', device: false },
  params: z.object({ id: z.coerce.number().int() }),
  query: z.object({ dry: z.string(), limit: z.coerce.number().default(5) }),
  body: z.object({ one: Shared, many: z.array(Shared) }),
  invalidBody: 400,
  replies: { 200: Shared, 204: null },
  errors: { 409: 'taken' },
  handler: () => ({ a: 1 }),
})
const open = (path: string, extra: Partial<Route>): Route =>
  ({
    method: 'GET',
    path,
    id: path.slice(1),
    summary: 's',
    lanes: 'open',
    handler: () => '',
    ...extra,
  }) as Route

const documentOf = (...routes: Route[]): any =>
  openApiDocument(
    routes.map(each => ({
      owner: 'things',
      url: each.absolute ? each.path : `/api/v1${each.path}`,
      route: each,
    })),
    { title: 'T', version: '1.2.3' },
  )

test('an operation carries parameters, body, answers and refusals', () => {
  const operation = documentOf(put).paths['/api/v1/things/{id}'].put
  expect(operation).toMatchObject({
    operationId: 'putThing',
    tags: ['things'],
    'x-extension': 'things',
    'x-lanes': { plugin: 'own', device: false },
  })
  expect(operation.parameters).toEqual([
    { name: 'id', in: 'path', required: true, schema: expect.objectContaining({ type: 'integer' }) },
    { name: 'dry', in: 'query', required: true, schema: { type: 'string' } },
    { name: 'limit', in: 'query', required: false, schema: { type: 'number', default: 5 } },
  ])
  expect(Object.keys(operation.responses)).toEqual(['200', '204', '400', '401', '403', '409', '413', '415'])
  expect(operation.responses['409'].description).toBe('taken')
  expect(operation.responses['409'].content['application/json'].schema).toEqual({
    $ref: '#/components/schemas/Error',
  })
  expect(operation.responses['204'].content).toBeUndefined()
  expect(operation.security).toEqual([{ bearerAuth: [] }])
})

test('a shared schema is a component; one that reads otherwise than it is written is two', () => {
  const document = documentOf(put)
  const { requestBody, responses } = document.paths['/api/v1/things/{id}'].put
  const input = requestBody.content['application/json'].schema.properties.one.$ref
  const output = responses['200'].content['application/json'].schema.$ref
  const at = (ref: string) => document.components.schemas[ref.replace('#/components/schemas/', '')]
  expect(at(input).required).toBeUndefined()
  expect(at(output).required).toEqual(['a'])
  expect(input).not.toBe(output)
  expect(JSON.stringify(document)).not.toContain('$defs')
})

test('open and loopback routes need no credential, hidden ones are left out, streams name their type', () => {
  const document = documentOf(
    open('/a', { replies: { 200: z.object({}) } }),
    open('/b', { lanes: 'loopback', stream: 'text/event-stream' }),
    open('/c', { hidden: true, replies: {} }),
    open('/page', { absolute: true, stream: 'text/html' }),
  )
  expect(Object.keys(document.paths)).toEqual(['/api/v1/a', '/api/v1/b', '/page'])
  expect(document.paths['/api/v1/a'].get.security).toEqual([{}])
  expect(Object.keys(document.paths['/api/v1/a'].get.responses)).toEqual(['200'])
  expect(Object.keys(document.paths['/api/v1/b'].get.responses)).toEqual(['200', '401'])
  expect(document.paths['/api/v1/b'].get.responses['200'].content).toHaveProperty(['text/event-stream'])
})

test('answers may grow: their objects are not closed', () => {
  expect(JSON.stringify(documentOf(put).components)).not.toContain('additionalProperties')
})

test('the order of registration does not show', () => {
  const routes = [put, open('/a', { replies: { 200: z.object({}) } }), open('/b', { stream: 'text/html' })]
  expect(JSON.stringify(documentOf(...routes))).toBe(JSON.stringify(documentOf(...routes.toReversed())))
})
