#!/bin/bash
# setup.sh: what Skerry's build, tests and demo need. Installs it on Debian 12+ or Ubuntu 24.04+
# when run as root; otherwise says exactly what to install. Makes the project's own virtual
# environment in .venv.
#   tools/setup.sh [--with-peers] [--with-packaging] [--python PYTHON]
# --with-peers: also the MPIs and the ARMCI that tests and benchmarks compare with.
# --with-packaging: also what makes and checks Debian packages and compares interfaces.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
PYTHON=${PYTHON:-python3} PEERS= PACKAGING=
while [ $# -gt 0 ]; do
  case $1 in
  --with-peers) PEERS=1; shift ;;
  --with-packaging) PACKAGING=1; shift ;;
  --python) PYTHON=$2; shift 2 ;;
  -h|--help) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
  *) echo "setup.sh: unknown option '$1' (see --help)" >&2; exit 2 ;;
  esac
done

packages=(g++ gfortran cmake ninja-build pkg-config make git libsodium-dev libgtest-dev
  libbenchmark-dev libopenblas-dev libfabric-dev iproute2 nftables spin python3-venv python3-dev)
[ -n "$PEERS" ] && packages+=(openmpi-bin libopenmpi-dev mpich libmpich-dev libarmci-mpi-dev
  libpmix-dev libglobalarrays-dev libscalapack-openmpi-dev libscalapack-mpich-dev)
[ -n "$PACKAGING" ] && packages+=(debhelper dh-python lintian debootstrap abigail-tools patchelf)
missing=()
if command -v dpkg-query > /dev/null; then
  for p in "${packages[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2> /dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ]; then
      echo "setup: installing ${missing[*]}"
      export DEBIAN_FRONTEND=noninteractive
      apt-get -o DPkg::Lock::Timeout=300 install -y -q "${missing[@]}" > /dev/null 2>&1 ||
        { apt-get update -q > /dev/null && apt-get -o DPkg::Lock::Timeout=300 install -y -q "${missing[@]}" > /dev/null; }
    else
      echo "setup: packages are missing; install them and run this again:" >&2
      echo "  sudo apt-get update && sudo apt-get install ${missing[*]}" >&2
      exit 1
    fi
  fi
else
  echo "setup: not a Debian system: make sure you have the equivalents of: ${packages[*]}" >&2
fi

want='numpy nanobind scikit-build-core pytest matplotlib pyscf lizard zarr h5py mypy'
want+=' pyright[nodejs]'
stamp=.venv/.complete
if [ ! -x .venv/bin/python ] || [ "$(cat "$stamp" 2> /dev/null)" != "$want" ]; then
  echo "setup: Python packages into .venv, 0.9 GB, a minute or more: $want"
  "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "setup: Python 3.10 or newer is needed; $PYTHON is $("$PYTHON" -V)" >&2; exit 1; }
  [ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
  # shellcheck disable=SC2086
  .venv/bin/pip install --quiet --disable-pip-version-check $want
  printf '%s' "$want" > "$stamp"
fi
