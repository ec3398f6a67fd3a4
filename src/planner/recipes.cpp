// SPDX-License-Identifier: Apache-2.0
#include "planner/recipes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/format.h"

namespace espalier::planner {
namespace {

using search::Configuration;

struct Recipe {
  const char* label;
  double parameters;
  std::int32_t tp, pp, vpp, ep;
  ZeroStage zero;
  RecomputeKind recompute;
};

constexpr ZeroStage kOptimizer = ZeroStage::optimizer, kParameters = ZeroStage::parameters;
constexpr RecomputeKind kSelective = RecomputeKind::selective, kFull = RecomputeKind::full;

constexpr std::array kMegatron = {
    Recipe{"Megatron-LM recipe (GPT 1.7B)", 1.7e9, 1, 1, 1, 1, kOptimizer, kSelective},
    Recipe{"Megatron-LM recipe (GPT 3.6B)", 3.6e9, 2, 1, 1, 1, kOptimizer, kSelective},
    Recipe{"Megatron-LM recipe (GPT 7.5B)", 7.5e9, 4, 1, 1, 1, kOptimizer, kSelective},
    Recipe{"Megatron-LM recipe (GPT 18B)", 18.4e9, 8, 1, 1, 1, kOptimizer, kSelective},
    Recipe{"Megatron-LM recipe (GPT 39B)", 39.1e9, 8, 2, 1, 1, kOptimizer, kSelective},
    Recipe{"Megatron-LM recipe (GPT 76B)", 76.1e9, 8, 4, 1, 1, kOptimizer, kSelective},
    Recipe{"Megatron-LM recipe (GPT 175B)", 175e9, 8, 8, 3, 1, kOptimizer, kSelective},
    Recipe{"Megatron-LM recipe (GPT 310B)", 310.1e9, 8, 16, 1, 1, kOptimizer, kSelective},
    Recipe{"Megatron-LM recipe (GPT 530B)", 529.6e9, 8, 35, 3, 1, kOptimizer, kSelective},
    Recipe{"Megatron-LM recipe (GPT 1T)", 1008e9, 8, 64, 1, 1, kOptimizer, kSelective},
};
constexpr std::array kTorchtitan = {
    Recipe{"torchtitan recipe (Llama 3 8B)", 8.0e9, 1, 1, 1, 1, kParameters, kSelective},
    Recipe{"torchtitan recipe (Llama 3 70B)", 70.6e9, 8, 1, 1, 1, kParameters, kFull},
    Recipe{"torchtitan recipe (Llama 3 405B)", 405.9e9, 8, 8, 2, 1, kParameters, kFull},
};
constexpr Recipe kDeepSeek = {"DeepSeek-V3 recipe", 671e9, 1, 16, 1, 64, kOptimizer, RecomputeKind::none};
constexpr double kLeastOfDeepSeek = 300e9;

/// The recipe of the nearest size whose groups divide the devices; where none does, of the nearest size.
const Recipe& nearest(std::span<const Recipe> of, double parameters, std::int64_t devices) {
  const auto before = [&](const Recipe& a, const Recipe& b) {
    const bool a_divides = devices % (std::int64_t{a.tp} * a.pp) == 0, b_divides = devices % (std::int64_t{b.tp} * b.pp) == 0;
    if (a_divides != b_divides) return a_divides;
    return std::fabs(std::log(a.parameters / parameters)) < std::fabs(std::log(b.parameters / parameters));
  };
  return *std::min_element(of.begin(), of.end(), before);
}

Configuration configuration_of(const Recipe& r, const RuleFacts& facts, std::int32_t vpp) {
  Configuration c;
  c.strategy.tp = r.tp;
  c.strategy.sp = r.tp > 1 ? SequenceParallel::megatron : SequenceParallel::none;
  c.strategy.ep = r.ep;
  c.strategy.dp = static_cast<std::int32_t>(facts.devices / (std::int64_t{r.tp} * r.pp));
  c.schedule.stages = r.pp;
  c.schedule.virtual_stages = vpp;
  if (vpp > 1) c.schedule.kind = ScheduleKind::interleaved;
  if (c.strategy.dp > 1) {
    c.strategy.zero = r.zero;
    c.strategy.shard = c.strategy.dp;
    c.strategy.overlap.grad_reduce = true;
    c.strategy.overlap.param_gather = true;
  }
  c.strategy.overlap.p2p = r.pp > 1;
  c.strategy.recompute.kind = r.recompute;
  const auto chunks = static_cast<std::size_t>(r.pp) * static_cast<std::size_t>(vpp);
  if (r.recompute == RecomputeKind::full)
    c.strategy.recompute.layers = chunks < facts.largest_chunk.size() ? facts.largest_chunk[chunks] : 0;
  return c;
}

/// Members of micro-batches 1 … 16; where the model has too few layers or micro-batches to interleave as the recipe does, one chunk a stage.
Baseline family_of(const Recipe& r, const RuleFacts& facts) {
  Baseline out{r.label, {}, ""};
  const std::int64_t devices = std::int64_t{r.tp} * r.pp;
  if (facts.devices % devices != 0) {
    out.refusal = base::cat("needs a multiple of ", std::to_string(devices), " devices");
    return out;
  }
  for (const std::int32_t vpp : {r.vpp, 1}) {
    for (const std::int32_t micro_batch : {1, 2, 4, 8, 16}) {
      Configuration c = configuration_of(r, facts, vpp);
      c.schedule.micro_batch = micro_batch;
      c.schedule.microbatches = static_cast<std::int32_t>(microbatches_of(facts, c.strategy, c.schedule));
      const std::vector<RuleViolation> broken = violations(facts, c.strategy, c.schedule);
      if (broken.empty())
        out.family.push_back(c);
      else if (out.refusal.empty())
        out.refusal = broken.front().rule + ": " + broken.front().text;
    }
    if (!out.family.empty()) break;
  }
  if (!out.family.empty()) out.refusal.clear();
  return out;
}

}  // namespace

std::vector<Baseline> recipes(const Job& job, const RuleFacts& facts) {
  if (job.training.sequence.main == 0) return {};
  const auto parameters = static_cast<double>(parameter_count(job.model));
  std::vector<Baseline> out;
  if (facts.experts.empty()) {
    out.push_back(family_of(nearest(kMegatron, parameters, facts.devices), facts));
    out.push_back(family_of(nearest(kTorchtitan, parameters, facts.devices), facts));
  } else if (parameters >= kLeastOfDeepSeek) {
    out.push_back(family_of(kDeepSeek, facts));
  }
  return out;
}

}  // namespace espalier::planner
