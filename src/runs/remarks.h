// SPDX-License-Identifier: Apache-2.0
// What a published record says outside its fields: typed values in `extra`, and technique names in its text.
//
// A record states by `techniques` what was done beside its degrees; then its text means nothing. scripts/import_runs.py
// writes that list (and the kind of memory) from what a source prints, with the sentence it stands on. A record as
// published has no such list: of those alone the text is searched, for the names of the table below, each in the fields
// named beside it and nowhere else. "without torch.compile" is understood, and a name begins a word: "TorchSDPA" does
// not say HSDP (record_words.h, says).
//
//   lora       LoRA, QLoRA                    framework, table, notes     adapters alone are trained
//   compile    torch.compile, torch compile   framework, table, notes     extra.compile and extra.torch_compile come first
//   hsdp       HSDP                           framework, notes            sharded inside a node, replicated across nodes
//   deepep     DeepEP, HybridEP               notes                       a dispatcher that exists only between expert-parallel ranks
//   offload    offload                        notes, recompute            also extra.act_cpu_offload, extra.recipe.cpu_offloading_num_layers (how many
//                                                                         blocks: RunRecord::offloaded_blocks)
// The list may also name options of engines (data/engines.yaml). Records as published say these by extra.recipe of
// Megatron-Bridge alone:
//
//   flex-dispatcher    moe_flex_dispatcher_backend: deepep, hybridep      overlap-experts   moe_a2a_overlap: true
//   moe-graphs         cuda_graph_impl: transformer_engine, attn and moe_router in cuda_graph_scope (without attn they
//                      replay the router alone)
//   cuda-graphs        cuda_graph_impl: full_iteration                    fused-experts     the same, or cutedsl_fused_grouped_mlp: true
#pragma once

#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/measured_runs.h"

namespace espalier::runs {

/// The text of a record in which techniques are looked for.
struct Remarks {
  std::string framework, table, notes, recompute;
};

/// The techniques that `names` lists. A name that is not of the table is kept in `unknown`.
RunTechniques listed_techniques(const std::vector<std::string>& names);

/// The techniques of a record without a list: `text`, and the switches of `extra` (null: none), which come first.
RunTechniques published_techniques(const Remarks& text, const base::Node* extra);

/// "selective:mlp,moe_act" where extra.recipe.recompute_modules of Megatron-Bridge names modules; else empty.
std::string recomputed_modules(const base::Node* extra);

/// The clauses of `notes` that speak of memory; they may name the kind of the peak.
std::string said_of_memory(const std::string& notes);

/// Takes from `extra` what is there in the expected type (docs/file-formats.md lists it); anything else is nobody's
/// business.
void read_extra(const base::Node* extra, RunRecord& record);

}  // namespace espalier::runs
