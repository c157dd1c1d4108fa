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
# whose folder for its pid and log it leaves in $dockerd_run for the caller to end it by.
start_docker() {
  dockerd_run=
  docker_answers && return 0
  command -v dockerd >/dev/null || need_packages docker.io iptables ca-certificates
  docker_answers && return 0
  if [ -d /run/systemd/system ] && as_root systemctl start docker 2>/dev/null; then
    docker_answers && return 0
    say "Docker runs, but this user may not use it: add it to the group docker, or use sudo"; return 1
  fi
  say "starting dockerd"
  dockerd_run=$(mktemp -d "${TMPDIR:-/tmp}/dockerd.XXXXXX")
  as_root dockerd --group "$(id -gn)" --pidfile "$dockerd_run/pid" >"$dockerd_run/log" 2>&1 &
  for _ in $(seq 60); do
    docker_answers && return 0
    kill -0 $! 2>/dev/null || break
    sleep 0.5
  done
  say "dockerd does not answer; its last words:"; tail -5 "$dockerd_run/log" >&2
  return 1
}

# stop_docker ends what start_docker started, by the daemon's own pid: the one the shell knows is as_root's.
stop_docker() {
  [ -n "${dockerd_run:-}" ] || return 0
  local pid
  if pid=$(cat "$dockerd_run/pid" 2>/dev/null); then
    as_root kill "$pid" 2>/dev/null || true
    for _ in $(seq 60); do
      [ -e "/proc/$pid" ] || break
      sleep 0.5
    done
  fi
  as_root rm -rf "$dockerd_run"
  dockerd_run=
}
