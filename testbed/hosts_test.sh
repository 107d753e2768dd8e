#!/bin/bash
# Tests of hosts.sh: what its help promises. Status 77 (skipped) where no hosts can be made.
set -uo pipefail
HOSTS=$(dirname "$(realpath "$0")")/hosts.sh
[ "$(id -u)" = 0 ] && unshare --net true 2>/dev/null || { echo "skipped: making network namespaces needs root"; exit 77; }
export TESTBED_DIR=$(mktemp -d /tmp/skerry-testbed-test.XXXXXX)
trap 'rm -rf "$TESTBED_DIR"' EXIT
unset TESTBED
FAILED=0
expect() { if [ "$2" = "$3" ]; then echo "ok      $1"; else echo "FAILED  $1: got '$2', expected '$3'"; FAILED=1; fi; }
await() { local n=0; until "$@"; do n=$((n + 1)); [ $n -gt 1000 ] && return 1; read -rt 0.01 <> <(:) || true; done; }
gone() { ! kill -0 "$1" 2>/dev/null; }

expect "a host has its own name" "$("$HOSTS" run 2 -- "$HOSTS" exec sk2 hostname)" sk2
expect "a host has its own address" "$("$HOSTS" run 1 -- "$HOSTS" exec sk1 ip -4 -o addr show eth0 | awk '{print $4}')" 10.77.0.1/24
expect "hosts reach each other by name" "$("$HOSTS" run 2 -- "$HOSTS" exec sk1 getent hosts sk2 | awk '{print $1}')" 10.77.0.2
expect "run passes the status on" "$("$HOSTS" run 1 -- bash -c 'exit 7'; echo $?)" 7
expect "an ssh replacement skips options and gives a fresh environment" \
  "$(SECRET=1 "$HOSTS" run 1 -- bash -c '"$TESTBED_AGENT" -x -o Some=thing sk1 echo "\${SECRET:-none}" "\$(hostname)"')" "none sk1"
expect "one host's agent is reached from the launchers' host" "$("$HOSTS" run 1 -- bash -c '"$TESTBED_HOSTS" exec sk0 "$TESTBED_AGENT" sk1 hostname')" sk1
expect "two commands on one host share /dev/shm, and nobody else does" \
  "$("$HOSTS" run 2 -- bash -c '$TESTBED_HOSTS exec sk1 touch /dev/shm/skerry-test; for h in sk1 sk2; do $TESTBED_HOSTS exec $h sh -c "ls /dev/shm | wc -l"; done' | tr '\n' ' ')" "1 0 "
expect "a shaped link has a token bucket" "$("$HOSTS" run 1 --rate 100mbit -- "$HOSTS" exec sk1 tc qdisc show dev eth0 | awk '{print $2}')" tbf
expect "shaping can be taken away" "$("$HOSTS" run 1 --rate 100mbit -- bash -c '$TESTBED_HOSTS shape none; $TESTBED_HOSTS exec sk1 tc qdisc show dev eth0' | awk '{print $2}')" noqueue
expect "two runs do not meet" "$("$HOSTS" run 1 -- "$HOSTS" run 2 -- bash -c '$TESTBED_HOSTS list | wc -l; $TESTBED_HOSTS exec sk2 hostname' | tr '\n' ' ')" "2 sk2 "

# A run that ends takes what still runs on its hosts with it.
"$HOSTS" run 1 -- bash -c '"$TESTBED_HOSTS" exec sk1 sh -c "echo up > $TESTBED_DIR/up; exec sleep 1000" & echo $! > "$TESTBED_DIR/left"
  until [ -s "$TESTBED_DIR/up" ]; do read -rt 0.01 <> <(:) || true; done'
LEFT=$(cat "$TESTBED_DIR/left"); rm "$TESTBED_DIR"/{left,up}
await gone "$LEFT"; expect "processes on a host end with it" "$?" 0

# A run that is killed outright leaves no process, and the next run sweeps its directory.
"$HOSTS" run 1 -- bash -c 'echo ready > "$TESTBED_DIR/ready"; exec sleep 1000' & RUN=$!
await test -s "$TESTBED_DIR/ready"
HOLDER=$(cat "$TESTBED_DIR"/run-*/sk1); HOLDER=${HOLDER%%:*}
CHILD=$(cat /proc/$RUN/task/$RUN/children)
{ kill -KILL $RUN; wait $RUN; } 2>/dev/null
await gone "$HOLDER"; expect "the hosts of a killed run end" "$?" 0
for c in $CHILD; do grep -qx sleep "/proc/$c/comm" 2>/dev/null && kill "$c"; done
"$HOSTS" sweep 2>/dev/null; expect "its directory is swept" "$(ls "$TESTBED_DIR" | grep -c run-)" 0
exit $FAILED
