// Typed refusals: of the REST API, and of what an extension has no permission for.

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

const permissionTag = Symbol.for('svc-host.permission-error')

/** Refuses what an extension may not do: `permission` names what it lacks, the message what the operator can do. */
export class PermissionError extends Error {
  override readonly name = 'PermissionError'
  /** As a manifest would ask for it: `network:api.example.com:443`. */
  readonly permission: string
  readonly [permissionTag] = true
  constructor(permission: string, message: string) {
    super(message)
    this.permission = permission
  }
}

/** Recognises a `PermissionError` of any copy of the SDK. */
export const isPermissionError = (value: unknown): value is PermissionError =>
  typeof value === 'object' && value !== null && permissionTag in value
