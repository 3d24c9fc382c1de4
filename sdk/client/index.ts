// The API client: REST over HTTPS with the host's certificate pinned.
import { request } from 'node:https'
import { type ConnectOptions, findAccess } from './access.ts'
import { type ApiClient, createClient, type RawAnswer } from './api-client.ts'
import { type Pin, PinnedAgent } from './pin.ts'

export { type ConnectOptions, readLineValue } from './access.ts'
export type { ApiClient } from './api-client.ts'
export type { ApiMethod, ApiPath, CallAnswer, CallArguments, CallOptions } from './call.ts'
export { ApiError, type ApiErrorCode } from './errors.ts'
export type { EventEnvelope, Followed, FollowOptions, HostEvent } from './follow.ts'
export type { Pin } from './pin.ts'
export { parseEventStream, type ServerSentEvent } from './sse.ts'

export type ApiOptions = Pin & {
  /** Base URL of the host, such as `https://127.0.0.1:47990`. */
  readonly url: string
  /** Sent as the bearer; left out, only open routes answer. */
  readonly token?: string
}

/** Opens the API of the host that options, environment and config folder name; see `ConnectOptions` for the order. */
export async function connect(options: ConnectOptions = {}): Promise<ApiClient> {
  return openApi(await findAccess(options))
}

/** Opens the API of one host. Connections are made when they are needed. */
export function openApi(options: ApiOptions): ApiClient {
  const agent = new PinnedAgent(options)
  const { origin } = new URL(options.url)
  return createClient({
    origin,
    send: (method, path, headers, body, signal) =>
      new Promise<RawAnswer>((resolve, reject) => {
        const sent = request(new URL(path, origin), {
          method,
          agent,
          signal,
          headers: {
            ...(options.token && { authorization: `Bearer ${options.token}` }),
            ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
            ...headers,
          },
        })
        sent.once('error', reject)
        sent.once('response', answer =>
          resolve({
            status: answer.statusCode!,
            type: answer.headers['content-type'] ?? '',
            body: answer,
          }),
        )
        sent.end(body)
      }),
    close: () => agent.destroy(),
  })
}
