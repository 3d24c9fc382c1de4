// The media engine: native/build.mjs knows whether it is built, and builds it into its cache if not.
import { existsSync } from 'node:fs'
import { run, SetupError } from './step.mjs'

export function buildNative() {
  if (!existsSync('native/build.mjs')) return
  if (!run('node_modules/.bin/node', ['native/build.mjs'], { holdLock: true })) {
    throw new SetupError('the media engine could not be built; what the compiler says above is why')
  }
}
