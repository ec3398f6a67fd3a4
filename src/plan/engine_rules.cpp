// SPDX-License-Identifier: Apache-2.0
// Defines what each engine cannot run, as a table of rules in addition to those of the space. Rules are named
// PREFIX-NAME, in terms that users of the engine recognise.
//
// There are two kinds. Restrictions belong to this table and read EngineModel, or apply to one family. Mirrors are
// rules of the space under the name that the engine's own check has, so that `check --engine` uses the engine's terms.
#include <algorithm>
#include <array>

#include "base/division.h"
#include "base/format.h"
#include "plan/engine.h"
#include "plan/engine_assertions.h"
#include "plan/engine_rules.h"

namespace espalier {
namespace {

using D = Dimension;
using E = const EngineModel&;
using F = const RuleFacts&;
using S = const Strategy&;
using C = const Schedule&;

bool everyone(E e) { return e.family != EngineFamily::generic; }

// ---- from the fields of EngineModel -------------------------------------------------------------------------------

bool schedule_kind(E e, F, S, C c) { return c.stages == 1 || contains(e.runs.schedules, c.kind); }
std::string schedule_kind_text(E e, F, S, C c) { return cat(e.name, " has no schedule ", to_string(c.kind)); }

/// Returns whether the engine runs the stage. Over one rank nothing is sharded, whatever the stage is called.
bool zero_stage(E e, F, S s, C) { return contains(e.runs.zero, s.zero) || (s.zero == ZeroStage::none && s.data_ranks() == 1); }
std::string zero_stage_text(E e, F, S s, C) { return cat(e.name, " does not run zero ", number_of(s.zero)); }

bool hybrid_shard(E, F, S s, C) { return !s.shards_optimizer() || s.shard == s.data_ranks(); }
std::string hybrid_shard_text(E e, F, S s, C) {
  return cat(e.name, " shards over all ", s.data_ranks(), " data ranks, not over groups of ", s.shard);
}

bool zero_pipeline(E, F, S s, C c) { return !s.shards_gradients() || c.stages == 1; }
std::string zero_pipeline_text(E e, F, S s, C c) {
  return cat(e.name, " does not run zero ", number_of(s.zero), " with pp ", c.stages);
}

bool no_tp(E, F, S s, C) { return s.tp == 1; }
std::string no_tp_text(E e, F, S s, C) { return cat(e.name, " has no tensor parallelism, but tp is ", s.tp); }
bool no_ulysses(E, F, S s, C) { return s.sp != SequenceParallel::ulysses; }
std::string no_ulysses_text(E e, F, S, C) { return cat(e.name, " has no sp ulysses"); }
bool no_cp(E, F, S s, C) { return s.cp == 1; }
std::string no_cp_text(E e, F, S s, C) { return cat(e.name, " has no context parallelism, but cp is ", s.cp); }
bool cp_kind(E e, F, S s, C) { return s.cp == 1 || contains(e.runs.cp_kinds, s.cp_kind); }
std::string cp_kind_text(E e, F, S s, C) { return cat(e.name, " has no cp_kind ", to_string(s.cp_kind)); }
bool no_pp(E, F, S, C c) { return c.stages == 1; }
std::string no_pp_text(E e, F, S, C c) { return cat(e.name, " has no pipeline parallelism, but pp is ", c.stages); }
bool no_frozen(E, F f, S, C) { return !f.freezes; }
std::string no_frozen_text(E e, F, S, C) { return cat(e.name, " trains all weights: no adapters, no frozen parts"); }
bool no_packs(E, F f, S, C) { return !f.packs; }
bool no_loops(E, F f, S, C) { return f.experts.empty(); }
std::string no_loops_text(E e, F, S, C) {
  return cat(
      e.name,
      " runs experts one after another, measured as 9 to 35 times slower than grouped matrix products, and is not predicted; ",
      e.name, "+grouped-experts is for code that groups them");
}
std::string no_packs_text(E e, F, S, C) {
  return cat(e.name, " does not pack sequences with attention limited to each sequence");
}
/// Returns whether the optimizer alone stays on the device. Offload of parameters includes the optimizer and has
/// its own rule.
bool no_offload(E, F, S s, C) { return !offloads_optimizer(s.offload) || offloads_parameters(s.offload); }
std::string no_offload_text(E e, F, S, C) { return cat(e.name, " keeps optimizer state on the device"); }
bool limits_parameter_offload(E e) {
  return !e.runs.offload_parameters || !e.runs.zero_with_pipeline || e.family == EngineFamily::torchtitan;
}
/// Returns whether the engine can offload parameters. This belongs to ZeRO 3 and also works with one data rank,
/// except in torchtitan.
bool parameter_offload(E e, F, S s, C c) {
  if (!offloads_parameters(s.offload)) return true;
  if (!e.runs.offload_parameters || (c.stages > 1 && !e.runs.zero_with_pipeline)) return false;
  return e.family != EngineFamily::torchtitan || s.shards_parameters();
}
std::string parameter_offload_text(E e, F, S s, C c) {
  if (!e.runs.offload_parameters) return cat(e.name, " keeps parameters on the device");
  return cat(e.name, " offloads parameters only under its zero 3, but zero is ", number_of(s.zero), " and pp ", c.stages);
}
/// Returns whether CUDA graphs replay kernels. They and offload of activations exclude each other in
/// Megatron's TransformerConfig.
bool replays_graphs(E e) { return e.kernels.graphed_launches < 1 || e.kernels.host_launches <= 0; }
bool activation_offload(E e, F f, S s, C c) {
  if (!offloads_activations(s.offload)) return true;
  switch (e.runs.offload_activations) {
    case ActivationOffload::none: return false;
    case ActivationOffload::any: return true;
    case ActivationOffload::checkpoints: return s.recompute.kind == RecomputeKind::full;
    case ActivationOffload::one_pipeline:
      return c.stages == 1 && s.recompute.kind == RecomputeKind::none && f.blocks > 1 && !replays_graphs(e);
  }
  return false;
}
std::string activation_offload_text(E e, F f, S s, C c) {
  switch (e.runs.offload_activations) {
    case ActivationOffload::checkpoints:
      return cat(e.name, " offloads only the inputs of recomputed blocks, but recompute is ", to_string(s.recompute.kind));
    case ActivationOffload::one_pipeline:
      if (replays_graphs(e)) return cat(e.name, " offloads no activations of CUDA graphs");
      if (f.blocks <= 1) return cat(e.name, " keeps one block on the device, but the number of blocks is ", f.blocks);
      return cat(e.name, " offloads activations only without pipeline and recomputation, but pp is ", c.stages, " and recompute ",
                 to_string(s.recompute.kind));
    default: return cat(e.name, " keeps activations on the device");
  }
}
bool offload_zero(E, F, S s, C) { return !offloads_optimizer(s.offload) || s.shards_optimizer() || s.data_ranks() == 1; }
std::string offload_zero_text(E, F, S s, C) {
  return cat("states stay on the device with zero 0 over ", s.data_ranks(), " data ranks: only the sharded optimizer moves them");
}
bool no_ep(E, F, S s, C) { return s.ep == 1 && s.etp == 1; }
std::string no_ep_text(E e, F, S s, C) { return cat(e.name, " has no expert parallelism, but ep is ", s.ep, " and etp ", s.etp); }

bool even_stages(E, F f, S, C c) { return f.blocks % chunks_of(c) == 0; }
std::string even_stages_text(E, F f, S, C c) {
  return cat(f.blocks, " blocks are not divisible by pp ", c.stages, " · vpp ", c.virtual_stages);
}
/// Returns whether a layout that names the layers of every stage may put the embedding or the head alone on one.
bool ends_alone(E e, F f) {
  return e.layers.any_stage && !e.layers.blocks_everywhere && e.runs.uneven_stages && f.layers == f.blocks + 2;
}
bool block_a_chunk(E e, F f, S, C c) { return chunks_of(c) <= (ends_alone(e, f) ? f.layers : f.blocks); }
std::string block_a_chunk_text(E, F f, S, C c) {
  return cat("pp ", c.stages, " · vpp ", c.virtual_stages, " = ", chunks_of(c), " chunks, but there are ", f.blocks, " blocks");
}

/// Counts the blocks of the fullest chunk under the engine's split.
std::int64_t fullest_chunk(E e, F f, C c) {
  const std::int64_t chunks = chunks_of(c);
  if (e.split == SplitPolicy::even_blocks || chunks > f.layers) return ceil_div(f.blocks, chunks);
  return f.largest_chunk[static_cast<std::size_t>(chunks)];
}
bool recompute_count(E e, F f, S s, C c) {
  return s.recompute.kind != RecomputeKind::full || s.recompute.layers <= fullest_chunk(e, f, c);
}
std::string recompute_count_text(E e, F f, S s, C c) {
  return cat("full recomputation of ", s.recompute.layers, " blocks per chunk, but with equal stages the fullest has ",
             fullest_chunk(e, f, c));
}
bool whole_recompute(E e, F f, S s, C c) {
  return s.recompute.kind != RecomputeKind::full || s.recompute.layers == fullest_chunk(e, f, c);
}
std::string whole_recompute_text(E e, F f, S s, C c) {
  return cat(e.name, " recomputes all blocks or none, not ", s.recompute.layers, " of ", fullest_chunk(e, f, c));
}
bool no_selective(E, F, S s, C) { return s.recompute.kind != RecomputeKind::selective; }
std::string no_selective_text(E e, F, S, C) { return cat(e.name, " has no selective recomputation"); }

/// Returns the modules that the engine rejects. Megatron rejects modules that its model lacks; other
/// engines ignore them.
RecomputeModules foreign_modules(E e, F f, S s) {
  if (s.recompute.kind != RecomputeKind::selective) return {};
  const RecomputeModules unknown = s.recompute.modules.without(e.runs.recompute_modules);
  return unknown.any() || e.family != EngineFamily::megatron ? unknown : s.recompute.modules.without(f.modules);
}
bool known_modules(E e, F f, S s, C) { return !foreign_modules(e, f, s).any(); }
std::string known_modules_text(E e, F f, S s, C) {
  const RecomputeModules foreign = foreign_modules(e, f, s);
  if (foreign.without(e.runs.recompute_modules).any())
    return cat(e.name, " recomputes ", listed(e.runs.recompute_modules), ", not ", listed(foreign));
  return cat("the model has no ", listed(foreign), "; ", e.name, " recomputes ", listed(e.runs.recompute_modules.both(f.modules)),
             " of it");
}

bool rank_order(E e, F, S s, C) { return contains(e.runs.orders, s.order); }
std::string rank_order_text(E e, F, S s, C) { return cat(e.name, " cannot place ranks in the order ", to_string(s.order)); }

bool no_overlap_grad(E, F, S s, C) { return !s.overlap.grad_reduce; }
bool no_overlap_param(E, F, S s, C) { return !s.overlap.param_gather; }
bool no_overlap_p2p(E, F, S s, C) { return !s.overlap.p2p; }
bool no_overlap_tp(E, F, S s, C) { return !s.overlap.tp; }
bool no_overlap_zero(E, F, S s, C) { return !s.overlap.grad_reduce || !s.shards_optimizer(); }
std::string no_overlap_zero_text(E e, F, S s, C) {
  return cat(e.name, " reduces gradients after the last backward with ZeRO ", number_of(s.zero));
}
std::string no_overlap_text(E e, F, S, C) { return cat(e.name, " cannot overlap this communication with compute"); }

// ---- rules of one family ------------------------------------------------------------------------------------------

/// Checks experts with tensor parallelism. arguments.py asserts it for ep, and the MoE layer for any
/// experts in training.
bool meg_ep(E, F f, S s, C) { return f.experts.empty() || s.tp == 1 || s.sp == SequenceParallel::megatron; }
std::string meg_ep_text(E, F, S s, C) { return cat("experts with tp ", s.tp, " require sp megatron, not ", to_string(s.sp)); }

bool meg_vpp(E, F, S s, C c) { return c.kind != ScheduleKind::interleaved || c.stages > (s.overlap.p2p ? 1 : 2); }
std::string meg_vpp_text(E, F, S, C c) { return cat("interleaving without overlap_p2p needs pp above 2, not ", c.stages); }

bool meg_p2p(E, F, S s, C c) { return !s.overlap.p2p || c.kind == ScheduleKind::interleaved; }
std::string meg_p2p_text(E, F, S, C c) { return cat("overlap_p2p works with interleaving only, not ", to_string(c.kind)); }

/// Checks that expert-DP = world / (etp · ep · pp) equals dp in Megatron, where a dense model counts etp = tp.
bool meg_order(E, F f, S s, C c) {
  if (s.order != RankOrder::tp_cp_pp_dp || c.stages == 1) return true;
  return f.experts.empty() ? s.cp == 1 : s.expert_data_ranks() == s.dp;
}
std::string meg_order_text(E, F f, S s, C) {
  return cat("with order tp-cp-pp-dp the expert data-parallel size, ",
             f.experts.empty() ? std::int64_t{s.cp} * s.dp : s.expert_data_ranks(), ", must equal dp ", s.dp);
}

bool meg_distopt(E, F, S s, C) { return !s.overlap.param_gather || s.overlap.grad_reduce; }
std::string meg_distopt_text(E, F, S, C) { return "overlap_param requires overlap_grad"; }

bool ds_mics(E, F, S s, C) { return !s.shards_optimizer() || s.shards_parameters() || s.shard == s.data_ranks(); }
std::string ds_mics_text(E, F, S s, C) {
  return cat("shard groups of ", s.shard, " among ", s.data_ranks(), " data ranks (MiCS, hpZ) exist for zero 3, not ",
             number_of(s.zero));
}

bool ds_autotp(E, F, S s, C) { return s.weight_tp() == 1 || !s.shards_parameters(); }
std::string ds_autotp_text(E, F, S s, C) {
  return cat("AutoTP with tp ", s.tp, " trains with zero 0, 1 or 2, not ", number_of(s.zero));
}

bool cp_shard(E, F, S s, C) { return s.cp == 1 || (s.shards_gradients() && s.shard % s.cp == 0); }
std::string cp_shard_text(E, F, S s, C) {
  return cat("cp ranks are part of the shard group: zero ", number_of(s.zero), " with shard ", s.shard, " does not hold cp ",
             s.cp);
}

bool tt_ep(E, F, S s, C) { return s.ep == 1 || std::int64_t{s.shard} * s.tp % s.ep == 0; }
std::string tt_ep_text(E, F, S s, C) {
  return cat("ep ", s.ep, " does not divide dp_shard · cp · tp = ", std::int64_t{s.shard} * s.tp);
}

bool nano_m(E, F f, S s, C c) { return microbatches_of(f, s, c) >= c.stages - 1; }
std::string nano_m_text(E, F f, S s, C c) {
  return cat(microbatches_of(f, s, c), " micro-batches, fewer than pp − 1 = ", c.stages - 1);
}

bool ep_overlap(E, F, S s, C c) { return s.ep == 1 || c.stages == 1 || c.kind == ScheduleKind::interleaved; }
std::string ep_overlap_text(E, F, S s, C c) {
  return cat("ep ", s.ep, " with ", c.stages,
             " stages that are not interleaved: a rank has no other micro-batch with which to overlap");
}

constexpr DimensionSet kDataRanks = dimension_set(D::tp, D::sp, D::cp, D::dp);

constexpr std::array kEngineRules = {
    EngineRule{"SCHEDULE", "the engine has the schedule", dimension_set(D::schedule, D::pp), D::schedule, everyone, schedule_kind,
               schedule_kind_text},
    EngineRule{"ZERO", "the engine has the ZeRO stage", dimension_set(D::zero) | kDataRanks, D::zero, everyone, zero_stage,
               zero_stage_text},
    EngineRule{"HYBRID-SHARD", "ZeRO shards over all data ranks", dimension_set(D::zero, D::shard) | kDataRanks, D::shard,
               [](E e) { return !e.runs.hybrid_shard; }, hybrid_shard, hybrid_shard_text},
    EngineRule{"PP-ZERO", "ZeRO 2 and 3 not together with a pipeline", dimension_set(D::zero, D::pp), D::zero,
               [](E e) { return !e.runs.zero_with_pipeline; }, zero_pipeline, zero_pipeline_text},
    EngineRule{"FROZEN", "all weights are trained", 0, D::tp, [](E e) { return !e.runs.frozen_weights; }, no_frozen,
               no_frozen_text},
    EngineRule{"EXPERT-LOOP", "experts of a layer run as grouped products", 0, D::tp,
               [](E e) { return e.kernels.looped_experts; }, no_loops, no_loops_text},
    EngineRule{"PACKED", "a sample is one sequence", 0, D::tp, [](E e) { return !e.runs.packed_sequences; }, no_packs,
               no_packs_text},
    EngineRule{"OFFLOAD", "optimizer state stays on the device", dimension_set(D::offload), D::offload,
               [](E e) { return !e.runs.offload_optimizer; }, no_offload, no_offload_text},
    EngineRule{"OFFLOAD-PARAMETERS", "parameters lie in host memory where the engine can put them there",
               dimension_set(D::offload, D::pp, D::zero), D::offload, limits_parameter_offload, parameter_offload,
               parameter_offload_text},
    EngineRule{"OFFLOAD-ACTIVATIONS", "activations wait in host memory where the engine can put them there",
               dimension_set(D::offload, D::pp, D::recompute), D::offload,
               [](E e) { return e.runs.offload_activations != ActivationOffload::any; }, activation_offload,
               activation_offload_text},
    EngineRule{"OFFLOAD-ZERO", "optimizer state on hosts is sharded over the data ranks",
               dimension_set(D::offload, D::zero, D::dp, D::cp), D::zero,
               [](E e) { return e.runs.offload_optimizer && (is_megatron(e) || e.family == EngineFamily::deepspeed); },
               offload_zero, offload_zero_text},
    EngineRule{"NO-TP", "no tensor parallelism", dimension_set(D::tp), D::tp, [](E e) { return !e.runs.tensor_parallel; }, no_tp,
               no_tp_text},
    EngineRule{"NO-ULYSSES", "no Ulysses sequence parallelism", dimension_set(D::sp), D::sp, [](E e) { return !e.runs.ulysses; },
               no_ulysses, no_ulysses_text},
    EngineRule{"NO-CP", "no context parallelism", dimension_set(D::cp), D::cp, [](E e) { return !e.runs.context_parallel; },
               no_cp, no_cp_text},
    EngineRule{"CP-KIND", "the engine has the kind of context parallelism", dimension_set(D::cp, D::cp_kind), D::cp_kind,
               everyone, cp_kind, cp_kind_text},
    EngineRule{"NO-PP", "no pipeline", dimension_set(D::pp), D::pp, [](E e) { return !e.runs.pipeline; }, no_pp, no_pp_text},
    EngineRule{"NO-EP", "no expert parallelism", dimension_set(D::ep, D::etp), D::ep, [](E e) { return !e.runs.expert_parallel; },
               no_ep, no_ep_text},
    EngineRule{"PP-EVEN", "every chunk has the same number of blocks", dimension_set(D::pp, D::vpp), D::pp,
               [](E e) { return !e.runs.uneven_stages; }, even_stages, even_stages_text},
    EngineRule{"PP-BLOCKS", "every chunk has a block, or the embedding or the head where a layout says so",
               dimension_set(D::pp, D::vpp), D::pp, [](E e) { return e.split == SplitPolicy::even_blocks; }, block_a_chunk,
               block_a_chunk_text},
    EngineRule{"RECOMP-LAYERS", "no more blocks are recomputed than a chunk has",
               dimension_set(D::recompute, D::recompute_layers, D::pp, D::vpp), D::recompute_layers,
               [](E e) { return e.split == SplitPolicy::even_blocks; }, recompute_count, recompute_count_text},
    EngineRule{"RECOMP-ALL", "recomputation is for all blocks or none",
               dimension_set(D::recompute, D::recompute_layers, D::pp, D::vpp), D::recompute_layers,
               [](E e) { return !e.runs.partial_recompute; }, whole_recompute, whole_recompute_text},
    EngineRule{"NO-SELECTIVE", "no selective recomputation", dimension_set(D::recompute), D::recompute,
               [](E e) { return !e.runs.selective_recompute; }, no_selective, no_selective_text},
    EngineRule{"RECOMP-MODULES", "selective recomputation names modules that the engine can run again",
               dimension_set(D::recompute), D::recompute,
               [](E e) { return e.runs.selective_recompute && e.runs.recompute_modules != RecomputeModules::all(); },
               known_modules, known_modules_text},
    EngineRule{"RANK-ORDER", "the engine can place ranks in this order", dimension_set(D::order), D::order, everyone, rank_order,
               rank_order_text},
    EngineRule{"OVERLAP-GRAD", "gradient reduction cannot overlap", dimension_set(D::overlap_grad), D::overlap_grad,
               [](E e) { return !e.runs.fused_bucket_overlap; }, no_overlap_grad, no_overlap_text},
    EngineRule{"OVERLAP-ZERO", "gradient reduction overlaps without ZeRO only", dimension_set(D::overlap_grad, D::zero),
               D::overlap_grad, [](E e) { return !e.runs.zero_grad_overlap; }, no_overlap_zero, no_overlap_zero_text},
    EngineRule{"OVERLAP-PARAM", "parameter gathering cannot overlap", dimension_set(D::overlap_param), D::overlap_param,
               [](E e) { return !e.runs.overlap_param_gather; }, no_overlap_param, no_overlap_text},
    EngineRule{"OVERLAP-P2P", "pipeline sends cannot overlap", dimension_set(D::overlap_p2p), D::overlap_p2p,
               [](E e) { return !e.runs.overlap_p2p; }, no_overlap_p2p, no_overlap_text},
    EngineRule{"OVERLAP-TP", "tensor-parallel collectives cannot overlap", dimension_set(D::overlap_tp), D::overlap_tp,
               [](E e) { return !e.runs.overlap_tp; }, no_overlap_tp, no_overlap_text},
    EngineRule{"EP", "experts with TP require Megatron's sequence parallelism", dimension_set(D::tp, D::sp), D::sp, is_megatron,
               meg_ep, meg_ep_text},
    EngineRule{"VPP", "interleaving needs PP > 1, or PP > 2 without overlapped p2p",
               dimension_set(D::schedule, D::pp, D::overlap_p2p), D::overlap_p2p, is_megatron, meg_vpp, meg_vpp_text},
    EngineRule{"EP-OVERLAP", "overlapped all-to-alls of experts need one stage or interleaving",
               dimension_set(D::ep, D::pp, D::schedule), D::schedule,
               [](E e) { return e.family == EngineFamily::megatron && e.communication.overlaps_experts; }, ep_overlap,
               ep_overlap_text},
    EngineRule{"P2P", "p2p overlap goes with interleaving only", dimension_set(D::schedule, D::overlap_p2p), D::overlap_p2p,
               is_megatron, meg_p2p, meg_p2p_text},
    EngineRule{"ORDER", "an order that does not end in pp needs expert-DP equal to DP when PP > 1",
               dimension_set(D::order, D::pp, D::tp, D::cp, D::dp, D::ep, D::etp), D::order, is_megatron, meg_order,
               meg_order_text},
    EngineRule{"DISTOPT", "overlapped parameter gathering requires overlapped gradient reduction",
               dimension_set(D::overlap_param, D::overlap_grad), D::overlap_grad, is_megatron, meg_distopt, meg_distopt_text},
    EngineRule{"MICS", "shard groups smaller than the data ranks need ZeRO 3", dimension_set(D::zero, D::shard) | kDataRanks,
               D::zero, [](E e) { return e.family == EngineFamily::deepspeed || e.family == EngineFamily::megatron_deepspeed; },
               ds_mics, ds_mics_text},
    EngineRule{"AUTOTP", "AutoTP trains with ZeRO 0, 1 or 2", dimension_set(D::tp, D::sp, D::zero), D::zero,
               [](E e) { return e.family == EngineFamily::deepspeed; }, ds_autotp, ds_autotp_text},
    EngineRule{"CP-SHARD", "context-parallel ranks are part of the shard group", dimension_set(D::cp, D::zero, D::shard),
               D::shard, [](E e) { return e.family == EngineFamily::fsdp || e.family == EngineFamily::torchtitan; }, cp_shard,
               cp_shard_text},
    EngineRule{"EP", "EP divides dp_shard · cp · tp", dimension_set(D::ep, D::shard, D::tp), D::ep,
               [](E e) { return e.family == EngineFamily::torchtitan; }, tt_ep, tt_ep_text},
    EngineRule{"M", "at least PP − 1 micro-batches", dimension_set(D::pp, D::micro_batch, D::dp), D::micro_batch,
               [](E e) { return e.family == EngineFamily::nanotron; }, nano_m, nano_m_text},
};

// ---- mirrors ------------------------------------------------------------------------------------------------------

struct Mirror {
  EngineFamily family;
  std::string_view name;     ///< name without prefix
  std::string_view generic;  ///< rule of the space
};
constexpr std::array kMirrors = {
    Mirror{EngineFamily::megatron, "WORLD", "world"},
    Mirror{EngineFamily::megatron, "EXPERT-GRID", "expert-grid"},
    Mirror{EngineFamily::megatron, "GBS", "divide-batch"},
    Mirror{EngineFamily::megatron, "HEADS", "divide-heads"},
    Mirror{EngineFamily::megatron, "HEADS", "divide-kv-heads"},
    Mirror{EngineFamily::megatron, "SEQ-CP", "divide-sequence-cp"},
    Mirror{EngineFamily::megatron, "SEQ-SP", "divide-sequence-sp"},
    Mirror{EngineFamily::megatron, "EP", "divide-experts"},
    Mirror{EngineFamily::megatron, "EP", "experts-needed"},
    Mirror{EngineFamily::megatron, "SP", "sp-needs-tp"},
    Mirror{EngineFamily::megatron, "VPP-M", "interleaved-batch"},
    Mirror{EngineFamily::megatron, "TPOVL", "overlap-tp"},
    Mirror{EngineFamily::megatron, "DISTOPT", "overlap-param"},
    Mirror{EngineFamily::megatron_deepspeed, "BATCH", "divide-batch"},
    Mirror{EngineFamily::deepspeed, "BATCH", "divide-batch"},
    Mirror{EngineFamily::deepspeed, "HEADS", "divide-heads"},
    Mirror{EngineFamily::torchtitan, "WORLD", "world"},
    Mirror{EngineFamily::torchtitan, "STAGES", "virtual-stages"},
};

std::string_view prefix(EngineFamily family) {
  switch (family) {
    case EngineFamily::generic: return "GEN-";
    case EngineFamily::megatron: return "MEG-";
    case EngineFamily::megatron_deepspeed:
    case EngineFamily::deepspeed: return "DS-";
    case EngineFamily::fsdp: return "FSDP-";
    case EngineFamily::torchtitan: return "TT-";
    case EngineFamily::nanotron: return "NANO-";
    case EngineFamily::galvatron: return "GAL-";
    case EngineFamily::espalier: return "ESP-";
  }
  return "";
}

void add_mirrors(E engine, F facts, S strategy, C schedule, std::vector<RuleViolation>& out) {
  const bool relevant = std::any_of(kMirrors.begin(), kMirrors.end(), [&](const Mirror& m) { return m.family == engine.family; });
  if (!relevant) return;
  for (RuleViolation& broken : violations(facts, strategy, schedule)) {
    for (const Mirror& mirror : kMirrors) {
      if (mirror.family != engine.family || mirror.generic != broken.rule) continue;
      out.push_back({cat(prefix(engine.family), mirror.name), broken.text, broken.hint});
    }
  }
}

}  // namespace

std::span<const EngineRule> engine_rules() {
  static const std::vector<EngineRule> rules = [] {
    std::vector<EngineRule> all(kEngineRules.begin(), kEngineRules.end());
    all.insert(all.end(), asserted_rules().begin(), asserted_rules().end());
    return all;
  }();
  return rules;
}

bool engine_allows(const EngineModel& engine, const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule) {
  for (const EngineRule& rule : engine_rules()) {
    if (rule.applies(engine) && !rule.holds(engine, facts, strategy, schedule)) return false;
  }
  return true;
}

std::vector<RuleViolation> engine_violations(const EngineModel& engine, const RuleFacts& facts, const Strategy& strategy,
                                             const Schedule& schedule) {
  std::vector<RuleViolation> out;
  const Rule& guard = rules().front();  // degrees-positive: the other predicates divide by the degrees
  if (!guard.holds(facts, strategy, schedule)) return violations(facts, strategy, schedule);
  add_mirrors(engine, facts, strategy, schedule, out);
  for (const EngineRule& rule : engine_rules()) {
    if (!rule.applies(engine) || rule.holds(engine, facts, strategy, schedule)) continue;
    const auto holds = [&](const Strategy& s, const Schedule& c) { return rule.holds(engine, facts, s, c); };
    out.push_back({cat(prefix(engine.family), rule.name), rule.text(engine, facts, strategy, schedule),
                   nearest_legal(facts, strategy, schedule, rule.reads, rule.fix, holds)});
  }
  return out;
}

std::vector<RuleViolation> engine_violations(const EngineModel& engine, const Model& model, const Cluster& cluster,
                                             const Training& training, const Strategy& strategy, const Schedule& schedule) {
  return engine_violations(engine, rule_facts(model, cluster, training, chunks_of(schedule), engine.split), strategy, schedule);
}

namespace {

/// Returns whether the engine requires equal shares. If all layers must be alike, so must all replicas, on every
/// device of the cluster.
bool has_shares(const EngineModel& engine) { return engine.family != EngineFamily::generic && !is_unrestricted(engine.layers); }

bool unequal_shares(const Plan& plan) {
  return std::any_of(plan.pipelines.begin(), plan.pipelines.end(), [](const Pipeline& pipeline) {
    return std::any_of(pipeline.stages.begin(), pipeline.stages.end(), [](const Stage& s) { return uneven_replicas(s); });
  });
}

}  // namespace

std::vector<RuleViolation> engine_plan_violations(const EngineModel& engine, const Model& model, const Plan& plan) {
  std::vector<RuleViolation> out;
  if (!engine.runs.listed_devices && !devices_in_order(plan))
    out.push_back({cat(prefix(engine.family), "DEVICES"), "a stage lists its devices in a custom order", ""});
  for (const std::string& fault : layer_faults(engine.layers, model, plan))
    out.push_back({cat(prefix(engine.family), "LAYERS"), fault, ""});
  if (has_shares(engine) && unequal_shares(plan))
    out.push_back({cat(prefix(engine.family), "SHARES"), "replicas have unequal shares of samples or states", ""});
  return out;
}

std::vector<std::pair<std::string, std::string>> engine_rule_catalogue(const EngineModel& engine) {
  std::vector<std::pair<std::string, std::string>> catalogue;
  for (const Mirror& mirror : kMirrors) {
    if (mirror.family != engine.family) continue;
    catalogue.emplace_back(cat(prefix(engine.family), mirror.name), std::string(find_rule(mirror.generic)->sentence));
  }
  for (const EngineRule& rule : engine_rules()) {
    if (rule.applies(engine)) catalogue.emplace_back(cat(prefix(engine.family), rule.name), rule.sentence);
  }
  if (!engine.runs.listed_devices)
    catalogue.emplace_back(cat(prefix(engine.family), "DEVICES"), "ranks run on the devices that the rank order gives them");
  if (!is_unrestricted(engine.layers)) catalogue.emplace_back(cat(prefix(engine.family), "LAYERS"), to_string(engine.layers));
  if (has_shares(engine)) {
    catalogue.emplace_back(cat(prefix(engine.family), "SHARES"), "replicas have equal shares of samples and states");
    catalogue.emplace_back(cat(prefix(engine.family), "ALL-DEVICES"), "all devices of the cluster are used");
  }
  return catalogue;
}

}  // namespace espalier
