// What can go wrong between a client and a host.

/**
 * `refused`: the host answered with a refusal; `unauthorized`: with 401; `unreachable`: nobody answered, or the
 * connection broke; `pin-mismatch`: whoever answered is not the pinned host, and nothing was sent to it; `version-skew`:
 * a successful answer is not what this library knows; `unconfigured`: nothing says how to reach a host.
 */
export type ApiErrorCode =
  | 'refused'
  | 'unauthorized'
  | 'unreachable'
  | 'pin-mismatch'
  | 'version-skew'
  | 'unconfigured'

export class ApiError extends Error {
  readonly code: ApiErrorCode
  /** HTTP status of a refusal, or of the answer that is not known. */
  readonly status: number | undefined
  constructor(code: ApiErrorCode, message: string, options?: ErrorOptions & { status?: number }) {
    super(message, options)
    this.name = 'ApiError'
    this.code = code
    this.status = options?.status
  }
}
