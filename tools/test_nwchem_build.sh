# test_nwchem_build.sh: sourced. Gets and builds Debian's NWChem once in $CACHE, and links the same
# objects with one ARMCI or another.
#   nwchem_why_not     true if it can be built here; otherwise REASON says why not
#   nwchem_build       source and objects; nothing to do the second time
#   nwchem_link NAME PREFIX   makes $CACHE/nwchem.NAME from the objects and the libarmci-openmpi in
#   PREFIX/lib (/usr: Debian's); some seconds
# Uses CACHE (directory), JOBS (number).
TOOLS=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
NWCHEM_PACKAGES=(gfortran csh make dpkg-dev pkg-config openmpi-bin libopenmpi-dev libglobalarrays-dev libarmci-mpi-dev libscalapack-openmpi-dev libopenblas-dev)

nwchem_why_not() {
  local p missing=()
  [ -e "$CACHE/objects.done" ] && return 0
  command -v apt-get > /dev/null && command -v dpkg-query > /dev/null || { REASON="no apt: this test builds Debian's source package"; return 1; }
  for p in "${NWCHEM_PACKAGES[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2> /dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} = 0 ] && return 0
  [ "$(id -u)" = 0 ] || { REASON="packages are missing and only root can install them: ${missing[*]}"; return 1; }
  echo "test_nwchem: installing ${missing[*]}"
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -q "${missing[@]}" > /dev/null 2>&1 ||
    { REASON="could not install ${missing[*]}"; return 1; }
}

# apt with lists of our own: sources of the same archives that the machine takes its packages from,
# the machine's own lists stay as they are.
nwchem_source() {
  local apt=$CACHE/apt options
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$CACHE/source"
  apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | grep -v -- '-security ' | sort -u > "$apt/sources.list"
  options=(-o "Dir::Etc::SourceList=$apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root)
  (cd "$CACHE/source" && apt-get "${options[@]}" update -q && apt-get "${options[@]}" source --download-only -q nwchem && rm -rf nwchem &&
    dpkg-source --no-check -x nwchem_*.dsc nwchem)
}

# nwchem_environment [PREFIX]: what NWChem's makefiles are told; its documentation explains each
nwchem_environment() {
  export NWCHEM_TOP=$CACHE/source/nwchem NWCHEM_TARGET=LINUX64 NWCHEM_MODULES="nwdft gradients" NWCHEM_LONG_PATHS=y LARGE_FILES=TRUE
  export USE_MPI=y USE_MPIF=y USE_MPIF4=y USE_64TO32=y BLAS_SIZE=4 BLASOPT="-lblas -llapack" BLAS_LIB=-lblas LAPACK_LIB=-llapack
  export USE_SCALAPACK=y SCALAPACK_SIZE=4 SCALAPACK=-lscalapack-openmpi FC=gfortran
  MPI_INCLUDE=$(pkg-config --variable=includedir ompi-fort) LIBMPI=$(pkg-config --libs ompi-fort) MPI_LIB=$(pkg-config --variable=libdir ompi-fort)
  export MPI_INCLUDE LIBMPI MPI_LIB
  # Debian's libga is complete but for its ARMCI, which ga-config names -larmci-openmpi: NWChem
  # looks for it first where ga-config's --ldflags say.
  export ARMCI_NETWORK=ARMCI EXTERNAL_GA_PATH=$CACHE/ga EXTERNAL_ARMCI_PATH=${1:-/usr}
  mkdir -p "$EXTERNAL_GA_PATH/bin"
  printf '#!/bin/sh\n[ "$1" = --ldflags ] && exec echo -L"$EXTERNAL_ARMCI_PATH"/lib\nexec /usr/lib/%s/ga/openmpi/bin/ga-config "$@"\n' \
    "$(gcc -print-multiarch)" > "$EXTERNAL_GA_PATH/bin/ga-config"
  chmod +x "$EXTERNAL_GA_PATH/bin/ga-config"
}

nwchem_build() {
  [ -e "$CACHE/objects.done" ] && return 0
  mkdir -p "$CACHE"
  echo "test_nwchem: building NWChem's DFT modules in $CACHE, some minutes (log: $CACHE/build.log)"
  # Chained: a caller that uses || has switched `set -e` off in here.
  (
    { [ -e "$CACHE/source.done" ] || { nwchem_source && touch "$CACHE/source.done"; }; } &&
      nwchem_environment &&
      cd "$NWCHEM_TOP/src" &&
      python3 "$TOOLS/test_nwchem_makefile.py" config/makefile.h "$JOBS" &&
      mkdir -p "$NWCHEM_TOP/bin/$NWCHEM_TARGET" &&
      make nwchem_config &&
      make 64_to_32 &&
      find . \( -name include_stamp -o -name dependencies \) -delete &&
      make directories &&
      make libraries &&
      touch "$CACHE/objects.done"
  ) > "$CACHE/build.log" 2>&1
}

nwchem_link() {
  local to=$CACHE/nwchem.$1 prefix=$2
  # A shared library is found again by its path: rebuilding it needs no new link.
  [ -x "$to" ] && [ "$(cat "$to.from" 2> /dev/null)" = "$prefix" ] && return 0
  (
    nwchem_environment "$prefix" &&
      { [ "$prefix" = /usr ] || export LIBMPI="$LIBMPI -Wl,-rpath,$prefix/lib"; } &&
      cd "$NWCHEM_TOP/src" &&
      rm -f "$NWCHEM_TOP/bin/$NWCHEM_TARGET/nwchem" &&
      make link &&
      mv "$NWCHEM_TOP/bin/$NWCHEM_TARGET/nwchem" "$to" &&
      echo "$prefix" > "$to.from"
  ) > "$CACHE/link-$1.log" 2>&1
}
