// SPDX-License-Identifier: Apache-2.0
#include "plan/engine_assertions.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "plan/layer_freedom.h"

namespace espalier {
namespace {

using D = Dimension;
using E = const EngineModel&;
using F = const RuleFacts&;
using S = const Strategy&;
using C = const Schedule&;

bool is_deepspeed(E e) { return e.family == EngineFamily::deepspeed; }
bool is_megatron_deepspeed(E e) { return e.family == EngineFamily::megatron_deepspeed; }

// ---- the problem --------------------------------------------------------------------------------------------------

bool trains_model(E e, F f, S, C) { return f.family.empty() || contains(e.model_types, f.family); }
std::string trains_model_text(E e, F f, S, C) {
  return cat(e.base, " has no model of type ", f.family, "; it has ", base::joined(e.model_types));
}

bool has_precision(E e, F f, S, C) { return contains(e.runs.precisions, f.precision); }
std::string has_precision_text(E e, F f, S, C) {
  std::vector<std::string> known;
  for (const Precision p : e.runs.precisions) known.emplace_back(to_string(p));
  return cat(e.base, " trains in ", base::joined(known), ", not in ", to_string(f.precision));
}

bool short_sequence(E, F f, S, C) { return f.context_length == 0 || f.tokens <= f.context_length; }
std::string short_sequence_text(E e, F f, S, C) {
  return cat(f.tokens, " tokens per sequence, but ", e.base, " takes at most the ", f.context_length, " of the model");
}

bool equal_nodes(E, F f, S, C) { return f.node_sizes.size() <= 1; }
std::string equal_nodes_text(E e, F f, S, C) {
  std::string sizes;
  for (const std::int64_t size : f.node_sizes) sizes += cat(sizes.empty() ? "nodes of " : " and of ", size);
  return cat(e.base, " starts the same number of processes on every node, but there are ", sizes, " devices");
}

// ---- degrees ------------------------------------------------------------------------------------------------------

bool whole_experts(E, F, S s, C) { return s.etp == 1; }
std::string whole_experts_text(E e, F, S s, C) {
  return cat(e.base, " has no tensor parallelism inside experts, but etp is ", s.etp);
}

bool no_megatron_sequence(E, F, S s, C) { return s.sp != SequenceParallel::megatron; }
std::string no_megatron_sequence_text(E e, F, S, C) { return cat(e.base, " has no sp megatron"); }

bool divides_kv_heads(E, F f, S s, C) {
  return s.weight_tp() == 1 ||
         std::all_of(f.heads.begin(), f.heads.end(), [&](const HeadFacts& h) { return h.kv_heads % s.tp == 0; });
}
std::string divides_kv_heads_text(E e, F f, S s, C) {
  for (const HeadFacts& h : f.heads)
    if (h.kv_heads % s.tp != 0)
      return cat("tp ", s.tp, " does not divide ", h.kv_heads, " key-value heads, which ", e.base, " does not copy");
  return "";
}

/// Returns whether the first stage can hold the towers, which belong to it whatever the layout states.
bool tower_first(E, F f, S, C c) {
  const std::int64_t chunks = std::int64_t{c.stages} * c.virtual_stages;
  return chunks == 1 || f.first_blocks <= f.blocks / chunks;
}
std::string tower_first_text(E e, F f, S, C c) {
  return cat(e.base, " builds all ", f.first_blocks, " blocks of the encoder on the first stage, and each of ", c.stages,
             " stages has ", f.blocks / (std::int64_t{c.stages} * c.virtual_stages), " blocks");
}

bool whole_operators(E, F, S s, C) { return s.partition.empty(); }
std::string whole_operators_text(E e, F, S, C) { return cat(e.base, " does not split operators in space and time"); }

// ---- states and communication -------------------------------------------------------------------------------------

bool offloads_adam(E, F f, S s, C) { return !offloads_optimizer(s.offload) || f.adam; }
std::string offloads_adam_text(E e, F, S, C) { return cat(e.base, " has only Adam on the host"); }

/// Returns whether the engine is FSDP1, whose flat parameters do not support tensor parallelism.
bool is_fsdp1(E e) { return e.family == EngineFamily::fsdp && e.runs.offload_parameters && !e.runs.tensor_parallel; }
bool one_microbatch(E, F f, S s, C c) { return !offloads_parameters(s.offload) || microbatches_of(f, s, c) == 1; }
std::string one_microbatch_text(E e, F f, S s, C c) {
  return cat(e.base, " with parameters on the host keeps the gradients of only one of ", microbatches_of(f, s, c),
             " micro-batches");
}

bool overlaps_always(E e, F f, S s, C c) { return s.overlap == always_overlapped(e, f, s, c); }
std::string overlaps_always_text(E e, F f, S s, C c) {
  const Overlap all = always_overlapped(e, f, s, c);
  const auto word = [](bool on) { return on ? "on" : "off"; };
  return cat(e.base, " has no switch for this: overlap_grad is ", word(all.grad_reduce), ", overlap_param ",
             word(all.param_gather), ", overlap_p2p ", word(all.p2p));
}

bool one_overlap(E, F, S s, C) {
  if (s.shards_parameters()) return s.overlap.grad_reduce == s.overlap.param_gather;
  return !s.overlap.param_gather;
}
std::string one_overlap_text(E, F, S s, C) {
  return s.shards_parameters()
             ? "overlap_comm switches both overlap_grad and overlap_param under zero 3"
             : cat("parameters are gathered after the update with zero ", number_of(s.zero), ", but overlap_param is on");
}

bool ulysses_alone(E, F, S s, C c) { return s.sp != SequenceParallel::ulysses || c.stages == 1; }
std::string ulysses_alone_text(E, F, S, C c) {
  return cat("sp ulysses needs a run without tensor parallelism and without a pipeline, but pp is ", c.stages);
}

bool experts_unstaged(E, F f, S, C c) { return f.experts.empty() || c.stages == 1; }
std::string experts_unstaged_text(E, F, S, C c) {
  return cat("a model with experts cannot run with a pipeline, but pp is ", c.stages);
}

constexpr std::array kAssertedRules = {
    EngineRule{"MODEL", "the engine has the model's type", 0, D::tp, [](E e) { return !e.model_types.empty(); }, trains_model,
               trains_model_text},
    EngineRule{"PRECISION", "the engine trains in the precision", 0, D::tp,
               [](E e) { return e.runs.precisions.size() < static_cast<std::size_t>(kPrecisions); }, has_precision,
               has_precision_text},
    EngineRule{"CONTEXT", "a sequence is no longer than the model's context length", 0, D::tp,
               [](E e) { return !e.runs.beyond_context; }, short_sequence, short_sequence_text},
    EngineRule{"NODE-SIZE", "all nodes have as many devices", 0, D::tp,
               [](E e) { return e.family != EngineFamily::generic && !is_unrestricted(e.layers); }, equal_nodes,
               equal_nodes_text},
    EngineRule{"NO-ETP", "no tensor parallelism inside experts", dimension_set(D::etp), D::etp,
               [](E e) { return e.runs.expert_parallel && !e.runs.expert_tensor_parallel; }, whole_experts, whole_experts_text},
    EngineRule{"NO-SP", "no sequence parallelism of Megatron's kind", dimension_set(D::sp), D::sp,
               [](E e) { return !e.runs.megatron_sequence; }, no_megatron_sequence, no_megatron_sequence_text},
    EngineRule{"KV-HEADS", "tp divides the key-value heads", dimension_set(D::tp, D::sp), D::tp,
               [](E e) { return e.runs.tensor_parallel && !e.runs.copies_kv_heads; }, divides_kv_heads, divides_kv_heads_text},
    EngineRule{"NO-PARTITION", "operators are not split in space and time", dimension_set(D::tp), D::tp,
               [](E e) { return e.family != EngineFamily::generic && !e.runs.operator_partitions; }, whole_operators,
               whole_operators_text},
    EngineRule{"TOWER", "encoders of images and sound are part of the first stage", dimension_set(D::pp, D::vpp), D::pp,
               is_megatron, tower_first, tower_first_text},
    EngineRule{"OFFLOAD-ADAM", "optimizer state on hosts is that of Adam", dimension_set(D::offload), D::offload,
               [](E e) { return is_megatron(e) && e.runs.offload_optimizer; }, offloads_adam, offloads_adam_text},
    EngineRule{"OFFLOAD-STEP", "a step is one micro-batch where parameters lie in host memory",
               dimension_set(D::offload, D::micro_batch, D::dp), D::micro_batch, is_fsdp1, one_microbatch, one_microbatch_text},
    EngineRule{"OVERLAP-ALWAYS", "what overlaps is not switched off",
               dimension_set(D::overlap_grad, D::overlap_param, D::overlap_p2p, D::zero, D::tp, D::sp) |
                   dimension_set(D::cp, D::dp, D::ep, D::etp, D::pp),
               D::overlap_grad, [](E e) { return !e.runs.chooses_overlap; }, overlaps_always, overlaps_always_text},
    EngineRule{"OVERLAP-COMM", "gradients and parameters overlap together under ZeRO 3, gradients alone below it",
               dimension_set(D::overlap_grad, D::overlap_param, D::zero), D::overlap_param, is_deepspeed, one_overlap,
               one_overlap_text},
    EngineRule{"ULYSSES", "Ulysses runs without a pipeline", dimension_set(D::sp, D::pp), D::sp, is_megatron_deepspeed,
               ulysses_alone, ulysses_alone_text},
    EngineRule{"MOE-PP", "experts run without a pipeline", dimension_set(D::pp), D::pp, is_megatron_deepspeed, experts_unstaged,
               experts_unstaged_text},
};

}  // namespace

bool is_megatron(const EngineModel& engine) { return engine.family == EngineFamily::megatron; }

std::span<const EngineRule> asserted_rules() { return kAssertedRules; }

Overlap always_overlapped(const EngineModel& engine, const RuleFacts& facts, const Strategy& s, const Schedule& schedule) {
  const EngineRuns& runs = engine.runs;
  const bool one_stage = engine.family == EngineFamily::galvatron;  // it gathers only under ZeRO 3
  Overlap out = s.overlap;
  out.grad_reduce = runs.fused_bucket_overlap && (runs.zero_grad_overlap || !s.shards_optimizer()) &&
                    replicates_weights(!facts.experts.empty() && !one_stage, s);
  out.param_gather = runs.overlap_param_gather && (one_stage ? s.shards_parameters() : s.shards_optimizer());
  out.p2p = runs.overlap_p2p && schedule.stages > 1;
  return out;
}

}  // namespace espalier
