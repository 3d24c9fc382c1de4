// Boots a host with every built-in extension, for the tests that look at all of them at once.
import { existsSync, readdirSync } from 'node:fs'
import { startHost, type TestHost } from 'svc-host/testing'

export const builtInIds = readdirSync('extensions').filter(id =>
  existsSync(`extensions/${id}/extension.json`),
)

/** No screen, no GPU and no fixed port is needed. */
export const startBuiltIns = (): Promise<TestHost> =>
  startHost({
    extensions: builtInIds,
    flags: { 'native-port': '0' },
    env: { SVC_SOURCE: 'software', SVC_MDNS: '0' },
  })
