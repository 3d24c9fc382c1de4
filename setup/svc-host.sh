#!/bin/sh
# The `svc-host` command of the installed package: hands over to the Node 24 that came with it, whatever the machine's own is.
set -eu
root=$(dirname "$(readlink -f "$0")")/..
for folder in "$root/node_modules" "$root/.."; do
  node=$folder/node/bin/node
  [ -x "$node" ] && break
done
if [ ! -x "$node" ]; then
  node=node
  # Install scripts may have been switched off.
  "$node" -e 'process.exit(process.versions.node.split(".")[0] < 24 ? 1 : 0)' || {
    echo 'svc-host: needs Node 24: install it, or install svc-host with install scripts allowed, which brings it' >&2
    exit 1
  }
fi
exec "$node" --disable-warning=ExperimentalWarning "$root/dist/kernel/main.js" "$@"
