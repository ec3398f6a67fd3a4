# SPDX-License-Identifier: Apache-2.0
"""Builds a job of typed parts, and watches the search close the gap. Run it from the root of the repository."""

import espalier


def improved(state: espalier.SearchState) -> None:
    print(f"{state.phase}: best {state.best_s:.4f} s")


def bounded(state: espalier.SearchState) -> None:
    print(f"{state.phase}: no plan below {state.bound_s:.4f} s")


job = espalier.Job.of(
    model=espalier.Model.decoder(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocabulary=128256),
    cluster=espalier.Cluster.of("h100-sxm-80gb", nodes=2),
    training=espalier.Training(global_batch=128, sequence_length=8192, precision=espalier.Precision.BF16),
    engine=espalier.Engine.MEGATRON_CORE,
    search=espalier.Search(space=espalier.Space.UNIFORM),
)
result = espalier.plan(job, on_improvement=improved, on_bound=bounded)
print(f"{result.status}: {result.prediction.iteration_s:.4f} s, gap {result.gap}, {result.plan.label}")
assert espalier.check(result)
