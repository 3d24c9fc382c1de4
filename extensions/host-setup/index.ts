// Set-up: a command only, for a machine on which nothing runs yet.
import { defineExtension } from 'svc-host/sdk'

export default defineExtension({ setup() {} })
