// SPDX-License-Identifier: Apache-2.0
// Converts a strategy file to a plan.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/invariant.h"
#include "galvatron/plan_conversion.h"
#include "plan/rules.h"
#include "plan/uniform.h"

namespace espalier::galvatron {
namespace {

constexpr std::int64_t kMaxSamples = std::numeric_limits<std::int32_t>::max();

Error bad_document(std::string where, std::string found, std::string expected, std::string hint) {
  return {ErrorKind::bad_input, std::move(where), std::move(found), std::move(expected), std::move(hint)};
}

std::string entry(std::string_view field, std::size_t i) { return "$." + std::string(field) + "[" + std::to_string(i) + "]"; }

ZeroStage zero_of(DataParallelType type) {
  switch (type) {
    case DataParallelType::ddp: return ZeroStage::none;
    case DataParallelType::zero2: return ZeroStage::gradients;
    case DataParallelType::zero3: return ZeroStage::parameters;
  }
  return ZeroStage::none;
}

class Conversion {
 public:
  Conversion(const StrategyDocument& document, const Model& model, const Cluster& cluster, const Training& training,
             SequenceParallel tensor_groups)
      : d_(document), model_(model), cluster_(cluster), training_(training), tensor_groups_(tensor_groups) {}

  Result<Plan> run() {
    if (Status status = check_problem(); !status.ok()) return status.error();
    if (Status status = check_layers(); !status.ok()) return status.error();
    if (Status status = read_strategies(); !status.ok()) return status.error();
    if (Status status = check_rules(); !status.ok()) return status.error();
    Plan plan = assembled();
    if (Status status = validate(plan); !status.ok()) return status.error();
    return plan;
  }

 private:
  [[nodiscard]] std::int64_t stage_devices() const { return cluster_.devices() / d_.pp; }
  [[nodiscard]] std::int64_t samples() const { return d_.global_batch / d_.chunks; }

  [[nodiscard]] Status check_problem() const {
    ESPALIER_CHECK(d_.division.size() == static_cast<std::size_t>(d_.pp));
    ESPALIER_CHECK(std::accumulate(d_.division.begin(), d_.division.end(), std::size_t{0}) == d_.layers.size());
    const std::int64_t blocks = model_.blocks();
    if (static_cast<std::int64_t>(d_.layers.size()) != blocks || blocks + 2 != static_cast<std::int64_t>(model_.layers.size()))
      return bad_document("$.tp_sizes_enc", std::to_string(static_cast<std::int64_t>(d_.layers.size())) + " layers",
                          std::to_string(blocks) + ", the blocks of the model", "the file is for another model");
    if (d_.global_batch != training_.global_batch)
      return bad_document("$.global_bsz", std::to_string(d_.global_batch),
                          std::to_string(training_.global_batch) + ", the global batch of the training",
                          "set the training's global batch to that of the file");
    if (cluster_.devices() % d_.pp != 0)
      return bad_document("$.pp_deg", std::to_string(d_.pp) + " stages",
                          "a divisor of the " + std::to_string(cluster_.devices()) + " devices",
                          "the file is for another number of devices");
    if (d_.global_batch % d_.chunks != 0)
      return bad_document("$.chunks", std::to_string(d_.chunks),
                          "a divisor of the global batch, " + std::to_string(d_.global_batch),
                          "plans have micro-batches of equal size");
    if (d_.chunks > kMaxChunkPasses || samples() > kMaxSamples)
      return bad_document("$.chunks", std::to_string(d_.chunks) + " of " + std::to_string(samples()) + " samples",
                          "at most " + std::to_string(kMaxChunkPasses) + " of at most " + std::to_string(kMaxSamples),
                          "the step would be too large to represent");
    return {};
  }

  /// Rejects features without a counterpart in a plan.
  [[nodiscard]] Status check_layers() const {
    for (std::size_t i = 0; i < d_.layers.size(); ++i) {
      const DocumentLayer& l = d_.layers[i];
      if (!l.tp_consecutive && l.tp > 1 && stage_devices() > std::int64_t{l.tp} * l.cp)
        return bad_document(entry("tp_consecutive_flags", i), "0, strided tensor groups",
                            "1: tensor groups are innermost in a plan",
                            "set the flag to 1; the plan is then priced with adjacent ranks");
      if (l.checkpoint > 1)
        return bad_document(entry("checkpoint", i), std::to_string(l.checkpoint), "0 (keep) or 1 (recompute)",
                            "use 1 for whole blocks");
    }
    return {};
  }

  Result<Strategy> strategy_of(std::int64_t tp, std::int64_t cp, bool ulysses, bool zero3, const std::string& where) const {
    if (stage_devices() % (tp * cp) != 0)
      return bad_document(where, "tp " + std::to_string(tp) + " with cp " + std::to_string(cp),
                          "a divisor of the " + std::to_string(stage_devices()) + " devices of a stage",
                          "the file is for another number of devices");
    Strategy s;
    s.tp = static_cast<std::int32_t>(tp);
    s.cp = static_cast<std::int32_t>(cp);
    s.dp = static_cast<std::int32_t>(stage_devices() / (tp * cp));
    if (tp > 1) s.sp = ulysses ? SequenceParallel::ulysses : tensor_groups_;
    if (s.data_ranks() > 1) s.zero = zero3 ? ZeroStage::parameters : zero_of(d_.default_type);
    s.shard = s.shards_optimizer() ? static_cast<std::int32_t>(s.data_ranks()) : 1;
    s.overlap.grad_reduce = s.data_ranks() > 1;
    s.overlap.param_gather = s.shards_parameters();
    if (samples() % s.dp != 0)
      return bad_document(where, "dp " + std::to_string(s.dp),
                          "a divisor of the " + std::to_string(samples()) + " samples of a micro-batch (global_bsz / chunks)",
                          "fewer chunks, or a larger group for the layer");
    return s;
  }

  /// Reads the strategy of every layer of the model; recompute.layers is 1 where the block is recomputed.
  Status read_strategies() {
    const auto vocabulary = strategy_of(d_.vocab_tp, d_.vocab_cp, d_.vocab_ulysses, d_.vocab_zero3, "$.vtp");
    if (!vocabulary) return vocabulary.error();
    strategies_.push_back(*vocabulary);
    for (std::size_t i = 0; i < d_.layers.size(); ++i) {
      const DocumentLayer& l = d_.layers[i];
      auto s = strategy_of(l.tp, l.cp, l.ulysses, l.zero3, entry("tp_sizes_enc", i));
      if (!s) return s.error();
      if (l.checkpoint == 1) s->recompute = {RecomputeKind::full, 1};
      strategies_.push_back(*s);
    }
    strategies_.push_back(*vocabulary);
    return {};
  }

  [[nodiscard]] Schedule schedule() const {
    Schedule s;
    s.kind = d_.one_f_one_b || d_.pp == 1 ? ScheduleKind::one_f_one_b : ScheduleKind::gpipe;
    s.stages = d_.pp;
    s.microbatches = static_cast<std::int32_t>(d_.chunks);
    s.micro_batch = static_cast<std::int32_t>(samples() / strategies_.front().dp);
    return s;
  }

  /// Checks the rules of the space, strategy by strategy. The number of recomputed blocks is left to ranges().
  [[nodiscard]] Status check_rules() const {
    for (std::size_t i = 0; i < strategies_.size(); ++i) {
      if (i > 0 && strategies_[i] == strategies_[i - 1]) continue;
      Strategy s = strategies_[i];
      s.recompute = {};
      Schedule own = schedule();
      own.micro_batch = static_cast<std::int32_t>(samples() / s.dp);
      const auto broken = violations(model_, cluster_, training_, s, own);
      if (broken.empty()) continue;
      const bool block = i > 0 && i + 1 < strategies_.size();
      return bad_document(block ? entry("tp_sizes_enc", i - 1) : "$.vtp", broken.front().text, "rule " + broken.front().rule,
                          broken.front().hint);
    }
    return {};
  }

  /// Returns layers first … last as ranges of equal strategies; full recomputation counts its blocks. Embedding and
  /// head have nothing to recompute and join either kind of range.
  [[nodiscard]] std::vector<LayerRange> ranges(std::int32_t first, std::int32_t last) const {
    std::vector<LayerRange> out;
    Strategy spread;          // strategy of the open range, without recomputation
    std::int32_t blocks = 0;  // its blocks
    bool recomputed = false;  // these blocks
    for (std::int32_t i = first; i <= last; ++i) {
      Strategy s = strategies_[static_cast<std::size_t>(i)];
      const bool block = i > 0 && i + 1 < static_cast<std::int32_t>(strategies_.size());
      const bool again = s.recompute.kind == RecomputeKind::full;
      s.recompute = {};
      if (out.empty() || s != spread || (block && blocks > 0 && again != recomputed)) {
        out.push_back({i, i, s});
        spread = s;
        blocks = 0;
        recomputed = false;
      }
      if (block) {
        ++blocks;
        recomputed = again;
      }
      out.back().last = i;
      out.back().strategy.recompute = recomputed ? Recompute{RecomputeKind::full, blocks} : Recompute{};
    }
    return out;
  }

  /// Returns how many of its first blocks every stage recomputes, where all layers are spread alike; nothing where
  /// stages differ. In a stage that recomputes all its blocks, the number may be larger.
  [[nodiscard]] std::optional<std::int32_t> recomputed_first() const {
    std::int32_t first = 1, most = 0;
    std::vector<std::pair<std::int32_t, std::int32_t>> stages;  // recomputed, blocks
    for (const std::int32_t blocks : d_.division) {
      std::int32_t count = 0;
      while (count < blocks && recomputes(first + count)) ++count;
      for (std::int32_t l = first + count; l < first + blocks; ++l)
        if (recomputes(l)) return std::nullopt;
      stages.emplace_back(count, blocks);
      most = std::max(most, count);
      first += blocks;
    }
    for (const auto& [count, blocks] : stages)
      if (count != std::min(most, blocks)) return std::nullopt;
    return most;
  }
  [[nodiscard]] bool recomputes(std::int32_t layer) const {
    return strategies_[static_cast<std::size_t>(layer)].recompute.kind == RecomputeKind::full;
  }
  /// Returns the one strategy of all layers; nothing where they differ.
  [[nodiscard]] std::optional<Strategy> strategy_of_all() const {
    const auto first = recomputed_first();
    if (!first) return std::nullopt;
    for (Strategy s : strategies_) {
      s.recompute = {};
      if (s != strategies_.front()) return std::nullopt;
    }
    Strategy out = strategies_.front();
    if (*first > 0) out.recompute = {RecomputeKind::full, *first};
    return out;
  }

  [[nodiscard]] Plan assembled() const {
    const std::optional<Strategy> all = strategy_of_all();
    Pipeline pipeline = uniform_pipeline(model_, training_, strategies_.front(), schedule(), SplitPolicy::even_blocks);
    std::vector<Stage>& stages = pipeline.stages;
    std::int32_t next = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const bool is_last = i + 1 == stages.size();
      const std::int32_t last = next + d_.division[i] - 1 + (i == 0 ? 1 : 0) + (is_last ? 1 : 0);
      stages[i].chunks = {{all ? std::vector<LayerRange>{{next, last, *all}} : ranges(next, last)}};
      stages[i].devices = {{stage_devices() * static_cast<std::int64_t>(i), stage_devices(), 1}};
      next = last + 1;
    }
    return plan_of_pipeline(model_, cluster_, training_, "generic", std::move(pipeline));
  }

  const StrategyDocument& d_;
  const Model& model_;
  const Cluster& cluster_;
  const Training& training_;
  SequenceParallel tensor_groups_;
  std::vector<Strategy> strategies_;
};

}  // namespace

Result<Plan> plan_of(const StrategyDocument& document, const Model& model, const Cluster& cluster, const Training& training,
                     SequenceParallel tensor_groups) {
  ESPALIER_CHECK(tensor_groups != SequenceParallel::ulysses);
  return Conversion(document, model, cluster, training, tensor_groups).run();
}

}  // namespace espalier::galvatron
