# SPDX-License-Identifier: Apache-2.0
"""Plans Llama 3 8B on one to four nodes and prints the table. Run it from the root of the repository."""

import espalier

sweep = espalier.sweep("examples/llama3-8b-on-8xh100.yaml", {"nodes": [1, 2, 4]})
for row in sweep.table().iter_rows():
    rate = f"{row['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU"
    print(f"{row['cluster.nodes']} nodes: {row['iteration_s']:.3f} s a step, {rate}, {row['label']}")
