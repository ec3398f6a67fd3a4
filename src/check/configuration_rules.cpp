// SPDX-License-Identifier: Apache-2.0
#include "check/configuration_rules.h"

#include <algorithm>

#include "check/arithmetic.h"
#include "check/engine_layers.h"
#include "check/frozen_parts.h"
#include "check/partition_text.h"
#include "check/verdict.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

/// Visits every layer kind that occurs in the model, once.
template <class Visit>
void each_kind(const View& view, const Visit& visit) {
  std::vector<bool> used(view.model->kinds.size(), false);
  for (const std::int32_t kind : view.model->layers) used[static_cast<std::size_t>(kind)] = true;
  for (std::size_t k = 0; k < used.size(); ++k) {
    if (used[k]) visit(view.model->kinds[k]);
  }
}
template <class Visit>
void each_operator(const View& view, const Visit& visit) {
  each_kind(view, [&](const LayerKind& kind) {
    for (const Operator& op : kind.operators) visit(kind, op);
  });
}

bool divides_or_is_divided(std::int64_t a, std::int64_t b) { return a % b == 0 || b % a == 0; }

Finding check_batch(const View& view) {
  Verdict verdict("batch");
  const Schedule& s = view.pipeline->schedule;
  const std::int64_t samples = saturating_product({view.micro_batch, view.strategy.dp, s.microbatches});
  verdict.require(samples == view.plan->training.global_batch, [&] {
    return say("micro-batch ", view.micro_batch, " · dp ", view.strategy.dp, " · ", s.microbatches, " micro-batches = ", samples,
               ", the global batch is ", view.plan->training.global_batch);
  });
  return verdict.finding(say("micro_batch·dp·m = ", samples));
}

bool is_causal(const LayerKind& kind) {
  return std::any_of(kind.operators.begin(), kind.operators.end(),
                     [](const Operator& op) { return op.kind == OperatorKind::attention && op.causal && !op.cross; });
}

Finding check_positions(const View& view) {
  Verdict verdict("positions");
  const std::int64_t most = view.model->max_positions;
  each_kind(view, [&](const LayerKind& kind) {
    const std::int64_t tokens = layer_tokens(kind, view.plan->training.sequence);
    verdict.require(tokens >= 1, [&] { return say("layer '", kind.name, "' gets ", tokens, " tokens per sample"); });
    // These are images, or recordings whose length the model's file sets.
    const bool of_file =
        kind.stream == TokenStream::fixed || (kind.stream == TokenStream::encoder && view.model->encoder_tokens > 0);
    verdict.require(most == 0 || of_file || tokens <= most,
                    [&] { return say(tokens, " tokens, the model has ", most, " positions"); });
  });
  return verdict.finding(most == 0 ? std::string("no limit") : say("at most ", most));
}

bool is_scan(const Operator& op) {
  return op.kind == OperatorKind::scan || op.kind == OperatorKind::chunked_scan || op.kind == OperatorKind::gated_delta;
}
bool carries_state(const LayerKind& kind) {
  return std::any_of(kind.operators.begin(), kind.operators.end(),
                     [](const Operator& op) { return is_scan(op) || op.kind == OperatorKind::causal_conv; });
}

/// Checks the sequence split. Every cp rank gets one slice, or two (an early and a late one) in a causal ring. sp
/// cuts each rank's tokens further.
Finding check_sequence(const View& view) {
  Verdict verdict("sequence");
  const Strategy& s = view.strategy;
  each_kind(view, [&](const LayerKind& kind) {
    verdict.require(s.cp == 1 || kind.stream == TokenStream::main, [&] {
      return say("cp ", s.cp, " on layer '", kind.name, "', which does not process the one text sequence");
    });
    verdict.require((s.cp == 1 && s.sp != SequenceParallel::ulysses) || !carries_state(kind),
                    [&] { return say("layer '", kind.name, "' carries a state along a sequence that cp or Ulysses splits"); });
    if (kind.role != LayerRole::block) return;
    const std::int64_t tokens = layer_tokens(kind, view.plan->training.sequence);
    const std::int64_t slices = s.cp > 1 && s.cp_kind == ContextParallelKind::ring && is_causal(kind) ? 2 : 1;
    const std::int64_t parts = s.sp == SequenceParallel::none ? 1 : s.tp;
    verdict.require(tokens % (slices * s.cp) == 0 && tokens % (parts * s.cp) == 0, [&] {
      return say(tokens, " tokens of layer '", kind.name, "' do not divide over cp ", s.cp, " with ", slices, " slices and ",
                 parts, " sequence parts");
    });
  });
  return verdict.finding(say("every block's tokens divide over cp ", s.cp, ", sp ", to_string(s.sp)));
}

Finding check_heads(const View& view) {
  Verdict verdict("heads");
  const Strategy& s = view.strategy;
  const std::int64_t split = std::int64_t{s.tp} * (s.cp_kind == ContextParallelKind::all_to_all ? s.cp : 1);
  each_operator(view, [&](const LayerKind& kind, const Operator& op) {
    verdict.require(!is_scan(op) || (op.heads % s.tp == 0 && op.kv_heads % s.tp == 0), [&] {
      return say(op.heads, " heads in ", op.kv_heads, " groups of the scan in '", kind.name, "' do not divide over ", s.tp,
                 " ranks");
    });
    if (op.kind != OperatorKind::attention) return;
    verdict.require(s.sp != SequenceParallel::ulysses || op.window == 0 || kind.stream != TokenStream::fixed,
                    [&] { return say("Ulysses with shifted windows in '", kind.name, "'"); });
    if (!verdict.require(op.heads >= 1 && op.kv_heads >= 1, [&] { return say("attention of '", kind.name, "' has no heads"); })) {
      return;
    }
    verdict.require(op.heads % split == 0,
                    [&] { return say(op.heads, " heads of '", kind.name, "' do not divide over ", split, " ranks"); });
    verdict.require(divides_or_is_divided(op.kv_heads, split),
                    [&] { return say(op.kv_heads, " key/value heads of '", kind.name, "' against ", split, " ranks"); });
  });
  verdict.require(s.cp > 1 || s.cp_kind == ContextParallelKind::ring, [] { return say("cp 1 with a cp kind other than ring"); });
  return verdict.finding(say("heads divide over ", split));
}

/// Checks row linears by their input, and column linears followed by an activation by their output. Attention's
/// projections are checked as heads.
Finding check_features(const View& view) {
  Verdict verdict("features");
  const std::int64_t tp = view.strategy.weight_tp();
  each_operator(view, [&](const LayerKind& kind, const Operator& op) {
    const bool conv = op.kind == OperatorKind::causal_conv;
    const bool dense = op.kind == OperatorKind::linear || op.kind == OperatorKind::activation || conv;
    const bool expert = op.kind == OperatorKind::expert_linear || op.kind == OperatorKind::expert_activation;
    if (op.split == TpSplit::none || (!dense && !expert)) return;
    const bool is_linear = op.kind == OperatorKind::linear || op.kind == OperatorKind::expert_linear;
    if (is_linear && op.split != TpSplit::row) return;
    const std::int64_t split = expert ? view.strategy.etp : tp;
    const std::int64_t width = is_linear ? op.in : op.out;
    verdict.require(width % split == 0, [&] {
      return say("width ", width, " of '", op.name, "' in '", kind.name, "' does not divide over ", split, " ranks");
    });
  });
  return verdict.finding(say("split widths divide over tp ", tp, " and etp ", view.strategy.etp));
}

Finding check_experts(const View& view) {
  Verdict verdict("experts");
  const Strategy& s = view.strategy;
  const std::int64_t grid = saturating_multiply(s.ep, s.etp);
  const std::int64_t ranks = std::int64_t{s.tp} * s.cp * s.dp;
  if (!check::has_experts(*view.model)) {
    verdict.require(grid == 1, [&] { return say("ep ", s.ep, ", etp ", s.etp, " for a model without experts"); });
    return verdict.finding("no experts");
  }
  verdict.require(ranks % grid == 0,
                  [&] { return say("ep ", s.ep, " · etp ", s.etp, " does not divide the ", ranks, " ranks of a stage"); });
  verdict.require(s.etp == 1 || s.etp == s.weight_tp(), [&] { return say("etp ", s.etp, " is neither 1 nor ", s.weight_tp()); });
  each_operator(view, [&](const LayerKind& kind, const Operator& op) {
    if (op.kind != OperatorKind::expert_linear) return;
    verdict.require(op.experts % s.ep == 0, [&] { return say(op.experts, " experts of '", kind.name, "' over ep ", s.ep); });
  });
  return verdict.finding(say("ep ", s.ep, " · etp ", s.etp, " divides ", ranks, " ranks"));
}

Finding check_sharding(const View& view) {
  Verdict verdict("sharding");
  const Strategy& s = view.strategy;
  verdict.require(is_stage(s.zero), [&] { return say("ZeRO stage ", number_of(s.zero)); });
  verdict.require(s.data_ranks() % s.shard == 0,
                  [&] { return say("shard ", s.shard, " does not divide ", s.data_ranks(), " data ranks"); });
  const ScheduleKind kind = view.pipeline->schedule.kind;
  verdict.require(!s.shards_gradients() || !weights_late(kind),
                  [&] { return say("ZeRO ", number_of(s.zero), " with the delayed weight gradients of ", to_string(kind)); });
  verdict.require((!s.shards_optimizer()) == (s.shard == 1),
                  [&] { return say("ZeRO ", number_of(s.zero), " with a shard group of ", s.shard); });
  return verdict.finding(say("ZeRO ", number_of(s.zero), " over ", s.shard, " of ", s.data_ranks(), " data ranks"));
}

Finding check_sequence_parallel(const View& view) {
  Verdict verdict("sequence-parallel");
  const Strategy& s = view.strategy;
  verdict.require(s.sp == SequenceParallel::none || s.tp > 1, [&] { return say(to_string(s.sp), " with tp 1"); });
  return verdict.finding(std::string(to_string(s.sp)));
}

Finding check_recompute(const View& view) {
  Verdict verdict("recompute");
  const Recompute& r = view.strategy.recompute;
  std::int32_t most = 0;
  for (std::size_t i = 0; i < view.model->layers.size(); ++i) most += view.model->layer(i).role == LayerRole::block ? 1 : 0;
  const bool full = r.kind == RecomputeKind::full;
  verdict.require(full ? r.layers >= 1 && r.layers <= most : r.layers == 0, [&] {
    return say(to_string(r.kind), " recomputation of ", r.layers, " layers per chunk, the model has ", most, " blocks");
  });
  verdict.require(r.kind == RecomputeKind::selective || !r.modules.any(),
                  [&] { return say("modules ", to_string(r.modules), " with ", to_string(r.kind), " recomputation"); });
  for (int i = 0; i < kRecomputeModules; ++i) {
    const auto module = static_cast<RecomputeModule>(i);
    verdict.require(!r.modules.has(module) || view.engine.runs.recompute_modules.has(module),
                    [&] { return say(view.engine.name, " cannot recompute ", to_string(module)); });
  }
  return verdict.finding(say(to_string(r.kind), full              ? say(" × ", r.layers)
                                                : r.modules.any() ? say(" ", to_string(r.modules))
                                                                  : std::string()));
}

Finding check_overlap(const View& view) {
  Verdict verdict("overlap");
  const Strategy& s = view.strategy;
  const bool reduces = s.data_ranks() > 1 || (s.expert_data_ranks() > 1 && check::has_experts(*view.model));
  verdict.require(!s.overlap.grad_reduce || reduces, [] { return say("gradient overlap with one data rank"); });
  verdict.require(!s.overlap.p2p || view.stages > 1, [] { return say("p2p overlap with one stage"); });
  verdict.require(!s.overlap.tp || (s.tp > 1 && s.sp == SequenceParallel::megatron),
                  [] { return say("tp overlap without Megatron sequence parallelism"); });
  verdict.require(!s.overlap.param_gather || s.shards_optimizer(), [] { return say("parameter gather overlap without ZeRO"); });
  return verdict.finding("consistent");
}

Finding check_pipeline(const View& view) {
  Verdict verdict("pipeline");
  const Schedule& c = view.pipeline->schedule;
  const Strategy& s = view.strategy;
  verdict.require(c.stages > 1 || c.kind == ScheduleKind::one_f_one_b, [&] { return say(to_string(c.kind), " with one stage"); });
  verdict.require(c.kind != ScheduleKind::interleaved || c.microbatches % c.stages == 0, [&] {
    return say("interleaved: ", c.microbatches, " micro-batches are not a multiple of ", c.stages, " stages");
  });
  const bool named_well = s.order == RankOrder::tp_cp_dp_pp || (s.order == RankOrder::tp_cp_pp_dp && s.dp > 1 && c.stages > 1) ||
                          (s.order == RankOrder::tp_dp_cp_pp && s.dp > 1 && s.cp > 1);
  verdict.require(named_well, [&] { return say("order ", to_string(s.order), " must be tp-cp-dp-pp here"); });
  return verdict.finding(say(to_string(c.kind), ", ", c.stages, " stages"));
}

Finding check_devices_fit(const View& view) {
  Verdict verdict("precision");
  const Precision precision = view.plan->training.precision;
  for (const NodeGroup& group : view.cluster->groups) {
    verdict.require(group.device.peak_of(precision).count() > 0,
                    [&] { return say(group.device.name, " does not support ", to_string(precision)); });
  }
  return verdict.finding(std::string(to_string(precision)));
}

Finding check_homogeneous(const View& view) {
  Verdict verdict("homogeneous");
  // check_structure has checked this.
  if (!view.group_of_stage.empty()) return verdict.finding("one kind of node in every stage");
  verdict.require(view.cluster->groups.size() == 1, [&] { return say(view.cluster->groups.size(), " node groups"); });
  return verdict.finding("one kind of node");
}

Finding check_engine(const View& view) {
  Verdict verdict("engine");
  verdict.require(!view.engine.name.empty(), [&] { return say("unknown engine '", view.plan->engine, "'"); });
  return verdict.finding(view.engine.name);
}

/// Checks that a range recomputes at most as many blocks as it has. In a uniform plan chunks differ in length, and
/// the longest decides.
Finding check_recomputed_ranges(const View& plan) {
  Verdict verdict("recompute");
  for (const Chunk& chunk : plan.chunks) {
    for (const LayerRange& range : chunk.ranges) {
      std::int32_t blocks = 0;
      for (std::int32_t i = range.first; i <= range.last; ++i)
        blocks += plan.model->layer(static_cast<std::size_t>(i)).role == LayerRole::block ? 1 : 0;
      const std::int32_t recomputed = range.strategy.recompute.layers;
      verdict.require(recomputed <= blocks, [&] {
        return say("layers ", range.first, "…", range.last, " have ", blocks, " blocks, ", recomputed, " are recomputed");
      });
    }
  }
  return verdict.finding("at most the blocks of each range");
}

/// Returns the part of a strategy that decides which rank holds which bytes of a dense table, and who reduces its
/// gradient.
std::string table_layout(const Strategy& s) {
  return say("tp ", s.tp, " sp ", to_string(s.sp), " cp ", s.cp, " dp ", s.dp, " zero ", number_of(s.zero), " shard ", s.shard);
}

/// Returns whether layers use weights that an earlier layer owns.
bool shares_weights(const View& view) {
  bool shares = false;
  each_operator(view, [&](const LayerKind&, const Operator& op) { shares = shares || op.name.compare(0, 6, "again.") == 0; });
  return shares;
}

/// Checks that weights used again are used only on their owner's stage, and under one layout.
Finding check_weights_again(const View& plan) {
  Verdict verdict("weights-again");
  verdict.require(plan.chunks.size() == 1,
                  [&] { return say("layers with the same weights in ", plan.chunks.size(), " chunks"); });
  const std::string first = table_layout(plan.chunks.front().ranges.front().strategy);
  for (const auto& range : plan.chunks.front().ranges)
    verdict.require(table_layout(range.strategy) == first,
                    [&] { return say("the same weights are laid out as ", first, " and as ", table_layout(range.strategy)); });
  return verdict.finding(say("on one stage, as ", first));
}

Finding check_tied_table(const View& plan) {
  Verdict verdict("tied-table");
  if (!plan.model->tied_embeddings || plan.model->vocabulary == 0) return verdict.finding("no tied table");
  const std::string embedding = table_layout(plan.chunks.front().ranges.front().strategy);
  const std::string head = table_layout(plan.chunks.back().ranges.back().strategy);
  verdict.require(embedding == head,
                  [&] { return say("one table with two layouts: the embedding's ", embedding, ", the head's ", head); });
  return verdict.finding(say("embedding and head hold it with the same layout: ", embedding));
}

std::vector<Finding> rules_of(const View& view) {
  return {check_engine(view),   check_homogeneous(view),       check_devices_fit(view),
          check_batch(view),    check_positions(view),         check_sequence(view),
          check_heads(view),    check_features(view),          check_experts(view),
          check_sharding(view), check_sequence_parallel(view), check_recompute(view),
          check_overlap(view),  check_pipeline(view),          check_operator_partition(view)};
}

}  // namespace

std::vector<Finding> check_rules(const View& plan) {
  std::vector<Finding> findings;
  for (const Strategy& s : strategies_of(plan)) {
    const std::vector<Finding> of_strategy = rules_of(view_of(plan, s));
    if (findings.empty()) findings = of_strategy;
    for (std::size_t i = 0; i < findings.size(); ++i)
      if (findings[i].ok && !of_strategy[i].ok) findings[i] = of_strategy[i];
  }
  findings.push_back(check_tied_table(plan));
  if (shares_weights(plan)) findings.push_back(check_weights_again(plan));
  if (freezes_weights(plan.plan->training)) findings.push_back(check_trained_parts(plan));
  if (plan.one_strategy) return findings;
  findings.push_back(check_engine_layers(plan));
  const Finding ranges = check_recomputed_ranges(plan);
  for (Finding& finding : findings)
    if (finding.name == ranges.name && finding.ok && !ranges.ok) finding = ranges;
  return findings;
}

}  // namespace espalier::check
