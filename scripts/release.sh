#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a release holds, so that the first answer needs no compiler:
#   espalier-VERSION-linux-ARCH           the binary, linked statically: no library of the machine is needed
#   espalier-VERSION-container.tar        an image of that binary alone (scripts/Containerfile), where docker or podman runs
#   espalier-VERSION-*.whl                wheels for manylinux x86-64 and aarch64, where cibuildwheel and docker or podman run
#   SHA256SUMS
# usage: release.sh [--no-wheels] [FOLDER]      default: build/release-VERSION. What cannot be made here is said and left out; the binary is not optional.
#        release.sh --notes                     prints the release notes: the section of CHANGELOG.md for the version of CMakeLists.txt
#        release.sh --tag [--yes]               tags HEAD as vVERSION with the notes; without --yes it prints what it would do
# The binary is made of the objects of `./dev build`, and must give the answer of the one that is linked as usual, byte for byte.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
say() { echo "release: $*"; }
fail() { echo "release.sh: $*" >&2; exit 2; }

# ---- notes and tag ---------------------------------------------------------------------------------------------------------
notes() {  # the section of a version, without its heading and outer blank lines; links are relative to the repository
  awk -v head="## $1" '/^## /{inside = index($0 ",", head ",") == 1} inside && !/^## /' "$root/CHANGELOG.md" | sed -e '/./,$!d' | sed -e ':a' -e '/^\n*$/{$d;N;ba' -e '}'
}
if [[ ${1:-} == --notes || ${1:-} == --tag ]]; then
  version=$(sed -n 's/^project(espalier VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
  [[ -n $version ]] || fail "CMakeLists.txt states no version"
  text=$(notes "$version")
  [[ -n $text ]] || fail "CHANGELOG.md has no section '## $version, …'"
  if [[ $1 == --notes ]]; then
    echo "$text"
    exit 0
  fi
  [[ $# -eq 1 || ${2:-} == --yes ]] || fail "unknown option ${2:-}; usage: release.sh --tag [--yes]"
  faults=()
  grep -q "^## $version,.*(unreleased)" "$root/CHANGELOG.md" && faults+=("the section of $version in CHANGELOG.md is marked unreleased: put the date there")
  [[ -z $(git -C "$root" status --porcelain) ]] || faults+=("the working tree has changes that are not committed")
  git -C "$root" rev-parse -q --verify "refs/tags/v$version" >/dev/null && faults+=("the tag v$version exists")
  if [[ ${2:-} != --yes ]]; then
    say "dry run: would tag $(git -C "$root" rev-parse --short HEAD) as v$version with these notes"
    echo "$text" | sed 's/^\(.\)/  \1/'
    for fault in "${faults[@]}"; do say "would refuse: $fault"; done
    exit 0
  fi
  [[ ${#faults[@]} -eq 0 ]] || fail "$(printf '%s; ' "${faults[@]}")"
  git -C "$root" tag -a "v$version" --cleanup=whitespace -m "Espalier $version" -m "$text"
  say "tagged v$version; publish it with: git push origin v$version"
  exit 0
fi

wheels=1
if [[ ${1:-} == --no-wheels ]]; then
  wheels=0
  shift
fi
build=$root/build
version=$("$build/espalier" --version 2>/dev/null | awk '{print $2}') || true
[[ -n $version ]] || { echo "release.sh: no build/espalier: ./dev build" >&2; exit 2; }
folder=${1:-$build/release-$version}
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ---- the static binary -----------------------------------------------------------------------------------------------------
binary=$folder/espalier-$version-linux-$(uname -m)
# The archives need each other in a circle; what of them nobody needs is left out by the linker.
modules=("$build"/libespalier_*.a)
"${CXX:-c++}" -static -O2 -pthread -o "$binary" "$build/CMakeFiles/espalier_binary.dir/src/cli/main.cpp.o" -Wl,--start-group "${modules[@]}" \
  -Wl,--end-group -lyaml-cpp -lpugixml -lz
strip "$binary"
if ldd "$binary" >/dev/null 2>&1; then
  echo "release.sh: the binary needs libraries of the machine" >&2
  exit 1
fi
example=$root/examples/llama3-8b-on-8xh100.yaml
(cd "$root" && "$binary" plan "$example" -q -o "$work/static" >"$work/static.txt" && "$build/espalier" plan "$example" -q -o "$work/usual" >"$work/usual.txt")
cmp "$work/static/plan.json" "$work/usual/plan.json"
diff <(sed "s,$work/[a-z]*,,g" "$work/static.txt") <(sed "s,$work/[a-z]*,,g" "$work/usual.txt") >/dev/null || { echo "release.sh: the static binary answers otherwise" >&2; exit 1; }
say "$(basename "$binary"): $(stat -c %s "$binary") bytes, answers as build/espalier"

# ---- the container ---------------------------------------------------------------------------------------------------------
engine=
for tool in docker podman; do
  if "$tool" info >/dev/null 2>&1; then
    engine=$tool
    break
  fi
done
cp "$binary" "$work/espalier"
cp "$root/scripts/Containerfile" "$root/LICENSE" "$root/THIRD_PARTY_NOTICES.md" "$work/"
if [[ -n $engine ]]; then
  "$engine" build -q -t "espalier:$version" -f "$work/Containerfile" "$work" >/dev/null
  "$engine" run --rm "espalier:$version" --version >/dev/null
  "$engine" save -o "$folder/espalier-$version-container.tar" "espalier:$version"
  say "espalier-$version-container.tar"
else
  say "no docker and no podman runs here: the image is left out (scripts/Containerfile)"
fi

# ---- wheels ----------------------------------------------------------------------------------------------------------------
if [[ $wheels -eq 0 ]]; then
  say "wheels are left out"
elif [[ -n $engine ]] && command -v cibuildwheel >/dev/null; then
  (cd "$root" && cibuildwheel --platform linux --output-dir "$folder")
  say "wheels: $(cd "$folder" && ls ./*.whl | tr '\n' ' ')"
else
  say "no cibuildwheel with docker or podman here: wheels are left out ([tool.cibuildwheel] of pyproject.toml; ./dev python builds one for this machine)"
fi

(cd "$folder" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
say "$folder"
