// SPDX-License-Identifier: Apache-2.0
// Collects the facts of a model, a cluster and a training job that the rules need.
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "base/invariant.h"
#include "plan/recompute_modules.h"
#include "plan/rules.h"
#include "plan/shared_table.h"
#include "plan/split.h"

namespace espalier {
namespace {

template <class T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// Returns the output widths of the projections that attention heads govern. If there are fewer key/value heads than
/// tp, they are replicated, so the plain width need not divide.
std::vector<std::int64_t> key_value_widths(const LayerKind& kind) {
  std::vector<std::int64_t> widths;
  for (const Operator& op : kind.operators) {
    if (op.kind != OperatorKind::attention) continue;
    const std::int64_t k = std::int64_t{op.kv_heads} * op.qk_dim;
    const std::int64_t v = std::int64_t{op.kv_heads} * op.v_dim;
    const std::int64_t q = std::int64_t{op.heads} * op.qk_dim;
    widths.insert(widths.end(), {k, v, k + v, q + k + v});
  }
  return widths;
}

void add_operator(RuleFacts& facts, const LayerKind& kind, const Operator& op, const std::vector<std::int64_t>& governed) {
  const bool column = op.split == TpSplit::column;
  const bool row = op.split == TpSplit::row;
  switch (op.kind) {
    case OperatorKind::attention:
      facts.heads.push_back({op.heads, op.kv_heads});
      if (op.window > 0 && kind.stream == TokenStream::fixed) facts.fixed_windows = true;
      break;
    case OperatorKind::causal_conv:
      facts.scans = true;
      facts.split_widths.push_back(op.in);
      break;
    case OperatorKind::scan:
    case OperatorKind::chunked_scan:
    case OperatorKind::gated_delta:
      facts.scans = true;
      facts.split_widths.insert(facts.split_widths.end(), {op.heads, op.kv_heads});
      break;
    case OperatorKind::linear:
    case OperatorKind::patch_embed:
      if (column && std::find(governed.begin(), governed.end(), op.out) == governed.end()) facts.split_widths.push_back(op.out);
      if (row) facts.split_widths.push_back(op.in);
      break;
    case OperatorKind::expert_linear:
      facts.experts.push_back(op.experts);
      if (column) facts.expert_widths.push_back(op.out);
      if (row) facts.expert_widths.push_back(op.in);
      break;
    case OperatorKind::router: facts.experts.push_back(op.experts > 0 ? op.experts : static_cast<std::int32_t>(op.out)); break;
    default: break;
  }
}

void add_kind(RuleFacts& facts, const LayerKind& kind, const Sequence& sequence) {
  const std::vector<std::int64_t> governed = key_value_widths(kind);
  bool causal = false;
  for (const Operator& op : kind.operators) {
    add_operator(facts, kind, op, governed);
    causal = causal || (op.kind == OperatorKind::attention && op.causal && !op.cross);
  }
  if (kind.role == LayerRole::block) facts.sequences.push_back({tokens_per_sample(kind, sequence), causal});
  if (kind.stream != TokenStream::main) facts.one_sequence = false;
  facts.again = facts.again || uses_again(kind);
}

/// Counts the blocks before the first of the main sequence.
std::int32_t tower_blocks(const Model& model) {
  std::int32_t count = 0;
  for (const std::int32_t k : model.layers) {
    const LayerKind& kind = model.kinds[static_cast<std::size_t>(k)];
    if (kind.role == LayerRole::block && kind.stream == TokenStream::main) return count;
    count += kind.role == LayerRole::block ? 1 : 0;
  }
  return 0;
}

/// Adds the facts that rules of engines read.
void add_engine_facts(RuleFacts& facts, const Model& model, const Cluster& cluster, const Training& training) {
  facts.adam = training.optimizer == Optimizer::adam;
  facts.precision = training.precision;
  facts.tokens = training.sequence.main;
  facts.context_length = model.max_positions > 0 ? model.max_positions : model.context_length;
  std::set<std::int64_t, std::greater<>> sizes;
  for (const NodeGroup& group : cluster.groups) sizes.insert(group.devices_per_node);
  facts.node_sizes.assign(sizes.begin(), sizes.end());
  facts.first_blocks = model.tower ? tower_blocks(model) : 0;
  static const std::vector<std::string> known = known_model_families();
  const bool own = model.family == "blocks";  // layers defined by a user, for which an engine needs the user's code
  if (!own && std::binary_search(known.begin(), known.end(), model.family)) facts.family = model.family;
}

RuleFacts base_facts(const Model& model, const Cluster& cluster, const Training& training) {
  RuleFacts facts;
  facts.devices = cluster.devices();
  facts.global_batch = training.global_batch;
  facts.freezes = freezes_weights(training);
  facts.packs = training.lengths.any() && training.lengths.packing != Packing::none;
  facts.hosts = std::all_of(cluster.groups.begin(), cluster.groups.end(), [](const NodeGroup& g) { return g.host.known(); });
  add_engine_facts(facts, model, cluster, training);
  facts.layers = static_cast<std::int32_t>(model.layers.size());
  std::vector<bool> used(model.kinds.size(), false);
  for (const std::int32_t kind : model.layers) used[static_cast<std::size_t>(kind)] = true;
  for (std::size_t k = 0; k < model.kinds.size(); ++k) {
    if (used[k]) add_kind(facts, model.kinds[k], training.sequence);
  }
  for (const std::int32_t kind : model.layers) {
    facts.blocks += model.kinds[static_cast<std::size_t>(kind)].role == LayerRole::block ? 1 : 0;
  }
  facts.modules = modules_of(model, false);
  sort_unique(facts.heads);
  sort_unique(facts.sequences);
  sort_unique(facts.split_widths);
  sort_unique(facts.expert_widths);
  sort_unique(facts.experts);
  facts.largest_chunk.assign(static_cast<std::size_t>(facts.layers) + 1, 0);
  return facts;
}

}  // namespace

RuleFacts rule_facts(const Model& model, const Cluster& cluster, const Training& training, SplitPolicy policy) {
  RuleFacts facts = base_facts(model, cluster, training);
  if (facts.layers == 0) return facts;
  if (policy == SplitPolicy::cumulative) {
    for (std::int32_t chunks = 1; chunks <= facts.layers; ++chunks)
      facts.largest_chunk[static_cast<std::size_t>(chunks)] = largest_chunk_blocks(model, cumulative_split(model, chunks));
    return facts;
  }
  const Splitter splitter(split_weights(model, training.sequence));
  std::vector<std::int32_t> blocks_before(static_cast<std::size_t>(facts.layers) + 1, 0);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    blocks_before[i + 1] = blocks_before[i] + (model.layer(i).role == LayerRole::block ? 1 : 0);
  }
  for (std::int32_t chunks = 1; chunks <= facts.layers; ++chunks) {
    std::vector<std::int32_t> bounds = splitter.split(chunks);
    bounds.push_back(facts.layers);
    std::int32_t& largest = facts.largest_chunk[static_cast<std::size_t>(chunks)];
    for (std::size_t c = 0; c + 1 < bounds.size(); ++c) {
      largest = std::max(
          largest, blocks_before[static_cast<std::size_t>(bounds[c + 1])] - blocks_before[static_cast<std::size_t>(bounds[c])]);
    }
  }
  return facts;
}

RuleFacts rule_facts(const Model& model, const Cluster& cluster, const Training& training, std::int64_t chunks,
                     SplitPolicy policy) {
  RuleFacts facts = base_facts(model, cluster, training);
  if (chunks >= 1 && chunks <= facts.layers) {
    const auto count = static_cast<std::int32_t>(chunks);
    facts.largest_chunk[static_cast<std::size_t>(count)] = largest_chunk_blocks(
        model, policy == SplitPolicy::cumulative ? cumulative_split(model, count)
                                                 : balanced_split(split_weights(model, training.sequence), count));
  }
  return facts;
}

}  // namespace espalier
