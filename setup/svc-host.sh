#!/bin/sh
# The `svc-host` command, of the installed package and of a checkout: hands over to the Node 24 that came with it,
# whatever the machine's own is. Paths that it is given are those of the folder that it is called in.
set -eu
root=$(dirname "$(dirname "$(readlink -f "$0")")")
for folder in "$root/node_modules" "$root/.."; do
  for node in "$folder/node/bin/node" "$folder/.bin/node"; do
    [ -x "$node" ] && break 2
  done
done
if [ ! -x "$node" ]; then
  [ ! -e "$root/kernel/main.ts" ] || {
    echo "svc-host: the checkout $root is not set up yet; run \"npm start\" or \"npm test\" there once" >&2
    exit 1
  }
  node=node
  # Install scripts may have been switched off.
  "$node" -e 'process.exit(process.versions.node.split(".")[0] < 24 ? 1 : 0)' || {
    echo 'svc-host: needs Node 24: install it, or install svc-host with install scripts allowed, which brings it' >&2
    exit 1
  }
fi
if [ -e "$root/kernel/main.ts" ]; then
  exec "$node" --conditions=svc-source --disable-warning=ExperimentalWarning "$root/kernel/main.ts" "$@"
fi
exec "$node" --disable-warning=ExperimentalWarning "$root/dist/kernel/main.js" "$@"
