#!/bin/sh
# What every npm script runs: set up as far as the verb needs, then hand over to Node 24 by exec, so that
# signals and exit codes pass straight through.
set -eu
cd "$(dirname "$0")/.."
verb=$1
shift

node24=node_modules/.bin/node
flags='--conditions=svc-source --disable-warning=ExperimentalWarning'

# The set-up itself runs on whatever Node started npm; the checkout's own may not be there yet. The kernel's
# file lock (on this folder, so that nothing need be writable) keeps two set-ups apart and goes with its holder.
become_setup() {
  flock -n 9 || {
    echo 'svc-host set-up: another set-up is under way here; waiting for it to end' >&2
    flock 9
  }
  SVC_SETUP_LOCK_FD=9 exec "${npm_node_execpath:-node}" setup/setup.mjs "$1"
}
setup() { (become_setup "$1") 9<setup; }

# The product's own commands print nothing but their own output, so they only look whether set-up has been done.
ready() {
  [ -x "$node24" ] || {
    echo 'svc-host: this checkout is not set up yet; run "npm start" or "npm test" once' >&2
    exit 1
  }
}

case $verb in
  start) setup start; exec "$node24" $flags kernel/main.ts serve "$@" ;;
  # Its paths are those of the folder that npm was called in.
  svc-host) ready; root=$PWD; cd "${INIT_CWD:-.}"; exec "$root/$node24" $flags "$root/kernel/main.ts" "$@" ;;
  viewer) ready; exec "$node24" $flags examples/viewer/main.ts "$@" ;;
  setup) become_setup start 9<setup ;;
  test) setup test; exec "$node24" $flags node_modules/vitest/vitest.mjs run "$@" ;;
  check) setup test; exec "$node24" $flags setup/check.mjs "$@" ;;
  bench) setup bench; exec "$node24" $flags test/bench/main.ts "$@" ;;
  soak) setup test; exec "$node24" $flags test/soak/main.ts "$@" ;;
  build) setup modules; exec "$node24" setup/build.mjs "$@" ;;
  build:native) setup modules; exec "$node24" $flags native/build.mjs "$@" ;;
  format) setup modules; exec node_modules/.bin/biome check --write "$@" ;;
  *) echo "svc-host: no such verb: $verb" >&2; exit 2 ;;
esac
