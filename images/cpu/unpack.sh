#!/bin/sh
# unpack.sh DIR [SUITE]: unpacks Debian's llama-server and all it needs into DIR, without root, chroot or debootstrap,
# and writes DIR/llama-server, a wrapper that runs it there. Prints the version it got (also in DIR/VERSION).
#
# Debian's stable release has no llama.cpp; testing (forky) and sid do. Packages are never installed and none of their
# scripts runs: apt checks the signatures and fetches, dpkg-deb and tar unpack.
#
# $PACKAGES names others than llama.cpp-tools alone. $SNAPSHOT (20261101T000000Z) takes those of one moment from
# snapshot.debian.org; $SOURCE_DATE_EPOCH dates what is made here, so that two runs over one snapshot give one tree.
#
# Exit 3: it cannot be had on this machine or at this moment; the last line says why.
set -eu

say() { printf 'unpack: %s\n' "$*" >&2; }
cannot() { say "$*"; exit 3; }

[ $# -ge 1 ] && [ $# -le 2 ] || { say "use: unpack.sh DIR [SUITE]"; exit 2; }
dir=$1
suites=${2:-forky sid}
packages=${PACKAGES:-llama.cpp-tools}

# Done before?
if [ -f "$dir/VERSION" ] && "$dir/llama-server" --version >/dev/null 2>&1; then
  say "already in $dir"
  cat "$dir/VERSION"
  exit 0
fi
if [ -d "$dir" ] && [ -n "$(ls -A "$dir")" ]; then
  say "$dir is not empty and holds no working llama-server: remove it, or name another folder"
  exit 1
fi

for tool in apt-get dpkg-deb tar; do
  command -v "$tool" >/dev/null || cannot "no apt here: put llama-server on PATH"
done
case $(uname -m) in
  x86_64) arch=amd64 triplet=x86_64-linux-gnu loader=usr/lib64/ld-linux-x86-64.so.2 ;;
  aarch64) arch=arm64 triplet=aarch64-linux-gnu loader=usr/lib/ld-linux-aarch64.so.1 ;;
  *) cannot "no packages for $(uname -m): put llama-server on PATH" ;;
esac
for keyring in /usr/share/keyrings/debian-archive-keyring.gpg /usr/share/keyrings/debian-archive-keyring.pgp; do
  [ -r "$keyring" ] && break
done
[ -r "$keyring" ] || cannot "no Debian keys here: apt-get install debian-archive-keyring, or put llama-server on PATH"

# mirrors prints where Debian is to be had: the snapshot alone, if one is asked for; else $DEBIAN_MIRROR, if set, then what apt's sources say, in both notations.
mirrors() {
  if [ -n "${SNAPSHOT:-}" ]; then echo "http://snapshot.debian.org/archive/debian/$SNAPSHOT"; return; fi
  [ -z "${DEBIAN_MIRROR:-}" ] || echo "$DEBIAN_MIRROR"
  cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    awk '
      /^[[:space:]]*deb[[:space:]]/ { sub(/\[[^]]*\]/, ""); print $2 }
      /^[Uu][Rr][Ii][Ss]:/ { for (i = 2; i <= NF; i++) print $i }
    ' | sed 's,/*$,,' | grep -E '^https?://.*/debian$' || true
}

parent=$(dirname "$dir")
mkdir -p "$parent"
work=$(mktemp -d "$parent/.unpack.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
work=$(cd "$work" && pwd)
apt=$work/apt
tree=$work/tree

# private_apt CMD…: apt-get that knows this machine's proxies and nothing else of it. An empty status file makes it
# fetch everything the package needs, libc included.
private_apt() {
  apt-get -q \
    -o Dir="$apt" -o Dir::State::status="$apt/status" \
    -o Dir::Etc::sourcelist="$apt/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::Etc::netrc=/etc/apt/auth.conf -o Dir::Etc::netrcparts=/etc/apt/auth.conf.d \
    -o APT::Architecture="$arch" -o APT::Sandbox::User= -o APT::Install-Recommends=false \
    ${SNAPSHOT:+-o Acquire::Check-Valid-Until=false} -o APT::Keep-Downloaded-Packages=true -o Acquire::Languages=none \
    -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::https::Timeout=20 \
    -o Debug::NoLocking=1 "$@" >>"$work/apt.log" 2>&1
}

# fetch MIRROR SUITE downloads the packages.
fetch() {
  rm -rf "$apt"
  mkdir -p "$apt/var/lib/apt/lists/partial" "$apt/var/cache/apt/archives/partial" "$apt/etc/apt/preferences.d"
  : >"$apt/status"
  printf 'deb [arch=%s signed-by=%s] %s %s main\n' "$arch" "$keyring" "$1" "$2" >"$apt/sources.list"
  say "reading the package lists of $2 from $1"
  private_apt -o APT::Update::Error-Mode=any update || return 1
  say "fetching $packages and what that needs"
  # shellcheck disable=SC2086
  private_apt -y --download-only install $packages
}

got=
for suite in $suites; do
  for mirror in $(mirrors | awk '!seen[$0]++'); do
    if fetch "$mirror" "$suite"; then got=$suite; break 2; fi
    say "not from there: $(grep -E '^(E|W|Err):?' "$work/apt.log" | tail -n 1)"
  done
done
[ -n "$got" ] || cannot "$packages could not be had from Debian ($suites): check the network, name a mirror in DEBIAN_MIRROR, or put llama-server on PATH"

say "unpacking"
# Debian's merged layout: packages still hold files under /lib and /lib64.
for name in bin sbin lib lib64; do
  mkdir -p "$tree/usr/$name"
  ln -s "usr/$name" "$tree/$name"
done
mkdir -m 1777 "$tree/tmp"
for package in "$apt"/var/cache/apt/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" |
    tar -x -C "$tree" --keep-directory-symlink --no-same-owner \
      --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' \
      --exclude='./usr/share/i18n/*' --exclude='./usr/share/info/*'
done
[ -x "$tree/$loader" ] || { say "the packages hold no $loader: Debian's layout has changed"; exit 1; }

# ggml looks for its CPU code under an absolute path, so the wrapper names the file: the best one that this processor
# can run, of those that need no AVX-512.
cat >"$tree/llama-server" <<WRAPPER
#!/bin/sh
tree=\$(dirname "\$(readlink -f "\$0")")
lib=\$tree/usr/lib/$triplet
flags=" \$(sed -n -e 's/^flags[^:]*: *//p' -e 's/^Features[^:]*: *//p' /proc/cpuinfo | head -n 1) "
has() { for flag; do case \$flags in *" \$flag "*) ;; *) return 1 ;; esac; done; }
cpu=\$lib/ggml/backends0/libggml-cpu
if has asimd; then
  backend=\$cpu-armv8.0_1.so
  if has asimddp && [ -f "\$cpu-armv8.2_1.so" ]; then backend=\$cpu-armv8.2_1.so; fi
elif has avx2 fma f16c bmi2; then backend=\$cpu-haswell.so
elif has avx; then backend=\$cpu-sandybridge.so
else backend=\$cpu-x64.so
fi
GGML_BACKEND_PATH=\$backend exec "\$tree/$loader" --library-path "\$lib:\$lib/ggml:\$lib/llama" "\$tree/usr/bin/llama-server" "\$@"
WRAPPER
chmod 755 "$tree/llama-server"

printed=$("$tree/llama-server" --version 2>&1) || { say "llama-server does not run here: $printed"; exit 1; }
version=$(printf '%s\n' "$printed" | sed -n 's/^version: *//p' | head -n 1)
[ -n "$version" ] || { say "llama-server told no version: $printed"; exit 1; }
printf '%s\n' "$version" >"$tree/VERSION"
chmod 755 "$tree"

if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
  find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
fi

if [ -d "$dir" ]; then rmdir "$dir"; fi
mv "$tree" "$dir"
say "llama-server $version from $got is in $dir"
cat "$dir/VERSION"
