// SPDX-License-Identifier: Apache-2.0
// Reads the information of a published record outside its fields: typed values in `extra`, and technique names in its
// text.
//
// A record may list in `techniques` what was used in addition to its degrees. Its text is then ignored.
// scripts/import_runs.py writes that list (and the kind of memory) from the text of a source, with the sentence that
// it rests on. A record as published has no such list. Only its text is searched, for the names of the table below,
// each only in the fields listed for it. The search handles "without torch.compile". A name begins a word:
// "TorchSDPA" does not mean HSDP (record_words.h, says).
//
//   lora       LoRA, QLoRA                    framework, table, notes   only adapters are trained
//   compile    torch.compile, torch compile   framework, table, notes   extra.compile, extra.torch_compile come first
//   hsdp       HSDP                           framework, notes          sharded inside a node, replicated across nodes
//   deepep     DeepEP, HybridEP               notes                     a dispatcher that exists only between
//                                                                       expert-parallel ranks
//   offload    offload                        notes, recompute          also extra.act_cpu_offload,
//                                                                       extra.recipe.cpu_offloading_num_layers
//                                                                       (how many: RunRecord::offloaded_blocks).
//
// The list may also name options of engines (data/engines.yaml). Records as published have these only in extra.recipe
// of Megatron-Bridge:
//
//   flex-dispatcher    moe_flex_dispatcher_backend: deepep, hybridep
//   overlap-experts    moe_a2a_overlap: true
//   moe-graphs         cuda_graph_impl: transformer_engine, attn and moe_router in cuda_graph_scope
//                      (without attn they replay only the router)
//   cuda-graphs        cuda_graph_impl: full_iteration
//   fused-experts      cuda_graph_impl: full_iteration, or cutedsl_fused_grouped_mlp: true
#pragma once

#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/measured_runs.h"

namespace espalier::runs {

/// Holds the text of a record that is searched for techniques.
struct Remarks {
  std::string framework, table, notes, recompute;
};

/// Returns the techniques that `names` lists. `unknown` keeps names outside the table.
RunTechniques listed_techniques(const std::vector<std::string>& names);

/// Returns the techniques of a record without a list, from `text` and from the switches of `extra` (null: none),
/// which come first.
RunTechniques published_techniques(const Remarks& text, const base::Node* extra);

/// Returns "selective:mlp,moe_act" where extra.recipe.recompute_modules of Megatron-Bridge names modules; else empty.
std::string recomputed_modules(const base::Node* extra);

/// Returns the clauses of `notes` about memory; they may name the kind of the peak.
std::string said_of_memory(const std::string& notes);

/// Reads the values of `extra` that have the expected type (docs/file-formats.md lists them); anything else is
/// ignored.
void read_extra(const base::Node* extra, RunRecord& record);

}  // namespace espalier::runs
