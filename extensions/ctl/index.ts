// Ctl: a command only; it lives in the command line's process and drives the host over its API.
import { defineExtension } from 'svc-host/sdk'

export default defineExtension({ setup() {} })
