// The media engine: native/build.mjs knows whether it is built, and builds it into its cache if not.
import { existsSync } from 'node:fs'
import { run, SetupError } from './step.mjs'

export function buildNative() {
  if (!existsSync('native/build.mjs')) return
  // An installed package runs on the Node that came with it.
  const node24 = existsSync('node_modules/.bin/node') ? 'node_modules/.bin/node' : process.execPath
  if (!run(node24, ['native/build.mjs'], { holdLock: true })) {
    throw new SetupError('the media engine could not be built; what the compiler says above is why')
  }
}
