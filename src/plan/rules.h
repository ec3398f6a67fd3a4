// SPDX-License-Identifier: Apache-2.0
// Defines the uniform space as a table of rules: name, sentence, the dimensions it reads, a predicate, an explanation.
//
//   violations(...)  (espalier/plan.h)   walks the table and explains every broken rule
//   is_legal(...)                        walks the same table without allocation: about 0.1 µs per configuration.
//
// A predicate reads only the dimensions of `reads` (and the facts), so that a search may apply a rule as soon as those
// are chosen. Configurations with several equivalent names have one canonical name; the rules reject the others.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/plan.h"
#include "plan/dimension.h"

namespace espalier {

struct HeadFacts {
  std::int32_t heads = 0, kv_heads = 0;
  auto operator<=>(const HeadFacts&) const = default;
};
struct SequenceFacts {
  std::int64_t tokens = 0;
  bool causal = false;
  auto operator<=>(const SequenceFacts&) const = default;
};

/// Schedules with more chunk passes (pp · vpp · m) are rejected: they could be neither lowered nor simulated.
inline constexpr std::int64_t kMaxChunkPasses = std::int64_t{1} << 21;
/// Limits degrees, so that products of three fit into 64 bits.
inline constexpr std::int32_t kMaxDegree = 1 << 20;

/// Holds the facts of the problem that the rules need: small vectors of distinct values, sorted.
struct RuleFacts {
  std::int64_t devices = 0;
  std::int64_t global_batch = 0;
  /// The step has global_batch samples or more, for a bound over all such steps; no plan is made this way.
  /// Micro-batches have any size that batch_ladder lists. The number of micro-batches is the fewest of the largest
  /// size on the same rung that hold the samples.
  bool at_least = false;
  std::int32_t layers = 0;
  std::int32_t blocks = 0;
  std::vector<HeadFacts> heads;             ///< heads of every attention
  std::vector<SequenceFacts> sequences;     ///< sequences of every block
  std::vector<std::int64_t> split_widths;   ///< features that TP splits: column outputs and row inputs of linears
  std::vector<std::int64_t> expert_widths;  ///< such features inside experts
  std::vector<std::int32_t> experts;        ///< routed experts of every MoE layer
  bool one_sequence = true;                 ///< every layer works on the one main sequence (not T5, not vision)
  bool freezes = false;                     ///< weights of the model stay as they are (freezes_weights)
  bool packs = false;                       ///< several sequences are packed into a sample
  bool hosts = false;                       ///< the host of every node is known
  bool fixed_windows = false;               ///< windowed attention on a fixed number of tokens (Swin)
  bool scans = false;                       ///< some layer carries a state along the sequence
  bool again = false;                       ///< some layer uses the weights of an earlier one (shared_table.h)
  bool adam = true;                         ///< the optimizer is Adam
  std::vector<std::int64_t> node_sizes;     ///< devices of a node, the largest first
  Precision precision = Precision::bf16;
  std::int64_t tokens = 0;          ///< tokens of the main sequence
  std::int64_t context_length = 0;  ///< longest sequence of the model; 0: not stated
  std::int32_t first_blocks = 0;    ///< blocks of towers, which come before those of the main sequence
  std::string family;               ///< `model_type` of the model, if it is a known one
  RecomputeModules modules;         ///< modules that blocks of the model have
  /// Holds the blocks in the fullest chunk by number of chunks; 0: not computed. The split is the balanced one, or
  /// the cumulative one for engines that use it.
  std::vector<std::int32_t> largest_chunk;
};

inline std::int64_t chunks_of(const Schedule& c) { return std::int64_t{c.stages} * c.virtual_stages; }

RuleFacts rule_facts(const Model& model, const Cluster& cluster, const Training& training,
                     SplitPolicy policy = SplitPolicy::balanced);
/// Returns the facts with largest_chunk filled for `chunks` only, to check one configuration.
RuleFacts rule_facts(const Model& model, const Cluster& cluster, const Training& training, std::int64_t chunks,
                     SplitPolicy policy = SplitPolicy::balanced);

struct Rule {
  std::string_view name;
  std::string_view sentence;
  DimensionSet reads = 0;
  Dimension fix = Dimension::tp;  ///< the dimension whose nearest legal value the hint names
  bool (*holds)(const RuleFacts&, const Strategy&, const Schedule&) = nullptr;
  std::string (*text)(const RuleFacts&, const Strategy&, const Schedule&) = nullptr;
};
/// Returns whether any two ranks hold the same weights, so that gradients are reduced: dense ones, or experts of a
/// model that has some.
inline bool replicates_weights(bool experts, const Strategy& s) {
  return s.data_ranks() > 1 || (experts && s.expert_data_ranks() > 1);
}

/// Describes a rule of whole pipelines, about the strategies of different layers. Every uniform pipeline satisfies it.
struct PlanRule {
  std::string_view name;
  std::string_view sentence;
  std::string (*fault)(const Model&, const Pipeline&) = nullptr;  ///< the fault, with the strategies; empty: none
};
std::span<const PlanRule> plan_rules();
/// Returns the plan rules that a plan of sound structure breaks.
std::vector<RuleViolation> plan_violations(const Model& model, const Plan& plan);

/// Lists the rules in order of evaluation; the first, "degrees-positive", guards the others.
std::span<const Rule> rules();
const Rule* find_rule(std::string_view name);

/// Returns whether no rule is broken. It is thread-safe and does not allocate.
bool is_legal(const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule);
std::vector<RuleViolation> violations(const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule);

/// Returns "tp 4 or 8": the nearest values of `fix` (or else of another dimension in `reads`) with which `holds` is
/// true. Everything else stays, and the number of micro-batches follows. Empty if there is none.
std::string nearest_legal(const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule, DimensionSet reads,
                          Dimension fix, const std::function<bool(const Strategy&, const Schedule&)>& holds);

/// Returns the largest micro-batch on the rung of a ladder that begins with `micro_batch`. Every size up to
/// kExactRungs is a separate rung; beyond, each rung is an eighth longer than the one before.
std::int64_t rung_end(std::int64_t micro_batch);
inline constexpr std::int64_t kExactRungs = 16;

/// Returns the micro-batches that follow from the batch: global_batch / (micro_batch · dp), or 0 if that is no integer.
/// With RuleFacts::at_least it is the fewest that hold the batch, in full groups of pp if they are interleaved.
std::int64_t microbatches_of(const RuleFacts& facts, const Strategy& strategy, const Schedule& schedule);

}  // namespace espalier
