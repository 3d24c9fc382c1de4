// The API client: REST over HTTPS with the host's certificate pinned.

/** A connection to one host's API. Requests reject with `ApiError` for refusals. */
export interface ApiClient {
  readonly url: string
  /** Sends a request; `path` is relative to `/api/v1`. Resolves to the parsed JSON of a 2xx answer, undefined without a body. */
  request<T = unknown>(method: string, path: string, body?: unknown, options?: { signal?: AbortSignal }): Promise<T>
  /** Follows `GET /events`; yields parsed frames with their event name until the stream ends. */
  events(options?: { kinds?: string; since?: number; lastEventId?: string; signal?: AbortSignal }): AsyncIterable<{ event: string; id: string | null; data: unknown }>
  close(): void
}
