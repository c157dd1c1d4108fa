#!/bin/sh
# import.sh DIR [NAME]: makes a Docker image (viiwork-engine:cpu) of what unpack.sh put into DIR. Does nothing when the
# image of that name holds the same version already.
set -eu

say() { printf 'import: %s\n' "$*" >&2; }

[ $# -ge 1 ] && [ $# -le 2 ] || { say "use: import.sh DIR [NAME]"; exit 2; }
dir=$1
name=${2:-viiwork-engine:cpu}
label=viiwork.engine

[ -f "$dir/VERSION" ] || { say "no unpacked llama-server in $dir: run unpack.sh first"; exit 1; }
version=$(cat "$dir/VERSION")
docker version >/dev/null 2>&1 || { say "Docker is not running, or this user may not use it: start it, or use sudo"; exit 3; }

old=$(docker image inspect --format '{{.Id}}' "$name" 2>/dev/null) || old=
had=$(docker image inspect --format "{{index .Config.Labels \"$label\"}}" "$name" 2>/dev/null) || had=
if [ "$had" = "$version" ]; then
  say "$name already holds llama-server $version"
  exit 0
fi

say "importing llama-server $version as $name"
# Everything belongs to root whoever unpacked it; the engine runs as another user and must not be able to change it.
# The wrapper is left out: in the image all paths are where the programs expect them.
tar -c -C "$dir" --owner=0 --group=0 --numeric-owner --exclude=./llama-server --exclude=./VERSION . |
  docker import \
    --change 'ENTRYPOINT ["/usr/bin/llama-server"]' \
    --change "LABEL $label=\"$version\"" \
    - "$name" >/dev/null

# An older image of ours would stay behind without a name.
if [ -n "$old" ] && [ -n "$had" ]; then docker image rm "$old" >/dev/null 2>&1 || true; fi
