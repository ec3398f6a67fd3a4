#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Types the first two commands of docs/usage.md on a machine that has nothing: a Debian root file system, made by debootstrap, with a copy of this
# repository (what git tracks) in it. Prints how long each took and how much processor time, and fails where one of them fails.
#
# usage: fresh_machine.sh [--suite bookworm] [--keep] [FOLDER]      as root; FOLDER must not exist (default: a temporary one)
#
# Packages come from where this machine's own apt takes them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
suite=bookworm keep='' folder=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --suite) suite=${2:?--suite needs a name}; shift 2 ;;
    --keep) keep=1; shift ;;
    -*) echo "usage: fresh_machine.sh [--suite NAME] [--keep] [FOLDER]" >&2; exit 2 ;;
    *) folder=$1; shift ;;
  esac
done
[[ $(id -u) -eq 0 ]] || { echo "fresh_machine.sh: needs root, for debootstrap and chroot" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "fresh_machine.sh: apt-get install debootstrap" >&2; exit 2; }
folder=${folder:-$(mktemp -d)/root}
[[ ! -e $folder ]] || { echo "fresh_machine.sh: $folder exists" >&2; exit 2; }

say() { printf '%s  %s\n' "$(date +%T)" "$*"; }

# The first Debian archive of this machine's apt, as one URL.
mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 2>/dev/null | grep -v security | head -n 1
}

leave() {
  umount "$folder/proc" 2>/dev/null || true
  [[ -n $keep ]] || rm -rf --one-file-system "$folder"
}
trap leave EXIT

# ---- the machine ----------------------------------------------------------------------------------------------------------

source=$(mirror)
source=${source:-http://deb.debian.org/debian}
say "debootstrap $suite from $source"
mkdir -p "$folder"
debootstrap --variant=minbase "$suite" "$folder" "$source" >"$folder.log" 2>&1 || { tail -n 20 "$folder.log" >&2; exit 1; }
mount -t proc proc "$folder/proc"
cp /etc/resolv.conf "$folder/etc/resolv.conf"
for settings in /etc/apt/apt.conf.d/*; do  # a proxy, say
  if grep -qi 'proxy' "$settings"; then cp "$settings" "$folder/etc/apt/apt.conf.d/"; fi
done
mkdir "$folder/espalier"
git -C "$root" ls-files -z | tar -C "$root" --null -T - -c | tar -C "$folder/espalier" -x

# ---- the two commands -----------------------------------------------------------------------------------------------------

# As they stand in docs/usage.md, without their comments.
mapfile -t commands < <(sed -n "s/ *#.*//; /^\.\/dev \(plan\|test\)\b/p" "$root/docs/usage.md" | head -n 2)
[[ ${#commands[@]} -eq 2 ]] || { echo "fresh_machine.sh: docs/usage.md has no two commands" >&2; exit 1; }
for command in "${commands[@]}"; do
  say "$command"
  started=$(date +%s)
  status=0
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb chroot "$folder" /bin/bash -c "
    cd /espalier
    TIMEFORMAT='processor time: %U s user, %S s system'
    time $command" || status=$?
  say "exit $status after $(($(date +%s) - started)) s: $command"
  [[ $status -eq 0 ]] || exit "$status"
done
