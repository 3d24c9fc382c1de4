// Sends a list of requests from wherever it runs, such as another network namespace, and prints each one's status.
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'

/** One request; requests with one `client` share its connections. */
export interface Call {
  readonly method: string
  readonly path: string
  readonly bearer?: string
  readonly client?: { readonly certificatePem: string; readonly privateKeyPem: string }
}
export interface Calls {
  readonly address: string
  readonly port: number
  readonly calls: readonly Call[]
}

const perRoute = new Map<string, Agent>()
const agentOf = ({ client }: Call): Agent => {
  const key = client?.certificatePem ?? ''
  const agent =
    perRoute.get(key) ??
    new Agent({
      keepAlive: true,
      maxSockets: 4,
      rejectUnauthorized: false,
      ...(client && { cert: client.certificatePem, key: client.privateKeyPem }),
    })
  perRoute.set(key, agent)
  return agent
}

/** Status and error text; an answer that streams is cut. */
const send = (address: string, port: number, call: Call): Promise<string> =>
  new Promise((resolve, reject) => {
    const hasBody = !['GET', 'DELETE'].includes(call.method)
    const sent = request(
      {
        host: address,
        port,
        method: call.method,
        path: call.path,
        agent: agentOf(call),
        headers: {
          ...(call.bearer && { authorization: `Bearer ${call.bearer}` }),
          ...(hasBody && { 'content-type': 'application/json', 'content-length': 2 }),
        },
      },
      answer => {
        const status = String(answer.statusCode)
        if (answer.headers['content-type']?.startsWith('text/event-stream')) {
          resolve(status)
          sent.destroy()
          return
        }
        let text = ''
        answer.setEncoding('utf8').on('data', chunk => (text += chunk))
        answer.on('end', () => {
          const isError = answer.statusCode! >= 400 && text.startsWith('{')
          resolve(isError ? `${status} ${(JSON.parse(text) as { error: string }).error}` : status)
        })
      },
    )
    sent.once('error', reject)
    sent.end(hasBody ? '{}' : undefined)
  })

/** Sends them one after the other; resolves to what came of each. */
export async function sendAll({ address, port, calls }: Calls): Promise<string[]> {
  const outcomes: string[] = []
  for (const call of calls) outcomes.push(await send(address, port, call))
  for (const agent of perRoute.values()) agent.destroy()
  perRoute.clear()
  return outcomes
}

if (import.meta.main) {
  const calls = JSON.parse(readFileSync(0, 'utf8')) as Calls
  process.stdout.write(JSON.stringify(await sendAll(calls)))
}
