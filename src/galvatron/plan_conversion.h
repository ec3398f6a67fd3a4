// SPDX-License-Identifier: Apache-2.0
// Converts between Galvatron's strategy file and a plan.
//
//   layer of the file     the model's blocks in order; embedding and head follow vtp, vsp, vcp, embed_sdp.
//   dp                    devices / (pp·tp·cp), so no field.
//   dp_types_enc          zero 3, or the default: ddp zero 0, zero2 2, zero3 3; sharded over all ranks with the same
//                         weights. A layer whose weights no other rank holds has zero 0.
//   use_sp                sp ulysses; otherwise tensor parallel. Galvatron's launch flag, here `tensor_groups`, decides
//                         about sequence parallelism (its main branch trains with it, version 1 without).
//   cp                    ring.
//   checkpoint            full recomputation.
//   chunks                micro-batches; global_bsz / chunks samples each, a multiple of every layer's dp.
//   ranks                 tp innermost, then cp, dp, pp; one run of devices per stage.
//   overlap               not in the file. Gradients overlap with backward where ranks share weights; gathers run ahead
//                         with ZeRO-3, as in its runtime. It is lost on the way back.
//
// A feature that one side cannot express is an error that names it; nothing is approximated.
#pragma once

#include "espalier/plan.h"
#include "galvatron/strategy_document.h"

namespace espalier::galvatron {

/// Converts the file to a plan. Fails (bad_input) where it does not fit model, cluster or training, or has features
/// that a plan cannot express (strided tensor groups, checkpoint 2). The engine is "generic", and the plan is valid.
/// Its hashes and embedded sources stay empty.
Result<Plan> plan_of(const StrategyDocument& document, const Model& model, const Cluster& cluster, const Training& training,
                     SequenceParallel tensor_groups = SequenceParallel::megatron);

/// Converts the plan to a file. Fails (bad_input) where the file cannot express the plan: experts spread, ZeRO-1,
/// hybrid sharding, virtual stages, zero-bubble schedules, selective recomputation, operator partitions. So do other
/// rank orders, an embedding unlike the head, and a stage without a block. Layers between the first and the last
/// count as blocks.
Result<StrategyDocument> document_of(const Plan& plan);

}  // namespace espalier::galvatron
