// Plugins: a command only; the kernel itself lists extensions and switches them on and off.
import { defineExtension } from 'svc-host/sdk'

export default defineExtension({ setup() {} })
