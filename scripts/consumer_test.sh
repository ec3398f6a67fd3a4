#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs a finished build to a temporary prefix, then configures, builds and runs tests/consumer against it, as a user would.
# usage: consumer_test.sh BUILD_DIRECTORY
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "${1:?usage: consumer_test.sh BUILD_DIRECTORY}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
cmake -S "$root/tests/consumer" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build"

# Every public header stands alone: whoever includes it needs no other.
alone='printf "#include <espalier/%s>\n" "$1" | "${CXX:-c++}" -std=c++20 -Wall -Wextra -fsyntax-only -I "$0" -x c++ - || exit 255'
ls "$work/prefix/include/espalier" | xargs -P 2 -n 1 bash -c "$alone" "$work/prefix/include" ||
  { echo "a public header does not stand alone" >&2; exit 1; }

# Nothing in the package may point back into the source or build tree. A checkout in /espalier is no part of .../lib/cmake/espalier: the path
# must begin where a path begins.
if grep -rlP --include='*.cmake' "(?<![\w}/.-])(\Q$root\E|\Q$build\E)(/|[\s\"';>)]|\$)" "$work/prefix"; then
  echo "the installed package names the source or build tree" >&2
  exit 1
fi

"$work/build/consumer" "$work/prefix/share/espalier" >"$work/said" || { tail -5 "$work/said" >&2; exit 1; }
grep -q '^124439808 parameters on 4 devices$' "$work/said" || { head -1 "$work/said" >&2; echo "GPT-2 has 124439808 parameters" >&2; exit 1; }
[[ $(tail -1 "$work/said") == "every call answered" ]] || { tail -5 "$work/said" >&2; exit 1; }
if [[ -x $work/prefix/bin/espalier ]]; then "$work/prefix/bin/espalier" --version; fi
echo "consumer test passed"
