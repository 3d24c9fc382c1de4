// Typed refusals of the REST API.

const tag = Symbol.for('svc-host.http-error')

/** Refuses a request with a status and a message that says what happened, to what, and what to do. */
export class HttpError extends Error {
  readonly status: number
  readonly [tag] = true
  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'HttpError'
    this.status = status
  }
}

/** Recognises an `HttpError` of any copy of the SDK: by tag, not by class. */
export const isHttpError = (value: unknown): value is HttpError =>
  typeof value === 'object' && value !== null && tag in value
