#!/bin/bash
# rdma-vm.sh: runs a command in a virtual machine that has a software InfiniBand device (rdma_rxe).
#
#   rdma-vm.sh [--cpus N] [--memory MiB] [--timeout S] [--share DIR] [--verbose] -- CMD...
#   rdma-vm.sh --check     says what is missing here and how to install it; status 0 if nothing is
#   rdma-vm.sh --help
#
# The machine boots this host's newest Debian kernel (/boot, /lib/modules) in qemu. Its root is this host's file system, read-only under a
# memory overlay, so every program and library here is there too; DIR (default: the current directory) is mounted read-write at its own path and is
# where CMD runs, as root. Two devices, rxe0 at 192.168.77.1 and rxe1 at 192.168.78.1, sit on the two ends of a veth pair. SKERRY_* and GTEST_*
# variables are passed on. Standard output and error of CMD appear here as they come; the status is CMD's, 125 if the machine
# never got so far. The processor is emulated unless SKERRY_USER_VM_KVM=1 asks for KVM (a /dev/kvm may exist where guests cannot run).
set -euo pipefail
SELF=$(realpath "$0")
usage() { sed -n '2,/^set -e/{/^set -e/d;s/^# \{0,1\}//;p}' "$SELF"; }
die() { echo "rdma-vm.sh: $*" >&2; exit 2; }

CPUS=2 MEMORY=2048 TIMEOUT=600 SHARE=$PWD VERBOSE=
newest_kernel() { for v in $(ls /lib/modules 2>/dev/null | sort -Vr); do [ -e "/boot/vmlinuz-$v" ] && { echo "$v"; return; }; done; return 1; }
missing() {
  command -v qemu-system-x86_64 > /dev/null || echo qemu-system-x86
  [ -x /bin/busybox ] || echo busybox-static
  command -v cpio > /dev/null || echo cpio
  command -v modprobe > /dev/null || echo kmod
  command -v rdma > /dev/null || echo iproute2
  [ -e /usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so ] || ls /usr/lib/*/libibverbs/librxe* > /dev/null 2>&1 || echo ibverbs-providers
  newest_kernel > /dev/null || echo linux-image-amd64
}
while [ $# -gt 0 ]; do
  case $1 in
  --cpus) CPUS=$2; shift 2 ;;
  --memory) MEMORY=$2; shift 2 ;;
  --timeout) TIMEOUT=$2; shift 2 ;;
  --share) SHARE=$(realpath "$2"); shift 2 ;;
  --verbose) VERBOSE=1; shift ;;
  --check) M=$(missing | tr '\n' ' '); [ -z "$M" ] && { echo "everything is here"; exit 0; }; echo "missing: apt-get install --no-install-recommends $M"; exit 1 ;;
  -h|--help) usage; exit 0 ;;
  --) shift; break ;;
  *) die "unknown option '$1' (see --help)" ;;
  esac
done
[ $# -gt 0 ] || die "which command? rdma-vm.sh -- CMD..."
[ "$(id -u)" = 0 ] || die "needs root, because the machine reads this host's whole file system"
M=$(missing | tr '\n' ' '); [ -z "$M" ] || die "missing packages; apt-get install --no-install-recommends $M"
KERNEL=$(newest_kernel)

WORK=$(mktemp -d "${TMPDIR:-/tmp}/skerry-rdma-vm.XXXXXX"); QEMU= TAIL=
finish() { for p in $QEMU $TAIL; do kill "$p" 2>/dev/null || true; done; rm -rf "$WORK"; }
trap finish EXIT; trap 'exit 130' INT; trap 'exit 143' TERM HUP

# ---- first stage: just enough to mount this host's root over 9p ----
R=$WORK/initrd; mkdir -p "$R"/{bin,mods,proc,sys,dev,lower,rw,new} "$WORK/job"
cp /bin/busybox "$R/bin/busybox"; : > "$R/mods/order"
for m in virtio_pci 9pnet_virtio 9p overlay; do
  modprobe -S "$KERNEL" -D $m 2>/dev/null | awk '$1 == "insmod" {print $2}' | while read -r f; do
    b=$(basename "$f"); grep -qx "$b" "$R/mods/order" || { cp "$f" "$R/mods/"; echo "$b" >> "$R/mods/order"; }
  done
done
cat > "$R/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev
while read m; do insmod /mods/$m 2>/dev/null; done < /mods/order
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 hostroot /lower || { echo "cannot mount the host's root"; poweroff -f; }
mount -t tmpfs t /rw; mkdir /rw/u /rw/w
mount -t overlay -o lowerdir=/lower,upperdir=/rw/u,workdir=/rw/w o /new
mkdir -p /new/proc /new/sys /new/dev /new/run /new/tmp
mount -t proc p /new/proc; mount -t sysfs s /new/sys; mount --move /dev /new/dev
mount -t tmpfs t /new/run; mount -t tmpfs t /new/tmp; mkdir -p /new/dev/shm /new/dev/pts /new/run/job
mount -t tmpfs t /new/dev/shm; mount -t devpts t /new/dev/pts
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 job /new/run/job
exec switch_root /new /bin/bash /run/job/guest.sh
INIT
chmod +x "$R/init"; (cd "$R" && find . | cpio -o -H newc --quiet | gzip -1) > "$WORK/initrd.gz"

# ---- second stage: the device, then the command ----
printf '%q ' "$@" > "$WORK/job/command"
printf 'SHARE=%q\n' "$SHARE" > "$WORK/job/settings"
env | grep -E '^SKERRY_|^GTEST_' | while IFS='=' read -r n v; do printf 'export %s=%q\n' "$n" "$v"; done >> "$WORK/job/settings" || true
cat > "$WORK/job/guest.sh" <<'GUEST'
. /run/job/settings
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
exec > /run/job/setup 2>&1
mkdir -p "$SHARE"; mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 share "$SHARE"
hostname rdma-vm; grep -q rdma-vm /etc/hosts || echo "192.168.77.1 rdma-vm" >> /etc/hosts
ulimit -l unlimited; ulimit -c 0; ip link set lo up
for m in veth dummy rdma_rxe ib_uverbs rdma_ucm; do modprobe $m; done
# RDMA devices are seen in every network namespace unless told otherwise, so both ends stay in one and the host itself is the far end as well.
ip link add rdma0 type veth peer name rdma1; ip link set rdma0 mtu 4200; ip link set rdma1 mtu 4200
ip addr add 192.168.77.1/24 dev rdma0; ip addr add 192.168.78.1/24 dev rdma1; ip link set rdma0 up; ip link set rdma1 up
rdma link add rxe0 type rxe netdev rdma0 || echo "no rxe0"
rdma link add rxe1 type rxe netdev rdma1 || echo "no rxe1"
for i in 1 2 3 4 5 6 7 8 9 10; do [ -e /dev/infiniband/uverbs0 ] && break; sleep 0.1; done
if [ ! -e /dev/infiniband/uverbs0 ]; then  # no udev here makes device nodes
  mkdir -p /dev/infiniband
  for f in /sys/class/infiniband_verbs/uverbs*/dev /sys/class/misc/rdma_cm/dev; do
    [ -e $f ] && mknod /dev/infiniband/$(basename $(dirname $f)) c $(tr : ' ' < $f)
  done
fi
cut -d' ' -f1 /proc/uptime > /run/job/boot
cd "$SHARE"; bash /run/job/command > /run/job/out 2>&1; echo $? > /run/job/status
dmesg > /run/job/dmesg; sync; echo o > /proc/sysrq-trigger; sleep 10
GUEST

ACCEL=(-accel tcg,thread=multi -cpu max)
[ -z "${SKERRY_USER_VM_KVM:-}" ] || ACCEL=(-accel kvm -cpu host)
: > "$WORK/job/out"; tail -n +1 -f "$WORK/job/out" & TAIL=$!
for attempt in 1 2 3; do  # a boot can hang when this machine is badly overloaded
  setpriv --pdeathsig KILL timeout -k 5 "$TIMEOUT" qemu-system-x86_64 "${ACCEL[@]}" -M q35 -smp "$CPUS" -m "$MEMORY" -nodefaults -no-reboot -display none \
    -serial "file:$WORK/console" -kernel "/boot/vmlinuz-$KERNEL" -initrd "$WORK/initrd.gz" -device virtio-rng-pci \
    -append "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable mitigations=off nokaslr random.trust_cpu=on" \
    -virtfs local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap \
    -virtfs "local,path=$WORK/job,mount_tag=job,security_model=none,multidevs=remap" \
    -virtfs "local,path=$SHARE,mount_tag=share,security_model=none,multidevs=remap" 2>> "$WORK/qemu" &
  QEMU=$!; n=0
  while kill -0 $QEMU 2>/dev/null && [ ! -s "$WORK/job/boot" ]; do
    n=$((n + 1)); [ $n -gt 900 ] && { kill $QEMU; break; }; sleep 0.2
  done
  wait $QEMU && Q=0 || Q=$?; QEMU=
  [ -s "$WORK/job/boot" ] && break
  echo "rdma-vm.sh: boot attempt $attempt did not reach the command (qemu status $Q)" >&2
done
sleep 0.3; kill $TAIL 2>/dev/null || true; wait $TAIL 2>/dev/null || true; TAIL=
if [ ! -s "$WORK/job/boot" ]; then { cat "$WORK/qemu"; tail -30 "$WORK/console"; } >&2; exit 125; fi
[ -z "$VERBOSE" ] || { echo "ready after $(cat "$WORK/job/boot") s"; cat "$WORK/job/setup"; } >&2
[ -s "$WORK/job/status" ] || { echo "rdma-vm.sh: the machine ended before the command did (time-out $TIMEOUT s?); end of its log:" >&2; tail -5 "$WORK/console" >&2; exit 125; }
exit "$(cat "$WORK/job/status")"
