// SPDX-License-Identifier: Apache-2.0
// Restates the published cost model of Galvatron version 1 (Hsword/Hetu, tools/Galvatron). It has memory and time of
// a layer under a strategy (pp, tp, dp = P, t, d), and of a change of strategy between two layers. Bl = B/d are the
// samples of the batch B on one device, and κ are overlap slow-downs. "8" marks formulas of one node of 8 GPUs, "16"
// those of two nodes.
//
//   memory MB    states 4·p, p = parameters/t; sharded ×(1/d + 0.025) [8], ×(1/d + 0.003) [16];  activations a(t)·Bl.
//   other MB     states + activation·Bl/t + 1024 for the context. [8] has one figure. [16] has one per stage if P > 1:
//                stages between the ends hold only the context. Activation/P is on the first stage of BERT and T5 and
//                on the last of Swin. Elsewhere it is activation less peak reduction·(1 − 1/m'), m' = chunks of whole
//                samples.
//   time ms      f = forward·Bl/t, b = 2·f;  gradients g = 2(d − 1)/d·p MB (sharded [16]: half);
//                tensor parallel c = 2(t − 1)/t·(Bl·sequence·hidden·k·4/2^20)·coefficient, k = 4, decoder 6.
//                The share s of b is overlapped with the gradients: t = 1: all; t = d = 2: half; decoder: 2/3;
//                d ≥ 4: all; else half.
//                In overlap(g, w = s·b), both are slowed by κ until the shorter ends, then the rest of the longer runs
//                at full speed.
//                Whole = f + overlap + (1 − s)·b + c + extra          (d = 1: f + b + c)
//                P > 1: compute (f + b, with t > 1 also c) shrinks by (P + m − 1)/(P·m), m = chunks; the rest of
//                `whole` stays.
//                [8], P > 1, t = 1, not sharded: if gradients outlast b, only one stage's remainder counts.
//                Sharded: + 0.5·g·coefficient [8], + 2·g·coefficient [16] for the gathers.
//                [16], P > 1: + 2·(Bl·sequence·hidden·4/2^20)·point-to-point(P) / dummy layers.
//                Total ×1.1/1000 s.
//   transition s (t_j − 1)/t_j·2·B/d_j·tc_j/1000 where t_j > t_i, or t_j = t_i in another rank order, or t_j < t_i in
//                another order: 4 → 2 on worlds of 8; on two nodes with one layer type all with t_j > 1, t_i < world.
//                From sharded to plain of the same layout 1e-4: the authors' bias that puts plain layers first.
//
// The chunks m by family are in chunks().
#pragma once

#include "reference/v1_profile.h"

namespace espalier::reference {

/// Returns m as the authors' scripts choose it, a real number. `local_batch` = B/d.
double chunks(const V1Profile& profile, const V1Strategy& strategy, double local_batch);

/// Returns MB of one layer on one device.
double layer_memory_mb(const V1Profile& profile, const V1LayerType& type, const V1Strategy& strategy, std::int32_t batch);

/// Returns MB outside the layers, for each of the strategy's stages; equal for all on 8 GPUs.
std::vector<double> other_memory_mb(const V1Profile& profile, const V1Strategy& strategy, std::int32_t batch);

/// Returns the seconds that one layer adds to the step. `layers` counts those of the whole model.
double layer_seconds(const V1Profile& profile, const V1LayerType& type, const V1Strategy& strategy, std::int32_t batch,
                     std::int32_t layers);

/// Returns the seconds between two consecutive layers of a stage.
double transition_seconds(const V1Profile& profile, const V1Strategy& from, const V1Strategy& to, std::int32_t batch);

}  // namespace espalier::reference
