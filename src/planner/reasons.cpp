// SPDX-License-Identifier: Apache-2.0
#include "planner/reasons.h"

#include <algorithm>

#include "base/format.h"
#include "cost/offload.h"
#include "plan/engine.h"
#include "planner/alternatives.h"
#include "planner/estimate.h"
#include "planner/layerwise_reasons.h"
#include "planner/partition_report.h"
#include "planner/pipeline_bottleneck.h"
#include "planner/plan_layers.h"
#include "planner/prediction.h"
#include "planner/runs_on.h"
#include "planner/time_parts.h"

namespace espalier::planner {
namespace {

std::string hidden_sentence(const Prediction& p) {
  if (p.hidden_communication_ns <= 0) return "";
  return "; " + seconds(p.hidden_communication_ns) + " of communication is hidden under compute";
}

std::string bottleneck(const Prediction& p, HostWork host) {
  if (p.bottleneck.busy_per_stage.size() > 1) return pipeline_bottleneck(p, host);
  const std::vector<TimePart> parts = parts_by_size(p.breakdown, host);
  std::string out = "The step is bound by " + named_share(parts[0], p.iteration_ns);
  if (parts[1].ns > 0) out += "; next comes " + named_share(parts[1], p.iteration_ns);
  return out + hidden_sentence(p) + ".";
}

/// Describes a plan that fits the devices but not the hosts.
std::string host_sentence(const Job& job, const Plan& plan) {
  const auto engine = engine_of(job);
  const auto timed = engine ? time_plan(job, **engine, plan, false) : Result<Timed>(engine.error());
  if (!timed) return "It does not fit in host memory.";
  const cost::HostNeed need = cost::host_need(job.cluster, timed->costs);
  return "It does not fit: the offloaded data takes " + gib(need.bytes) + " of the host memory of a node, which has " +
         gib(need.memory) + " (cluster.host.memory).";
}

std::string memory_sentence(const Job& job, const Plan& plan, const Prediction& p) {
  if (!p.fits && p.peak_memory_bytes <= p.memory_limit_bytes) return host_sentence(job, plan);
  if (!p.fits)
    return "It does not fit: the fullest rank needs " + gib(p.peak_memory_bytes) + " of " + gib(p.memory_limit_bytes) + ".";
  std::string out = "The fullest rank uses " + gib(p.peak_memory_bytes) + " of " + gib(p.memory_limit_bytes);
  const auto margin = static_cast<std::int64_t>(p.memory_margin * static_cast<double>(p.memory_limit_bytes));
  const std::int64_t room = p.memory_limit_bytes - p.peak_memory_bytes;
  if (margin == 0) return out + ", " + gib(room) + " are free.";
  if (!p.fits_with_margin)
    return out + ": it fits, but leaves less free than the " + gib(margin) + " (" + percent(p.memory_margin) +
           ") that `plan` keeps free for the error of the memory model.";
  return out + "; " + gib(margin) + " (" + percent(p.memory_margin) + ") is kept free for the error of the memory model, and " +
         gib(room - margin) + " more is free.";
}

void baseline_sentences(const PlannerResult& r, std::vector<std::string>& out) {
  for (const Alternative& a : r.alternatives) {
    if (!a.baseline || a.iteration_ns == 0) continue;
    const double times = static_cast<double>(a.iteration_ns) / static_cast<double>(r.prediction.iteration_ns);
    if (!a.fits) {
      out.push_back(a.label + " does not fit (" + a.lost_to + ").");
    } else if (times >= 1.005) {
      out.push_back(base::fixed(times, 2) + "× faster than " + (a.label == kBestUniformPlan ? "the " : "") + a.label +
                    ", whose step has " + a.lost_to + ".");
    } else if (a.iteration_ns < r.prediction.iteration_ns && searched(r.search.reason)) {
      out.push_back(base::cat(a.label, " would be faster: ", a.lost_to, "."));
    }
  }
}

/// Suggests the batch that would divide better.
std::vector<std::string> batch_sentences(const PlannerResult& r) {
  if (!r.batch_hint) return {};
  const BatchHint& h = *r.batch_hint;
  return {base::cat("The divisors of global batch ", base::grouped(r.plan.training.global_batch), " limit the plan: with ",
                    base::grouped(h.global_batch), " samples ", h.label, " takes ", seconds(h.iteration_ns), ", ",
                    percent(h.gain), " less time than this plan would need for them.")};
}

/// Names the rules that keep the usual engines from a plan on heterogeneous devices.
std::vector<std::string> engine_sentences(const Job& job, const PlannerResult& r) {
  if (job.cluster.homogeneous() || !r.runs_on) return {};
  std::string kept;
  for (const std::string_view name : kUsualEngines) {
    const EngineModel& engine = *find_engine(name);
    if (const auto rules = broken_rules(engine, job, r.plan); !rules.empty())
      kept += base::cat(kept.empty() ? "" : "; ", name, ": ", base::joined(rules));
  }
  if (kept.empty()) return {};
  return {base::cat("Unlike devices: the rules that prevent engines from running this plan are ", kept,
                    " (for others: check --engine NAME).")};
}

/// Describes the simulated plan without its recomputation.
std::string without_recomputation(const Job& job, const PlannerResult& r, Strategy s, const Schedule& schedule) {
  const Recompute own = s.recompute;
  s.recompute = {};
  const auto p = predict(job, s, schedule);
  if (!p) return "";
  const std::string what =
      base::cat("Without the full recomputation of ", own.layers, own.layers == 1 ? " block" : " blocks", " per chunk ");
  if (!p->fits || (!p->fits_with_margin && r.prediction.fits_with_margin))
    return base::cat(what, "this plan would need ", gib(p->peak_memory_bytes), " of ", gib(p->memory_limit_bytes),
                     p->fits ? ", which is more than the memory margin allows." : ".");
  const std::int64_t less = r.prediction.iteration_ns - p->iteration_ns;
  return base::cat(what, "this plan would fit, and its step would be ", seconds(less < 0 ? -less : less),
                   less < 0 ? " longer." : " shorter.");
}

}  // namespace

std::vector<std::string> reasons_of(const Job& job, const PlannerResult& r) {
  std::vector<std::string> out = {bottleneck(r.prediction, host_work_of(r.plan)), memory_sentence(job, r.plan, r.prediction)};
  std::int32_t tp = 1;
  for (const StrategyCount& c : strategy_counts(r.plan)) tp = std::max(tp, c.strategy.tp);
  const std::int64_t node = job.cluster.groups.front().devices_per_node;
  if (tp > node)
    out.push_back("TP " + std::to_string(tp) + " leaves the node of " + std::to_string(node) +
                  " devices: this is unusual; check the fabric figures.");
  const auto uniform = uniform_configuration(r.plan);
  if (!uniform) {
    for (std::string& sentence : layerwise_reasons(r)) out.push_back(std::move(sentence));
  } else if (const auto& [s, schedule] = *uniform; s.recompute.kind == RecomputeKind::full) {
    if (std::string sentence = without_recomputation(job, r, s, schedule); !sentence.empty()) out.push_back(std::move(sentence));
  }
  for (std::string& sentence : partition_sentences(r)) out.push_back(std::move(sentence));
  for (std::string& sentence : engine_sentences(job, r)) out.push_back(std::move(sentence));
  for (std::string& sentence : batch_sentences(r)) out.push_back(std::move(sentence));
  baseline_sentences(r, out);
  return out;
}

}  // namespace espalier::planner
