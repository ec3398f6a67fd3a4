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

# Nothing in the package may point back into the source or build tree. A checkout in /espalier is no part of .../lib/cmake/espalier: the path
# must begin where a path begins.
if grep -rlP --include='*.cmake' "(?<![\w}/.-])(\Q$root\E|\Q$build\E)(/|[\s\"';>)]|\$)" "$work/prefix"; then
  echo "the installed package names the source or build tree" >&2
  exit 1
fi

found=$("$work/build/consumer")
[[ $found == 124439808 ]] || { echo "consumer printed '$found', expected 124439808" >&2; exit 1; }
if [[ -x $work/prefix/bin/espalier ]]; then "$work/prefix/bin/espalier" --version; fi
echo "consumer test passed"
