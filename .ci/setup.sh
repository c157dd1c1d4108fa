# Functions for the scripts beside this file; source it.

say() { printf '== %s\n' "$*" >&2; }

# as_root CMD… runs CMD as root, by sudo where needed.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else say "not root and no sudo: cannot run: $*"; return 1
  fi
}

# need_packages NAME… installs those Debian packages that are missing. Without apt it only says so.
need_packages() {
  local missing=() p
  command -v dpkg-query >/dev/null || { say "no apt here: $* must be there already"; return 0; }
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing ${missing[*]}"
  as_root apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# cache_dir is where downloads survive a checkout.
cache_dir() { printf '%s\n' "${VIIWORK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/viiwork}"; }

docker_answers() { command -v docker >/dev/null && docker version >/dev/null 2>&1; }

# start_docker makes a Docker daemon answer: the machine's own service where there is one, else one started by hand,
# whose pid it leaves in $dockerd_pid for the caller to end.
start_docker() {
  dockerd_pid=
  docker_answers && return 0
  command -v dockerd >/dev/null || need_packages docker.io iptables ca-certificates
  docker_answers && return 0
  if [ -d /run/systemd/system ] && as_root systemctl start docker 2>/dev/null; then
    docker_answers && return 0
    say "Docker runs, but this user may not use it: add it to the group docker, or use sudo"; return 1
  fi
  say "starting dockerd"
  dockerd_log=$(mktemp "${TMPDIR:-/tmp}/dockerd.XXXXXX.log")
  as_root dockerd --group "$(id -gn)" >"$dockerd_log" 2>&1 &
  dockerd_pid=$!
  for _ in $(seq 60); do
    docker_answers && return 0
    kill -0 "$dockerd_pid" 2>/dev/null || break
    sleep 0.5
  done
  say "dockerd does not answer; its last words:"; tail -5 "$dockerd_log" >&2
  return 1
}

# stop_docker ends what start_docker started.
stop_docker() {
  [ -n "${dockerd_pid:-}" ] || return 0
  as_root kill "$dockerd_pid" 2>/dev/null || true
  wait "$dockerd_pid" 2>/dev/null || true
  rm -f "${dockerd_log:-}"
  dockerd_pid=
}
