#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares linears in space and time with tensor parallelism on four hosts of one machine (tools/testbed): the table
of docs/runtime.md, "Operators in space and time".

  partition.py predict FOLDER    profiles the cluster, with the tiles of P2x2, and predicts: FOLDER/predictions.json
  partition.py measure FOLDER    runs the predicted configurations: FOLDER/measured.json
  partition.py table FOLDER      compares, as Markdown

The blocks and the conventions are those of prediction.py: hosts emulate a device, each configuration runs 3 times 1 +
10 steps, and its time is the median of the 30. Exit code 3: the testbed cannot be built here.
"""
import json
import pathlib
import shutil
import statistics
import sys

import prediction as p

# Links are in Mb/s.
CLUSTERS = {"400 Mb/s": {"hosts": 4, "rate": 400}, "200 Mb/s": {"hosts": 4, "rate": 200}}
MICRO_BATCH = 4


def partition(linear, norm, heads, features, stream):
    """Returns the operators of a block of prediction.MODEL under engine espalier, each with its partition sequence
    over four ranks."""
    attention = {f"attn.core.{part}": heads for part in ("scores", "softmax", "values")}
    named = {"attn.norm": norm, "attn.qkv": linear, **attention, "attn.out": linear, "attn.residual": stream, "mlp.norm": norm, "mlp.gate_up": linear,
             "mlp.activation": features, "mlp.down": linear, "mlp.residual": stream}
    return "; ".join(f"{name} {sequence}" for name, sequence in named.items())


# Tiles between the linears stay as P2x2 leaves them: norms sum over two ranks.
TILES = partition("P2", "M,N", "M,H", "M,N", "M,N")
# Tokens are split in four: norms sum over no rank, and activations move on their way into a linear.
TOKENS = partition("P2", "M,M", "H,H", "M,N", "M,M")
CONFIGURATIONS = {
    "tensor parallelism": ["--tp", "4"],
    "tensor and sequence parallelism": ["--tp", "4", "--sp", "megatron"],
    "P2×2, norms over two ranks": ["--tp", "4", "--partition", TILES],
    "P2×2, norms on own tokens": ["--tp", "4", "--partition", TOKENS],
}


def profiled(cluster, folder):
    network = folder / "collectives.txt"
    if not network.exists():
        p.bring_up(cluster)
        p.testbed("run", "--", p.BINARY, "profile", "--network", "-o", str(network))
    plain = p.job_of(cluster, folder, None)
    operators, profile = folder.parent / "operators.yaml", folder / "profile.yaml"
    if not operators.exists():
        soon = ["chrt", "-r", "10"] if shutil.which("chrt") else []  # as ranks run on the testbed
        print(p.call(*soon, p.BINARY, "profile", str(plain), "-q", "-o", str(operators), "--tp", "1,4", "--samples", "1,4", "--steps", "4", "--pace", p.PACE,
                     "--sequence-parallel", "--partition", TILES, "--partition", TOKENS).strip())
    print(p.call(p.BINARY, "profile", str(plain), "-q", "-o", str(profile), "--from", str(operators), "--collectives", str(network)).strip())
    return p.job_of(cluster, folder, profile)


def predict(folder):
    rows = []
    for name, cluster in CLUSTERS.items():
        place = folder / name.lower().replace(" ", "-").replace("/", "-")
        place.mkdir(parents=True, exist_ok=True)
        job = profiled(cluster, place)
        for number, (configuration, flags) in enumerate(CONFIGURATIONS.items()):
            out = place / f"plan{number}"
            result = p.predicted(job, [*flags, "--micro-batch", str(MICRO_BATCH)], out)
            rows.append(p.row_of(name, configuration, out, folder, result))
    (folder / "predictions.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(len(rows), "rows in", folder / "predictions.json")


def measure(folder):
    rows = json.loads((folder / "predictions.json").read_text())
    for name, cluster in CLUSTERS.items():
        p.bring_up(cluster)
        for row in rows:
            if row["cluster"] != name:
                continue
            for _ in range(3):
                runs = [p.steps_of(folder / row["plan"], cluster) for _ in range(p.RUNS)]
                steps = [s for found, _ in runs for s in found]
                if p.spread(steps) <= p.REPEATABLE:
                    break
            row.update(measured_s=statistics.median(steps), p90_p10=p.spread(steps), measured_peak_bytes=max(peak for _, peak in runs))
            print(f"{name}, {row['configuration']}: {row['predicted_s']:.4f} s predicted, {row['measured_s']:.4f} s measured, p90/p10 {row['p90_p10']:.3f}",
                  flush=True)
    (folder / "measured.json").write_text(json.dumps(rows, indent=1) + "\n")
    p.testbed("down")


def table(folder):
    print("| links | blocks | step, predicted | measured | | peak, predicted | measured | |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in json.loads((folder / "measured.json").read_text()):
        time, peak = row["predicted_s"] / row["measured_s"] - 1, row["predicted_peak_bytes"] / row["measured_peak_bytes"] - 1
        print(f"| {row['cluster']} | {row['configuration']} | {row['predicted_s'] * 1e3:.0f} ms | {row['measured_s'] * 1e3:.0f} ms | {time:+.1%} | "
              f"{row['predicted_peak_bytes'] / 2**20:.1f} MiB | {row['measured_peak_bytes'] / 2**20:.1f} MiB | {peak:+.1%} |")


def main():
    commands = {"predict": predict, "measure": measure, "table": table}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    folder = pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    try:
        commands[sys.argv[1]](folder)
    except p.Failed as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
