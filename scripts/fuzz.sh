#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzz target for SECONDS, one after the other, and fails on the first finding (its input is kept and named).
#   scripts/fuzz.sh SECONDS [TARGET …]        targets: json yaml toml import_config import_cluster lengths measured_step model cluster cluster_tables trace observation change check job plan result run_record runlog calibration profile engines galvatron tables safetensors tokens checkpoint; default all
# Needs the fuzz build (`./dev fuzz SECONDS` does both). BUILD=DIR names another build directory. What a target learns is kept in
# DIR/fuzz/corpus/TARGET, so that the next run starts there.
set -euo pipefail

if [[ ! ${1:-} =~ ^[0-9]+$ ]]; then
  sed -n '3,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
seconds=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
build=${BUILD:-$root/build/fuzz}
targets=("$@")
((${#targets[@]})) || targets=(json yaml toml import_config import_cluster lengths measured_step model cluster cluster_tables trace observation change check job plan result run_record runlog calibration profile engines galvatron tables safetensors tokens checkpoint)

# Real files from which a target may start, beside its small hand-made seeds.
extra_seeds() {
  case $1 in
    json | model) echo "$root/models" ;;
    yaml | cluster) echo "$root/examples" ;;
    tables) echo "$root/data/calibration" ;;
    trace) echo "$root/data/traces" ;;
  esac
}

for target in "${targets[@]}"; do
  binary=$build/fuzz/fuzz_$target
  [[ -x $binary ]] || { echo "scripts/fuzz.sh: $binary is not built" >&2; exit 2; }
  learned=$build/fuzz/corpus/$target
  findings=$build/fuzz/findings/$target
  mkdir -p "$learned" "$findings"
  # shellcheck disable=SC2046  # a folder or nothing
  "$binary" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=10 -max_len=16384 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$findings/" -dict="$root/tests/fuzz/espalier.dict" \
    "$learned" "$root/tests/fuzz/corpus/$target" $(extra_seeds "$target") </dev/null >"$findings/log" 2>&1 || {
    tail -n 40 "$findings/log" >&2
    echo "fuzz_$target: FINDING, see $findings" >&2
    exit 1
  }
  executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$findings/log")
  memory=$(sed -n 's/^stat::peak_rss_mb: *//p' "$findings/log")
  echo "fuzz_$target: $seconds s, ${executed:-?} inputs, peak ${memory:-?} MB, no finding"
done
