#!/bin/bash
# hosts.sh: several hosts on one machine, for tests and benchmarks (root, Linux; needs iproute2 and util-linux).
#
#   hosts.sh run N [--rate R] -- CMD...   make N hosts, run CMD here with TESTBED set, remove the hosts; CMD's status
#   hosts.sh exec HOST CMD...             run CMD on HOST (same environment and directory)
#   hosts.sh ssh [OPTS] HOST CMD...       the same in the manner of ssh: options skipped, fresh environment, CMD read by a shell
#   hosts.sh shape R|none                 shape every link, both ways (such as 100mbit), or take the shaping away
#   hosts.sh up N [--rate R]              make N hosts that outlive this call; prints the name of the run: export TESTBED=name
#   hosts.sh down                         remove the hosts of $TESTBED
#   hosts.sh list | sweep                 show the runs of this machine | remove those whose owner is gone
#   hosts.sh --help
#
# Hosts are sk1..skN with addresses 10.77.0.1..N, joined by a bridge that lives in sk0 (10.77.0.254), the launchers' own host. Each has its
# own network, host name, IPC, /dev/shm and /etc/hosts; sk1..skN have their own process numbers too, so that removing a host ends everything on it.
# A host is nothing but namespaces held by one sleeping process: two runs never meet, and nothing has a name outside its run.
# Inside `run`, $TESTBED_AGENT is a program to give to launchers in place of ssh:
#   hosts.sh exec sk0 skerry run --hosts sk1:2,sk2:2 --agent "$TESTBED_AGENT" PROG
#   hosts.sh exec sk0 mpirun.openmpi --mca plm_rsh_agent "$TESTBED_AGENT" --mca plm_rsh_no_tree_spawn 1 --host sk1:2,sk2:2 \
#     --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24 --mca pml ob1 --mca btl tcp,vader,self PROG
#   hosts.sh exec sk0 mpiexec.hydra -launcher ssh -launcher-exec "$TESTBED_AGENT" -hosts sk1:2,sk2:2 -iface skbr PROG
# A shaped link passes a first burst of 64 kB at full speed.
set -euo pipefail
SELF=$(realpath "$0")
ROOT=${TESTBED_DIR:-/run/skerry-testbed}

die() { echo "hosts.sh: $*" >&2; exit 2; }
usage() { sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$SELF"; }
need_root() { [ "$(id -u)" = 0 ] || die "needs root to make network namespaces; run it as root or with sudo"; }
state() { [ -n "${TESTBED:-}" ] || die "TESTBED is not set: start with 'hosts.sh run N -- CMD' or export what 'hosts.sh up N' printed"
  STATE=$ROOT/$TESTBED; [ -d "$STATE" ] || die "no run '$TESTBED' in $ROOT"; }
# A process is named by number and start time, so that a recycled number is never taken for it.
stamp() { local f; f=$(cat "/proc/$1/stat" 2>/dev/null) || return 1; set -- "$1" ${f##*) }; echo "$1:${21}"; }
alive() { [ "$(stamp "${1%%:*}" 2>/dev/null)" = "$1" ]; }
holder() { local s; s=$(cat "$STATE/$1" 2>/dev/null) || die "no host '$1' in run '$TESTBED'"; alive "$s" || die "host '$1' is gone"; echo "${s%%:*}"; }

hold() {  # hold NAME: starts the sleeping process that is host NAME
  local name=$1 pid pids=(--pid --fork --kill-child=KILL --mount-proc)
  [ "$name" = sk0 ] && pids=()  # launchers start hosts' agents from sk0, so sk0 must see the holders' numbers
  local dies=(setpriv --pdeathsig KILL); [ -n "$KEEP" ] && dies=()
  # The inner shell is the host's process 1: it reaps processes that lose their parent.
  "${dies[@]}" unshare --net --mount --uts --ipc --propagation private "${pids[@]}" /bin/bash -c '
    hostname "$0" && mount -t tmpfs -o size=4g tmpfs /dev/shm && mount --bind "$1/hosts" /etc/hosts && ip link set lo up || exit 1
    echo ready > "$1/ready-$0"; exec > /dev/null 2>&1; trap "" INT HUP
    [ "$0" = sk0 ] && exec sleep infinity
    sleep infinity & while kill -0 $!; do wait; done' "$name" "$STATE" < /dev/null > /dev/null 2>> "$STATE/errors" &
  local started=$!; disown
  until [ -s "$STATE/ready-$name" ]; do kill -0 $started 2>/dev/null || die "could not make the namespaces of $name: $(tail -3 "$STATE/errors")"; read -rt 0.01 <> <(:) || true; done
  pid=$started
  if [ "$name" != sk0 ]; then pid=$(cat "/proc/$started/task/$started/children"); pid=${pid%% *}; fi
  stamp "$started" > "$STATE/$name.keeper"; stamp "$pid" > "$STATE/$name"
}

on() { local pid; pid=$(holder "$1"); shift; nsenter -t "$pid" --net "$@"; }

shape() {
  local rate=$1 k
  for k in $(cat "$STATE/count_list"); do
    on sk0 tc qdisc del dev "skv$k" root 2>/dev/null || true
    on "sk$k" tc qdisc del dev eth0 root 2>/dev/null || true
    [ "$rate" = none ] && continue
    on sk0 tc qdisc add dev "skv$k" root tbf rate "$rate" burst 64kb latency 50ms
    on "sk$k" tc qdisc add dev eth0 root tbf rate "$rate" burst 64kb latency 50ms
  done
}

make_hosts() {  # make_hosts N RATE
  local n=$1 rate=$2 k
  mkdir -p "$ROOT"; sweep
  STATE=$(mktemp -d "$ROOT/run-XXXXXX"); export TESTBED=${STATE##*/}
  [ -n "$KEEP" ] || stamp $$ > "$STATE/owner"
  seq "$n" > "$STATE/count_list"
  { echo "127.0.0.1 localhost"; for k in 0 $(seq "$n"); do echo "10.77.0.$((k ? k : 254)) sk$k"; done; } > "$STATE/hosts"
  printf '#!/bin/bash\nTESTBED_DIR=%q TESTBED=%q exec %q ssh "$@"\n' "$ROOT" "$TESTBED" "$SELF" > "$STATE/agent"; chmod +x "$STATE/agent"
  hold sk0
  on sk0 ip link add skbr type bridge; on sk0 ip addr add 10.77.0.254/24 dev skbr; on sk0 ip link set skbr up
  for k in $(seq "$n"); do
    hold "sk$k"
    on sk0 ip link add "skv$k" type veth peer name eth0 netns "$(holder "sk$k")"
    on sk0 ip link set "skv$k" master skbr up
    on "sk$k" ip addr add "10.77.0.$k/24" dev eth0; on "sk$k" ip link set eth0 up
  done
  [ -z "$rate" ] || shape "$rate"
}

remove() {  # remove STATEDIR: ends the holders (and with them everything on their hosts), only those this run started
  local f s pid
  for f in "$1"/sk*.keeper; do
    [ -e "$f" ] || continue
    for s in "$(cat "${f%.keeper}" 2>/dev/null || true)" "$(cat "$f")"; do
      if [ -n "$s" ] && alive "$s"; then
        kill -KILL "${s%%:*}" 2>/dev/null || true
      fi
    done
  done
  rm -rf "$1"
}
sweep() {
  local d o
  for d in "$ROOT"/run-*; do
    [ -s "$d/owner" ] || continue
    o=$(cat "$d/owner"); alive "$o" || { echo "hosts.sh: removing ${d##*/}, whose owner is gone" >&2; remove "$d"; }
  done
}
options() {  # options N [--rate R] ... -> COUNT RATE, rest in REST
  COUNT=${1:-} RATE=; [[ $COUNT =~ ^[0-9]+$ ]] && [ "$COUNT" -ge 1 ] && [ "$COUNT" -le 200 ] || die "how many hosts? 1 to 200, not '$COUNT'"; shift
  if [ "${1:-}" = --rate ]; then RATE=${2:?--rate needs a value such as 100mbit}; shift 2; fi
  if [ "${1:-}" = -- ]; then shift; fi
  REST=("$@")
}

KEEP=
case ${1:-} in
run) need_root; shift; options "$@"; [ ${#REST[@]} -gt 0 ] || die "run what? hosts.sh run N -- CMD..."
  STATE=; CHILD=
  trap '[ -z "$STATE" ] || remove "$STATE"' EXIT
  for s in INT TERM HUP; do trap '[ -z "$CHILD" ] || kill -'$s' "$CHILD" 2>/dev/null || true' $s; done
  make_hosts "$COUNT" "$RATE"
  export TESTBED_DIR=$ROOT TESTBED_AGENT=$STATE/agent TESTBED_HOSTS=$SELF
  "${REST[@]}" <&0 & CHILD=$!
  set +e; while :; do wait "$CHILD"; STATUS=$?; kill -0 "$CHILD" 2>/dev/null || break; done
  exit "$STATUS" ;;
up) need_root; shift; options "$@"; KEEP=1; make_hosts "$COUNT" "$RATE"; echo "$TESTBED" ;;
down) need_root; state; remove "$STATE" ;;
shape) need_root; state; shape "${2:?a rate such as 100mbit, or none}" ;;
exec) state; H=${2:?exec on which host?}; shift 2; PID=$(holder "$H")
  NS=(--net --mount --uts --ipc); [ "$H" = sk0 ] || NS+=(--pid)
  exec nsenter -t "$PID" "${NS[@]}" -- /bin/sh -c 'cd "$0" && exec "$@"' "$PWD" "$@" ;;
ssh) state; shift
  while [ "${1#-}" != "${1:-}" ]; do case $1 in -[bcDEeFIiJLlmOopQRSWw]) shift 2 ;; *) shift ;; esac; done
  H=${1:?ssh to which host?}; shift; PID=$(holder "${H#*@}")
  NS=(--net --mount --uts --ipc); [ "$H" = sk0 ] || NS+=(--pid)
  exec nsenter -t "$PID" "${NS[@]}" -- env -i HOME="${HOME:-/root}" USER="${USER:-root}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 /bin/sh -c 'cd; '"$*" ;;
list) for d in "$ROOT"/run-*; do [ -d "$d" ] && echo "${d##*/}: $(wc -l < "$d/count_list") hosts, $( [ -s "$d/owner" ] && echo "owner $(cat "$d/owner")" || echo "kept until down")"; done; true ;;
sweep) need_root; sweep ;;
-h|--help|help) usage ;;
*) usage >&2; exit 2 ;;
esac
