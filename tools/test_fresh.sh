#!/bin/bash
# test_fresh.sh: follows the README on a fresh Debian 12, made with debootstrap in a directory of
# its own (root needed).
#
#   tools/test_fresh.sh [--keep] [--rev COMMIT] [--dir DIR] [--bare] [--copy FOLDER]
#                       [--suite SUITE --mirror URL] [COMMAND...]
#   tools/test_fresh.sh --help
#
# Runs every command of the README's code blocks that follow a line <!-- test-fresh -->, in order,
# inside the new root; with COMMANDs, the first of those
# blocks (what is to be installed) and then the COMMANDs instead. `sudo` is dropped (inside is root
# already); `git clone` and `cd` lines are skipped:
# the tree under test is this one, its uncommitted changes included, or --rev COMMIT. Processes and
# mounts are separate, the network is this machine's.
# The mirror, proxies, certificates and the pip configuration are this machine's own, read at run
# time. --keep leaves the root for a look; --dir says where to
# make it (default: a new directory in $TMPDIR or /var/tmp). With --bare the COMMANDs run without
# that first block; --copy puts FOLDER into the root as /packages; --suite and --mirror make another
# system than Debian 12, such as noble from an Ubuntu mirror. Packages are cached in
# ${XDG_CACHE_HOME:-~/.cache}/skerry-fresh.
set -euo pipefail
SELF=$(realpath "$0"); TREE=$(dirname "$(dirname "$SELF")")
die() { echo "test_fresh.sh: $*" >&2; exit 2; }
KEEP= REV= DIR= BARE= COPY= SUITE=bookworm MIRROR=
while [ $# -gt 0 ]; do
  case $1 in
  -h|--help) sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$SELF"; exit 0 ;;
  --keep) KEEP=1; shift ;;
  --rev) REV=$2; shift 2 ;;
  --dir) DIR=$2; shift 2 ;;
  --bare) BARE=1; shift ;;
  --copy) COPY=$2; shift 2 ;;
  --suite) SUITE=$2; shift 2 ;;
  --mirror) MIRROR=$2; shift 2 ;;
  --) shift; break ;;
  -*) die "unknown option '$1' (see --help)" ;;
  *) break ;;
  esac
done
[ "$(id -u)" = 0 ] || die "needs root for debootstrap"
command -v debootstrap > /dev/null || die "debootstrap is missing: apt-get install debootstrap"

# ---- what this machine knows about reaching packages ----
mirror() {  # the first Debian archive this machine's apt uses
  local found
  found=$({ sed -n 's/^URIs: *\([^ ]*\).*/\1/p' /etc/apt/sources.list.d/debian.sources
    awk '$1 == "deb" {for (i = 2; i <= NF; ++i) if ($i ~ /^https?:.*debian\/?$/) print $i}' /etc/apt/sources.list /etc/apt/sources.list.d/*.list; } 2>/dev/null | head -1 || true)
  echo "${found:-http://deb.debian.org/debian}"
}
MIRROR=${MIRROR:-$(mirror)}
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/skerry-fresh; mkdir -p "$CACHE/archives"
[ -n "$DIR" ] && mkdir -p "$DIR"
WORK=$(mktemp -d "${DIR:-${TMPDIR:-/var/tmp}}/skerry-fresh.XXXXXX"); FRESH=$WORK/root
finish() { if [ -n "$KEEP" ]; then echo "kept $FRESH" >&2; else rm -rf --one-file-system "$WORK"; fi; }
trap finish EXIT; trap 'exit 130' INT; trap 'exit 143' TERM HUP
PROXY=$(apt-config dump Acquire::http::Proxy 2>/dev/null | sed -n 's/^Acquire::http::Proxy "\(.*\)";/\1/p')
[ -z "$PROXY" ] || export http_proxy=${http_proxy:-$PROXY}

SCRIPT=; [ -e "/usr/share/debootstrap/scripts/$SUITE" ] || SCRIPT=gutsy  # which fits every Ubuntu
echo "== a fresh $SUITE in $FRESH"
debootstrap --variant=minbase --include=ca-certificates --cache-dir="$CACHE/archives" "$SUITE" "$FRESH" "$MIRROR" $SCRIPT > "$WORK/debootstrap.log" 2>&1 ||
  { tail -5 "$WORK/debootstrap.log" >&2; die "debootstrap failed"; }
cp /etc/resolv.conf "$FRESH/etc/resolv.conf"; cp /etc/hosts "$FRESH/etc/hosts"
for f in $(grep -lsi 'acquire' /etc/apt/apt.conf /etc/apt/apt.conf.d/* | grep -iE 'prox|mirror|cert|apt\.conf$' || true); do cp "$f" "$FRESH/etc/apt/apt.conf.d/"; done
for f in /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do [ -e "$f" ] && { mkdir -p "$FRESH$(dirname "$f")"; cp -L "$f" "$FRESH$f"; }; done
PIP=$FRESH$(awk -F: '$3 == 0 { print $6; exit }' "$FRESH/etc/passwd")/.config/pip  # of the user that runs there
mkdir -p "$PIP"; [ -e "$HOME/.config/pip/pip.conf" ] && cp "$HOME/.config/pip/pip.conf" "$PIP/"
[ -d /usr/local/share/ca-certificates ] && cp -r /usr/local/share/ca-certificates "$FRESH/usr/local/share/"
cp -n "$CACHE/archives"/*.deb "$FRESH/var/cache/apt/archives/" 2>/dev/null || true
BINDS=()
for d in ${PIP_FIND_LINKS:-}; do [ -d "$d" ] && BINDS+=("$d"); done

[ -z "$COPY" ] || cp -r "$COPY" "$FRESH/packages"
[ "$SUITE" = bookworm ] || echo "deb $MIRROR $SUITE main universe" > "$FRESH/etc/apt/sources.list"
mkdir -p "$FRESH/skerry"
if [ -n "$REV" ]; then
  git -C "$TREE" archive "$REV" | tar -x -C "$FRESH/skerry"
else
  (cd "$TREE" && { git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' f; do [ -e "$f" ] && printf '%s\0' "$f"; done; } | tar -c --null -T -) |
    tar -x --no-same-owner -C "$FRESH/skerry"
fi

# ---- the README's commands ----
blocks() {  # blocks first|all: commands of the marked blocks, one a line, continuation lines joined
  awk -v which="$1" '
    /<!-- *test-fresh *-->/ {armed = 1; next}
    /^```/ {if (inside) {inside = 0; ++done; if (which == "first") exit} else if (armed) {inside = 1; armed = 0} next}
    inside' "$TREE/README.md" | sed -e ':a;/\\$/{N;s/\\\n//;ba}' | sed -e 's/^[$#] //;s/^ *sudo //;/^ *#/d;/^ *$/d;/^ *git clone/d;/^ *cd /d'
}
if [ -n "$BARE" ]; then printf '%s\n' "$@" > "$WORK/commands"
elif [ $# -gt 0 ]; then { blocks first; printf '%s\n' "$@"; } > "$WORK/commands"; else blocks all > "$WORK/commands"; fi
[ -s "$WORK/commands" ] || die "the README has no code block after a line <!-- test-fresh -->, and no command was given"
{
  echo 'set -euo pipefail; cd /skerry; export HOME=/root DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  env | grep -E '^(PIP|UV)_|^(https?|no)_proxy=|^(HTTPS?|NO)_PROXY=|^SSL_CERT_FILE=|^REQUESTS_CA_BUNDLE=' | while IFS='=' read -r n v; do printf 'export %s=%q\n' "$n" "$v"; done
  echo 'apt-get -qq update'
  while IFS= read -r line; do
    case $line in "apt-get install"*|"apt install"*) line="apt-get install -y -q ${line#*install }" ;; esac
    printf 'echo; echo %q; %s\n' "== $line" "$line"
  done < "$WORK/commands"
} > "$FRESH/follow.sh"

START=$(date +%s); STATUS=0
unshare --mount --pid --fork --kill-child --propagation private /bin/bash -c '
  root=$0; mount --bind "$root" "$root"; mount -t proc proc "$root/proc"; mount --rbind /sys "$root/sys"; mount -t tmpfs tmpfs "$root/dev"
  for n in null zero full random urandom tty fuse; do [ -e /dev/$n ] && { touch "$root/dev/$n"; mount --bind /dev/$n "$root/dev/$n"; }; done
  mkdir -p "$root/dev/shm" "$root/dev/pts"; mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"; mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  ln -s pts/ptmx "$root/dev/ptmx"; ln -s /proc/self/fd "$root/dev/fd"; ln -s /proc/self/fd/0 "$root/dev/stdin"; ln -s /proc/self/fd/1 "$root/dev/stdout"; ln -s /proc/self/fd/2 "$root/dev/stderr"
  for d in "$@"; do mkdir -p "$root$d"; mount --bind "$d" "$root$d"; done
  exec chroot "$root" /bin/bash /follow.sh' "$FRESH" "${BINDS[@]}" < /dev/null || STATUS=$?
cp -n "$FRESH"/var/cache/apt/archives/*.deb "$CACHE/archives/" 2>/dev/null || true
[ $STATUS = 0 ] && echo "== the commands worked on a fresh $SUITE ($(($(date +%s) - START)) s)" || echo "== failed with status $STATUS" >&2
exit $STATUS
