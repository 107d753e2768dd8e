#!/bin/bash
# deb.sh: builds the Debian packages of this tree, its uncommitted changes included, into DIR.
#
#   packaging/deb.sh DIR
#
# Needs the Build-Depends of packaging/debian/control; dpkg-checkbuilddeps says which are missing.
# nanobind (Debian 12 has none) comes from the project's .venv, or by pip from its usual place.
set -euo pipefail
tree=$(dirname "$(dirname "$(realpath "$0")")")
if [ $# != 1 ] || [ "${1:0:1}" = - ]; then
  sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "$0"
  exit 2
fi
mkdir -p "$1"; out=$(realpath "$1")
scratch=$(mktemp -d); trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/skerry"
(cd "$tree" && git ls-files -z --cached --others --exclude-standard |
  while IFS= read -rd '' f; do [ -e "$f" ] && printf '%s\0' "$f"; done | tar -c --null -T -) |
  tar -x --no-same-owner -C "$scratch/skerry"
cp -r "$tree/packaging/debian" "$scratch/skerry/debian"

# The version and its date are CHANGELOG.md's.
read -r version date < <(sed -n 's/^## \([0-9.]*\) (\(.*\))$/\1 \2/p' "$tree/CHANGELOG.md")
if [ -z "${version:-}" ]; then
  echo "deb.sh: CHANGELOG.md has no heading '## VERSION (DATE)'" >&2
  exit 1
fi
cat > "$scratch/skerry/debian/changelog" << END
skerry ($version) unstable; urgency=medium

  * See CHANGELOG.md.

 -- The Skerry authors <skerry@example.org>  $(date -R -u -d "$date")
END

find='import nanobind, pathlib; print(pathlib.Path(nanobind.__file__).parent)'
mkdir "$scratch/nanobind"
if nanobind=$("$tree/.venv/bin/python" -c "$find" 2> /dev/null); then
  cp -r "$nanobind" "$scratch/nanobind/"
else
  pip install --quiet --target "$scratch/nanobind" nanobind
fi
cd "$scratch/skerry"
PYTHONPATH=$scratch/nanobind dpkg-buildpackage --build=binary --no-sign --jobs="$(nproc)"
mv "$scratch"/*.deb "$out/"
