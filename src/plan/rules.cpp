// SPDX-License-Identifier: Apache-2.0
// Defines the rule table of the uniform space: predicates first (integers only), then the sentences that explain them.
#include "plan/rules.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/division.h"
#include "base/format.h"
#include "base/invariant.h"
#include "plan/operator_partition.h"

namespace espalier {
namespace {

using D = Dimension;
using F = const RuleFacts&;
using S = const Strategy&;
using C = const Schedule&;

/// Returns the product of positive numbers, saturated at the largest int64.
std::int64_t product(std::initializer_list<std::int64_t> factors) {
  std::int64_t result = 1;
  for (const std::int64_t f : factors) {
    if (__builtin_mul_overflow(result, f, &result)) return std::numeric_limits<std::int64_t>::max();
  }
  return result;
}

template <class Values, class Predicate>
bool all(const Values& values, Predicate predicate) {
  return std::all_of(values.begin(), values.end(), predicate);
}
/// Returns the first value that fails `predicate`, or the first of all (only called if one fails).
template <class Values, class Predicate>
const auto& offender(const Values& values, Predicate predicate) {
  const auto it = std::find_if_not(values.begin(), values.end(), predicate);
  return it == values.end() ? values.front() : *it;
}

// ---- sizes --------------------------------------------------------------------------------------------------------

constexpr std::array kCounts = {D::pp, D::vpp, D::tp, D::cp, D::ep, D::etp, D::dp, D::shard};

bool degrees_positive(F, S s, C c) {
  return std::min({c.stages, c.virtual_stages, s.tp, s.cp, s.ep, s.etp, s.dp, s.shard, c.micro_batch}) >= 1 &&
         std::max({c.stages, c.virtual_stages, s.tp, s.cp, s.ep, s.etp, s.dp, s.shard}) <= kMaxDegree;
}
std::string degrees_positive_text(F, S s, C c) {
  for (const D d : kCounts) {
    const std::int64_t value = get(d, s, c);
    if (value < 1 || value > kMaxDegree) return cat(to_string(d), " is ", value, ", outside 1 … ", kMaxDegree);
  }
  return cat("micro_batch is ", c.micro_batch, ", below 1");
}

bool world(F f, S s, C c) { return product({s.tp, s.cp, s.dp, c.stages}) == f.devices; }
std::string world_text(F f, S s, C c) {
  return cat("tp ", s.tp, " · cp ", s.cp, " · dp ", s.dp, " · pp ", c.stages, " = ", product({s.tp, s.cp, s.dp, c.stages}),
             " ranks, but the cluster has ", f.devices, " devices");
}

bool divide_batch(F f, S s, C c) {
  const std::int64_t m = microbatches_of(f, s, c);
  return m >= 1 && m == c.microbatches;
}
std::string divide_batch_text(F f, S s, C c) {
  const std::int64_t step = product({c.micro_batch, s.dp});
  if (microbatches_of(f, s, c) >= 1) {
    return cat(c.microbatches, " micro-batches · micro_batch ", c.micro_batch, " · dp ", s.dp, " = ",
               product({std::max(c.microbatches, 0), step}), ", but the global batch is ", f.global_batch);
  }
  return cat("micro_batch ", c.micro_batch, " · dp ", s.dp, " = ", step, " does not divide the global batch ", f.global_batch);
}

// ---- divisibility of a model --------------------------------------------------------------------------------------

/// Counts the ranks that share the heads inside attention.
std::int64_t head_ways(S s) { return std::int64_t{s.tp} * (s.cp_kind == ContextParallelKind::all_to_all ? s.cp : 1); }
std::string head_ways_text(S s) {
  return s.cp_kind == ContextParallelKind::all_to_all && s.cp > 1 ? cat("tp ", s.tp, " · cp ", s.cp, " (all-to-all)")
                                                                  : cat("tp ", s.tp);
}
bool heads_divide(const HeadFacts& h, std::int64_t ways) { return h.heads % ways == 0; }
bool kv_heads_divide(const HeadFacts& h, std::int64_t ways) {
  if (h.kv_heads == h.heads) return true;  // without grouping the rule divide-heads applies
  return h.kv_heads % ways == 0 || (h.kv_heads > 0 && ways % h.kv_heads == 0);
}

bool divide_heads(F f, S s, C) {
  const std::int64_t ways = head_ways(s);
  return all(f.heads, [ways](const HeadFacts& h) { return heads_divide(h, ways); });
}
std::string divide_heads_text(F f, S s, C) {
  const std::int64_t ways = head_ways(s);
  const HeadFacts& h = offender(f.heads, [ways](const HeadFacts& x) { return heads_divide(x, ways); });
  return cat(h.heads, " heads are not divisible by ", head_ways_text(s));
}

bool divide_kv_heads(F f, S s, C) {
  const std::int64_t ways = head_ways(s);
  return all(f.heads, [ways](const HeadFacts& h) { return kv_heads_divide(h, ways); });
}
std::string divide_kv_heads_text(F f, S s, C) {
  const std::int64_t ways = head_ways(s);
  const HeadFacts& h = offender(f.heads, [ways](const HeadFacts& x) { return kv_heads_divide(x, ways); });
  return cat(h.kv_heads, " key/value heads are neither a multiple nor a divisor of ", head_ways_text(s));
}

bool divide_ffn(F f, S s, C) {
  const std::int64_t ways = s.weight_tp();
  return all(f.split_widths, [ways](std::int64_t w) { return w % ways == 0; });
}
std::string divide_ffn_text(F f, S s, C) {
  const std::int64_t ways = s.weight_tp();
  const char* what = f.scans ? "a linear layer's width, or a scan's number of heads or groups, of " : "a linear layer of width ";
  return cat(what, offender(f.split_widths, [ways](std::int64_t w) { return w % ways == 0; }), " is not divisible by tp ", s.tp);
}

/// Returns the parts of the sequence. Ring with a causal mask gives each rank two slices, one early and one late, so
/// that all work alike (zig-zag).
std::int64_t sequence_ways(const SequenceFacts& q, S s) {
  if (s.cp == 1) return 1;
  return s.cp_kind == ContextParallelKind::ring && q.causal ? 2 * std::int64_t{s.cp} : s.cp;
}
bool divide_cp_sequence(F f, S s, C) {
  return all(f.sequences, [&s](const SequenceFacts& q) { return q.tokens % sequence_ways(q, s) == 0; });
}
std::string divide_cp_sequence_text(F f, S s, C) {
  const SequenceFacts& q = offender(f.sequences, [&s](const SequenceFacts& x) { return x.tokens % sequence_ways(x, s) == 0; });
  return cat("sequence ", q.tokens, " is not divisible by ", sequence_ways(q, s) > s.cp ? "2 · cp " : "cp ", s.cp);
}

bool tokens_divide_sp(const SequenceFacts& q, S s) { return q.tokens % (std::int64_t{s.cp} * s.tp) == 0; }
bool divide_sp_sequence(F f, S s, C) {
  return s.sp == SequenceParallel::none || all(f.sequences, [&s](const SequenceFacts& q) { return tokens_divide_sp(q, s); });
}
std::string divide_sp_sequence_text(F f, S s, C) {
  const SequenceFacts& q = offender(f.sequences, [&s](const SequenceFacts& x) { return tokens_divide_sp(x, s); });
  return cat("sp ", to_string(s.sp), " splits sequence ", q.tokens, " over ",
             s.cp > 1 ? cat("cp ", s.cp, " · tp ", s.tp) : cat("tp ", s.tp), ", which does not divide it");
}

// ---- kinds of parallelism -----------------------------------------------------------------------------------------

bool sp_needs_tp(F, S s, C) { return s.sp == SequenceParallel::none || s.tp > 1; }
std::string sp_needs_tp_text(F, S s, C) { return cat("sp ", to_string(s.sp), " works inside the tp group, but tp is 1"); }

bool cp_kind_canonical(F, S s, C) { return s.cp > 1 || s.cp_kind == ContextParallelKind::ring; }
std::string cp_kind_canonical_text(F, S s, C) { return cat("cp_kind ", to_string(s.cp_kind), " has no meaning with cp 1"); }

bool cp_one_sequence(F f, S s, C) { return s.cp == 1 || (f.one_sequence && !f.scans); }
std::string cp_one_sequence_text(F f, S s, C) {
  if (f.scans) return cat("cp ", s.cp, " splits the sequence, but layers of this model carry a state along it");
  return cat("cp ", s.cp, " splits one text sequence; this model has two sequences or a fixed number of patches");
}

bool weights_again(F f, S, C c) { return c.stages == 1 || !f.again; }
std::string weights_again_text(F, S, C c) {
  return cat("pp ", c.stages, " separates layers that share weights, so each stage would hold a copy");
}

bool ulysses_attention(F f, S s, C) { return s.sp != SequenceParallel::ulysses || (!f.fixed_windows && !f.scans); }
std::string ulysses_attention_text(F f, S, C) {
  if (f.scans) return "sp ulysses splits only attention heads, but layers of this model carry a state along the sequence";
  return "sp ulysses gathers whole sequences, but attention works on shifted windows";
}

// ---- experts ------------------------------------------------------------------------------------------------------

bool experts_needed(F f, S s, C) { return !f.experts.empty() || (s.ep == 1 && s.etp == 1); }
std::string experts_needed_text(F, S s, C) { return cat("ep ", s.ep, " and etp ", s.etp, ", but the model has no experts"); }

bool divide_experts(F f, S s, C) {
  return all(f.experts, [&s](std::int32_t n) { return n % s.ep == 0; });
}
std::string divide_experts_text(F f, S s, C) {
  return cat(offender(f.experts, [&s](std::int32_t n) { return n % s.ep == 0; }), " experts are not divisible by ep ", s.ep);
}

bool expert_grid(F, S s, C) { return product({s.tp, s.cp, s.dp}) % (std::int64_t{s.ep} * s.etp) == 0; }
std::string expert_grid_text(F, S s, C) {
  return cat("ep ", s.ep, " · etp ", s.etp, " = ", std::int64_t{s.ep} * s.etp,
             " does not divide tp · cp · dp = ", product({s.tp, s.cp, s.dp}));
}

bool expert_tp(F f, S s, C) {
  if (s.etp != 1 && s.etp != s.weight_tp()) return false;
  return all(f.expert_widths, [&s](std::int64_t w) { return w % s.etp == 0; });
}
std::string expert_tp_text(F f, S s, C) {
  if (s.etp != 1 && s.etp != s.weight_tp()) {
    return cat("etp ", s.etp, " is neither 1 nor the degree that splits the dense weights, ", s.weight_tp());
  }
  return cat("an expert of width ", offender(f.expert_widths, [&s](std::int64_t w) { return w % s.etp == 0; }),
             " is not divisible by etp ", s.etp);
}

// ---- pipeline -----------------------------------------------------------------------------------------------------

bool stages_fit(F f, S, C c) { return chunks_of(c) <= f.layers; }
std::string stages_fit_text(F f, S, C c) {
  return cat("pp ", c.stages, " · vpp ", c.virtual_stages, " = ", chunks_of(c), " chunks, but there are ", f.layers,
             " layers (embedding and head counted)");
}

bool schedule_pipeline(F, S, C c) { return c.stages > 1 || c.kind == ScheduleKind::one_f_one_b; }
std::string schedule_pipeline_text(F, S, C c) {
  return cat("schedule ", to_string(c.kind), " needs a pipeline; with pp 1 the only schedule is 1f1b");
}

bool virtual_stages(F, S, C c) {
  switch (c.kind) {
    case ScheduleKind::interleaved: return c.virtual_stages >= 2;
    case ScheduleKind::zb_v: return c.virtual_stages == 2;
    default: return c.virtual_stages == 1;
  }
}
std::string virtual_stages_text(F, S, C c) {
  const std::string_view expected = c.kind == ScheduleKind::interleaved ? "at least 2" : c.kind == ScheduleKind::zb_v ? "2" : "1";
  return cat("schedule ", to_string(c.kind), " has vpp ", expected, ", not ", c.virtual_stages);
}

bool interleaved_batch(F f, S s, C c) { return c.kind != ScheduleKind::interleaved || microbatches_of(f, s, c) % c.stages == 0; }
std::string interleaved_batch_text(F f, S s, C c) {
  return cat("interleaved 1f1b runs micro-batches in groups of pp ", c.stages, ", which does not divide ",
             microbatches_of(f, s, c), " micro-batches");
}

bool schedule_size(F f, S s, C c) {
  // m ≤ global_batch, so most calls end at the first line.
  if (product({chunks_of(c), f.global_batch}) <= kMaxChunkPasses) return true;
  return product({chunks_of(c), std::max<std::int64_t>(microbatches_of(f, s, c), 1)}) <= kMaxChunkPasses;
}
std::string schedule_size_text(F f, S s, C c) {
  return cat("pp · vpp · micro-batches = ", product({chunks_of(c), std::max<std::int64_t>(microbatches_of(f, s, c), 1)}),
             " chunk passes, more than ", kMaxChunkPasses);
}

// ---- ZeRO ---------------------------------------------------------------------------------------------------------

bool zero_range(F, S s, C) { return is_stage(s.zero); }
std::string zero_range_text(F, S s, C) { return cat("zero ", number_of(s.zero), " is not a ZeRO stage"); }

bool zero_shard(F, S s, C) { return s.shards_optimizer() != (s.shard == 1); }
std::string zero_shard_text(F, S s, C) {
  return !s.shards_optimizer() ? cat("shard ", s.shard, " shards nothing with zero 0")
                               : cat("zero ", number_of(s.zero), " with shard 1 shards nothing");
}

bool divide_shard(F, S s, C) { return s.data_ranks() % s.shard == 0; }
std::string divide_shard_text(F, S s, C) {
  return cat("shard ", s.shard, " does not divide the ", s.data_ranks(), " ranks that hold the same weights");
}

bool zero_bubble_zero(F, S s, C c) { return !s.shards_gradients() || !splits_backward(c.kind); }
std::string zero_bubble_zero_text(F, S s, C c) {
  return cat("schedule ", to_string(c.kind), " delays weight gradients, which zero ", number_of(s.zero),
             " would have to scatter at once");
}

// ---- one name for one thing ---------------------------------------------------------------------------------------

bool order_canonical(F, S s, C c) {
  switch (s.order) {
    case RankOrder::tp_cp_dp_pp: return true;
    case RankOrder::tp_cp_pp_dp: return s.dp > 1 && c.stages > 1;
    case RankOrder::tp_dp_cp_pp: return s.dp > 1 && s.cp > 1;
  }
  return false;
}
std::string order_canonical_text(F, S s, C c) {
  return cat("order ", to_string(s.order), " places every rank like tp-cp-dp-pp with cp ", s.cp, ", dp ", s.dp, ", pp ",
             c.stages);
}

/// Counts the blocks of the fullest chunk; all blocks if the split does not exist (then the rule "stages" applies).
std::int32_t recompute_limit(F f, C c) {
  const std::int64_t chunks = chunks_of(c);
  if (chunks > f.layers) return f.blocks;
  return f.largest_chunk[static_cast<std::size_t>(chunks)];
}
bool recompute_layers(F f, S s, C c) {
  if (s.recompute.kind != RecomputeKind::full) return s.recompute.layers == 0;
  return s.recompute.layers >= 1 && s.recompute.layers <= recompute_limit(f, c);
}
std::string recompute_layers_text(F f, S s, C c) {
  if (s.recompute.kind != RecomputeKind::full) {
    return cat("recompute ", to_string(s.recompute.kind), " has recompute_layers 0, not ", s.recompute.layers);
  }
  return cat("full recomputation of ", s.recompute.layers, " blocks per chunk, but the fullest chunk has ",
             recompute_limit(f, c));
}

bool overlap_grad(F f, S s, C) { return !s.overlap.grad_reduce || replicates_weights(!f.experts.empty(), s); }
std::string overlap_grad_text(F, S, C) {
  return "overlap_grad hides the gradient reduction, but no two ranks hold the same weights";
}
bool overlap_param(F, S s, C) { return !s.overlap.param_gather || s.shards_optimizer(); }
std::string overlap_param_text(F, S, C) { return "overlap_param hides the parameter all-gather of ZeRO, but zero is 0"; }
bool overlap_p2p(F, S s, C c) { return !s.overlap.p2p || c.stages > 1; }
std::string overlap_p2p_text(F, S, C) { return "overlap_p2p hides pipeline sends, but pp is 1"; }
bool overlap_tp(F, S s, C) { return !s.overlap.tp || s.sp == SequenceParallel::megatron; }
std::string overlap_tp_text(F, S s, C) {
  return cat("overlap_tp overlaps reduce-scatter and all-gather with GEMMs, which needs sp megatron, not ", to_string(s.sp));
}

bool offload_host(F f, S s, C) { return s.offload == Offload::none || (f.hosts && s.partition.empty()); }
std::string offload_host_text(F f, S s, C) {
  return cat("offload ", to_string(s.offload),
             f.hosts ? " with operators partitioned one by one"
                     : " to unknown hosts: state them as cluster.host: {memory, memory_bandwidth, bandwidth} of a node, or as "
                       "host of each group");
}

bool offload_parameters(F, S s, C) { return !offloads_parameters(s.offload) || s.shards_parameters() || s.data_ranks() == 1; }
std::string offload_parameters_text(F, S s, C) {
  return cat("parameters in host memory are gathered layer by layer from the shards of zero 3, but zero is ", number_of(s.zero),
             " over ", s.data_ranks(), " data ranks");
}
bool offload_passes(F, S s, C c) {
  const bool copies = offloads_activations(s.offload) || offloads_parameters(s.offload);
  return !copies || !splits_backward(c.kind);
}
std::string offload_passes_text(F, S s, C c) {
  return cat("offload ", to_string(s.offload), " with schedule ", to_string(c.kind),
             ": separate weight gradients would fetch everything a second time");
}

bool operator_partition(F, S s, C) { return partition_fault(s).empty(); }
std::string operator_partition_text(F, S s, C) { return partition_fault(s); }

constexpr std::array kRules = {
    Rule{"degrees-positive", "every degree and the micro-batch is at least 1, and no degree exceeds 2^20",
         dimension_set(D::pp, D::vpp, D::tp, D::cp, D::ep, D::etp, D::dp, D::shard, D::micro_batch), D::tp, degrees_positive,
         degrees_positive_text},
    Rule{"world", "tp · cp · dp · pp is the number of devices", dimension_set(D::tp, D::cp, D::dp, D::pp), D::dp, world,
         world_text},
    Rule{"divide-batch", "micro_batch · dp divides the global batch, and the quotient is the number of micro-batches",
         dimension_set(D::micro_batch, D::dp), D::micro_batch, divide_batch, divide_batch_text},
    Rule{"divide-heads", "tp (times cp with all-to-all) divides the query heads of every attention",
         dimension_set(D::tp, D::cp, D::cp_kind), D::tp, divide_heads, divide_heads_text},
    Rule{"divide-kv-heads", "the key/value heads of every attention are a multiple or a divisor of tp (times cp with all-to-all)",
         dimension_set(D::tp, D::cp, D::cp_kind), D::tp, divide_kv_heads, divide_kv_heads_text},
    Rule{"divide-ffn",
         "tp divides the split width of every column- and row-parallel linear layer, and heads and groups of scans (Ulysses "
         "splits neither)",
         dimension_set(D::tp, D::sp), D::tp, divide_ffn, divide_ffn_text},
    Rule{"divide-sequence-cp", "cp divides the sequence; the causal ring needs 2 · cp, for its zig-zag slices",
         dimension_set(D::cp, D::cp_kind), D::cp, divide_cp_sequence, divide_cp_sequence_text},
    Rule{"divide-sequence-sp", "with sp, tp divides the sequence of every cp rank", dimension_set(D::tp, D::sp, D::cp), D::tp,
         divide_sp_sequence, divide_sp_sequence_text},
    Rule{"sp-needs-tp", "sequence parallelism works inside the tp group: tp is at least 2", dimension_set(D::tp, D::sp), D::sp,
         sp_needs_tp, sp_needs_tp_text},
    Rule{"cp-kind", "cp 1 is written with cp_kind ring", dimension_set(D::cp, D::cp_kind), D::cp_kind, cp_kind_canonical,
         cp_kind_canonical_text},
    Rule{"cp-one-sequence",
         "context parallelism is for one text sequence: not for encoder-decoder pairs, images or states carried along",
         dimension_set(D::cp), D::cp, cp_one_sequence, cp_one_sequence_text},
    Rule{"ulysses-attention",
         "Ulysses needs attention over the whole sequence: no shifted windows over patches, no states carried along",
         dimension_set(D::sp), D::sp, ulysses_attention, ulysses_attention_text},
    Rule{"experts-needed", "ep and etp are 1 in a model without experts", dimension_set(D::ep, D::etp), D::ep, experts_needed,
         experts_needed_text},
    Rule{"divide-experts", "ep divides the experts of every MoE layer", dimension_set(D::ep), D::ep, divide_experts,
         divide_experts_text},
    Rule{"expert-grid", "ep · etp divides tp · cp · dp, into which experts are folded",
         dimension_set(D::tp, D::cp, D::dp, D::ep, D::etp), D::ep, expert_grid, expert_grid_text},
    Rule{"expert-tp", "etp is 1 or the degree that splits the dense weights, and divides the width of the experts",
         dimension_set(D::tp, D::sp, D::etp), D::etp, expert_tp, expert_tp_text},
    Rule{"stages", "pp · vpp is at most the number of layers", dimension_set(D::pp, D::vpp), D::pp, stages_fit, stages_fit_text},
    Rule{"weights-again", "layers that share the weights of an earlier one must be on its stage: pp is 1", dimension_set(D::pp),
         D::pp, weights_again, weights_again_text},
    Rule{"schedule-pipeline", "one stage is written as schedule 1f1b", dimension_set(D::pp, D::schedule), D::schedule,
         schedule_pipeline, schedule_pipeline_text},
    Rule{"virtual-stages", "vpp is at least 2 for interleaved, 2 for zb-v, 1 otherwise", dimension_set(D::vpp, D::schedule),
         D::vpp, virtual_stages, virtual_stages_text},
    Rule{"interleaved-batch", "interleaved: pp divides the number of micro-batches",
         dimension_set(D::pp, D::schedule, D::micro_batch, D::dp), D::micro_batch, interleaved_batch, interleaved_batch_text},
    Rule{"schedule-size", "pp · vpp · micro-batches is at most 2^21, which limits the size of the program",
         dimension_set(D::pp, D::vpp, D::micro_batch, D::dp), D::micro_batch, schedule_size, schedule_size_text},
    Rule{"zero-range", "zero is 0, 1, 2 or 3", dimension_set(D::zero), D::zero, zero_range, zero_range_text},
    Rule{"zero-shard", "shard is 1 exactly when zero is 0", dimension_set(D::zero, D::shard), D::shard, zero_shard,
         zero_shard_text},
    Rule{"divide-shard", "shard divides the ranks that hold the same weights (dp · cp, times tp with Ulysses)",
         dimension_set(D::tp, D::sp, D::cp, D::dp, D::shard), D::shard, divide_shard, divide_shard_text},
    Rule{"zero-bubble-zero", "zero-bubble schedules need zero 0 or 1", dimension_set(D::zero, D::schedule), D::zero,
         zero_bubble_zero, zero_bubble_zero_text},
    Rule{"order", "among rank orders with the same placement, the first is used", dimension_set(D::order, D::cp, D::dp, D::pp),
         D::order, order_canonical, order_canonical_text},
    Rule{"recompute-layers", "full recomputation covers 1 … all blocks of the fullest chunk; otherwise the count is 0",
         dimension_set(D::recompute, D::recompute_layers, D::pp, D::vpp), D::recompute_layers, recompute_layers,
         recompute_layers_text},
    Rule{"overlap-grad", "overlap_grad needs ranks that hold the same weights, dense ones or experts",
         dimension_set(D::overlap_grad, D::tp, D::sp, D::cp, D::dp, D::ep, D::etp), D::overlap_grad, overlap_grad,
         overlap_grad_text},
    Rule{"overlap-param", "overlap_param needs ZeRO", dimension_set(D::overlap_param, D::zero), D::overlap_param, overlap_param,
         overlap_param_text},
    Rule{"overlap-p2p", "overlap_p2p needs a pipeline", dimension_set(D::overlap_p2p, D::pp), D::overlap_p2p, overlap_p2p,
         overlap_p2p_text},
    Rule{"operator-partition",
         "operators are partitioned over tp = 2, 4, 8 … devices, each by log2(tp) bits, with sp none, cp, ep and etp 1, and "
         "recomputed in "
         "full or not at all",
         dimension_set(D::tp, D::sp, D::cp, D::ep, D::etp, D::recompute, D::overlap_tp), D::tp, operator_partition,
         operator_partition_text},
    Rule{"offload-host", "offload needs hosts with known memory and links (host of the cluster), and no operator partition",
         dimension_set(D::offload), D::offload, offload_host, offload_host_text},
    Rule{"offload-parameters", "offload of parameters needs zero 3, or one data rank",
         dimension_set(D::offload, D::zero, D::tp, D::sp, D::cp, D::dp), D::zero, offload_parameters, offload_parameters_text},
    Rule{"offload-passes", "offload of activations and parameters needs schedules with undivided backward passes",
         dimension_set(D::offload, D::schedule), D::schedule, offload_passes, offload_passes_text},
    Rule{"overlap-tp", "overlap_tp needs sp megatron", dimension_set(D::overlap_tp, D::sp), D::overlap_tp, overlap_tp,
         overlap_tp_text},
};

// ---- hints --------------------------------------------------------------------------------------------------------

struct RuleCandidate {
  Strategy strategy;
  Schedule schedule;
};

bool holds_with(F f, const RuleCandidate& base, D dimension, std::int64_t value,
                const std::function<bool(const Strategy&, const Schedule&)>& holds) {
  RuleCandidate changed = base;
  set(dimension, value, changed.strategy, changed.schedule);
  if (!degrees_positive(f, changed.strategy, changed.schedule)) return false;
  const std::int64_t m = microbatches_of(f, changed.strategy, changed.schedule);
  if (m >= 1) changed.schedule.microbatches = static_cast<std::int32_t>(m);
  return holds(changed.strategy, changed.schedule);
}

std::int64_t largest_value(F f, D dimension) {
  switch (dimension) {
    case D::micro_batch: return f.global_batch;
    case D::vpp: return f.layers;
    case D::recompute_layers: return f.blocks;
    case D::zero: return value_count(dimension) - 1;
    default: return f.devices;
  }
}

/// Returns "4 or 8" for counts (nearest below and above), "none or megatron" for enums.
std::string values_that_hold(F f, const RuleCandidate& base, D dimension,
                             const std::function<bool(const Strategy&, const Schedule&)>& holds) {
  std::vector<std::int64_t> values;
  if (const std::int64_t size = enum_size(dimension); size > 0) {
    for (std::int64_t v = 0; v < size; ++v) {
      if (holds_with(f, base, dimension, v, holds)) values.push_back(v);
    }
  } else {
    constexpr std::int64_t kSteps = 1 << 16;  // bounds the scan; legal values are near in practice
    const std::int64_t low = least_value(dimension);
    const std::int64_t high = std::min<std::int64_t>(largest_value(f, dimension), std::numeric_limits<std::int32_t>::max());
    const std::int64_t now = get(dimension, base.strategy, base.schedule);
    for (std::int64_t v = std::min(now - 1, high); v >= low && v > now - kSteps; --v) {
      if (holds_with(f, base, dimension, v, holds)) {
        values.push_back(v);
        break;
      }
    }
    for (std::int64_t v = std::max(now + 1, low); v <= high && v < now + kSteps; ++v) {
      if (holds_with(f, base, dimension, v, holds)) {
        values.push_back(v);
        break;
      }
    }
  }
  std::string out;
  for (const std::int64_t v : values) out += cat(out.empty() ? "" : " or ", value_text(dimension, v));
  return out;
}

RuleViolation explain(F f, S s, C c, const Rule& rule) {
  RuleViolation violation{std::string(rule.name), rule.text(f, s, c), ""};
  const auto holds = [&f, &rule](const Strategy& a, const Schedule& b) { return rule.holds(f, a, b); };
  const std::int64_t m = degrees_positive(f, s, c) ? microbatches_of(f, s, c) : 0;
  if (rule.holds == divide_batch && m >= 1) {
    violation.hint = cat("microbatches ", m);  // the batch divides; only the stated number is wrong
  } else {
    violation.hint = nearest_legal(f, s, c, rule.reads, rule.fix, holds);
  }
  return violation;
}

}  // namespace

std::int64_t rung_end(std::int64_t micro_batch) {
  return micro_batch <= kExactRungs ? micro_batch : micro_batch + micro_batch / 8 - 1;
}

std::int64_t microbatches_of(const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule) {
  const std::int64_t step = (facts.at_least ? rung_end(schedule.micro_batch) : schedule.micro_batch) * std::int64_t{strategy.dp};
  if (step <= 0 || (!facts.at_least && facts.global_batch % step != 0)) return 0;
  std::int64_t m = ceil_div(facts.global_batch, step);
  if (facts.at_least && schedule.kind == ScheduleKind::interleaved)
    m = (m + schedule.stages - 1) / std::max(1, schedule.stages) * schedule.stages;
  return m <= std::numeric_limits<std::int32_t>::max() ? m : 0;
}

std::string nearest_legal(const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule, DimensionSet reads,
                          Dimension fix, const std::function<bool(const Strategy&, const Schedule&)>& holds) {
  const RuleCandidate base{strategy, schedule};
  if (const std::string values = values_that_hold(facts, base, fix, holds); !values.empty()) {
    return cat(to_string(fix), " ", values);
  }
  for (int i = 0; i < kDimensions; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    if (dimension == fix || (reads & bit(dimension)) == 0) continue;
    const std::string values = values_that_hold(facts, base, dimension, holds);
    if (!values.empty()) return cat(to_string(dimension), " ", values);
  }
  return "";
}

std::span<const Rule> rules() { return kRules; }

const Rule* find_rule(std::string_view name) {
  for (const Rule& rule : kRules) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

bool is_legal(const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule) {
  for (const Rule& rule : kRules) {
    if (!rule.holds(facts, strategy, schedule)) return false;
  }
  return true;
}

std::vector<RuleViolation> violations(const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule) {
  std::vector<RuleViolation> broken;
  for (const Rule& rule : kRules) {
    if (rule.holds(facts, strategy, schedule)) continue;
    broken.push_back(explain(facts, strategy, schedule, rule));
    if (rule.holds == degrees_positive) break;  // the others compute with the degrees
  }
  return broken;
}

std::vector<RuleViolation> violations(const Model& model, const Cluster& cluster, const Training& training,
                                      const Strategy& strategy, const Schedule& schedule, SplitPolicy policy) {
  const RuleFacts facts = rule_facts(model, cluster, training, std::int64_t{schedule.stages} * schedule.virtual_stages, policy);
  return violations(facts, strategy, schedule);
}

std::vector<std::pair<std::string, std::string>> rule_catalogue() {
  std::vector<std::pair<std::string, std::string>> catalogue;
  for (const Rule& rule : kRules) catalogue.emplace_back(rule.name, rule.sentence);
  for (const PlanRule& rule : plan_rules()) catalogue.emplace_back(rule.name, rule.sentence);
  return catalogue;
}

}  // namespace espalier
