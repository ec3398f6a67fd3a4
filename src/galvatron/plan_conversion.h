// SPDX-License-Identifier: Apache-2.0
// Between Galvatron's strategy file and a plan.
//
//   layer of the file     the model's blocks in order; embedding and head follow vtp, vsp, vcp, embed_sdp
//   dp                    devices / (pp·tp·cp), so no field
//   dp_types_enc          zero 3, or the default: ddp zero 0, zero2 2, zero3 3; sharded over all ranks with the same
//                         weights. A
//                         layer whose weights no other rank holds has zero 0
//   use_sp                sp ulysses; otherwise tensor parallel, with sequence parallelism or not as Galvatron's launch
//                         flag
//                         says: the parameter `tensor_groups` (its main branch trains with it, version 1 without)
//   cp                    ring
//   checkpoint            full recomputation
//   chunks                micro-batches; global_bsz / chunks samples each, a multiple of every layer's dp
//   ranks                 tp innermost, then cp, dp, pp; one run of devices a stage
//   overlap               not in the file: gradients beside backward where ranks share weights, gathers ahead with
//                         ZeRO-3, as its
//                         runtime does. Lost on the way back
// What one side cannot say is an error that names it; nothing is approximated.
#pragma once

#include "espalier/plan.h"
#include "galvatron/strategy_document.h"

namespace espalier::galvatron {

/// bad_input: the file does not fit model, cluster or training, or says what a plan cannot (strided tensor groups,
/// checkpoint 2). Engine "generic"; the plan is valid. Its hashes and embedded sources stay empty.
Result<Plan> plan_of(const StrategyDocument& document, const Model& model, const Cluster& cluster, const Training& training,
                     SequenceParallel tensor_groups = SequenceParallel::megatron);

/// bad_input: the plan says what the file cannot: experts spread, ZeRO-1, hybrid sharding, virtual stages, zero-bubble
/// schedules, selective recomputation, operator partitions, other rank orders, embedding unlike head, a stage without a
/// block. Layers between the first and the last are taken for blocks.
Result<StrategyDocument> document_of(const Plan& plan);

}  // namespace espalier::galvatron
