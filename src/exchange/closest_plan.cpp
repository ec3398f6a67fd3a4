// SPDX-License-Identifier: Apache-2.0
// Finds the nearest plan that a format can express, where it cannot express the given one exactly (closest_plan of
// espalier/exchange.h). It replaces one value at a time by the nearest with which the rule holds and no other breaks.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/division.h"
#include "base/format.h"
#include "espalier/exchange.h"
#include "exchange/format_rules.h"
#include "plan/dimension.h"
#include "plan/engine.h"
#include "plan/engine_assertions.h"
#include "plan/engine_faults.h"
#include "plan/recompute_modules.h"
#include "plan/rules.h"
#include "plan/uniform.h"

namespace espalier::exchange {
namespace {

using D = Dimension;

/// These dimensions do not affect which rank holds which weights. They are tried in this order, cheap ones first.
constexpr std::array kReplaceable = {
    D::overlap_tp, D::overlap_p2p, D::overlap_param,    D::overlap_grad, D::order, D::cp_kind, D::offload,
    D::sp,         D::recompute,   D::recompute_layers, D::schedule,     D::shard, D::zero};

struct ChangedConfiguration {
  Strategy strategy;
  Schedule schedule;
};

struct Fault {
  std::string id, text;
  bool of_format = false;  ///< broken row of the format, which reports only its first fault
};

/// Holds the inputs of the search for a closest plan.
struct ExportTarget {
  const Exporter& format;
  const EngineModel* engine;  ///< null: the format has no rules of an engine
  const Job& job;
  const Plan& asked;
  RuleFacts facts;
  SplitPolicy split;
};

std::int32_t fullest_chunk(const ExportTarget& t, const Schedule& schedule) {
  const std::int64_t chunks = std::int64_t{schedule.stages} * schedule.virtual_stages;
  if (t.split == SplitPolicy::even_blocks || chunks > t.facts.layers)
    return static_cast<std::int32_t>(ceil_div(t.facts.blocks, chunks));
  return t.facts.largest_chunk[static_cast<std::size_t>(chunks)];
}

/// Adjusts the values that depend on a changed one.
void settle(const ExportTarget& t, D changed, ChangedConfiguration& c) {
  Strategy& s = c.strategy;
  if (changed == D::zero) s.shard = s.shards_optimizer() ? static_cast<std::int32_t>(s.data_ranks()) : 1;
  if (!s.shards_optimizer()) s.overlap.param_gather = false;
  if (s.sp != SequenceParallel::megatron) s.overlap.tp = false;
  if (changed == D::schedule)
    c.schedule.virtual_stages = c.schedule.kind == ScheduleKind::zb_v          ? 2
                                : c.schedule.kind == ScheduleKind::interleaved ? std::max(2, c.schedule.virtual_stages)
                                                                               : 1;
  if (t.engine != nullptr && !t.engine->runs.chooses_overlap) s.overlap = always_overlapped(*t.engine, t.facts, s, c.schedule);
  if (changed == D::recompute && s.recompute.kind == RecomputeKind::selective && t.engine != nullptr)
    s.recompute.modules = selective_modules(*t.engine, t.job.model);
  const std::int32_t most = fullest_chunk(t, c.schedule);
  if (s.recompute.kind != RecomputeKind::full)
    s.recompute.layers = 0;
  else if (changed == D::recompute || s.recompute.layers == 0 || s.recompute.layers > most)
    s.recompute.layers = most;
}

/// Returns the values to try, the nearest first. In place of selective recomputation, the value that keeps fewer
/// activations comes first.
std::vector<std::int64_t> values_of(const ExportTarget& t, D d, const ChangedConfiguration& c) {
  const std::int64_t now = get(d, c.strategy, c.schedule);
  if (d == D::shard) return {c.strategy.data_ranks()};
  if (d == D::recompute_layers) return {fullest_chunk(t, c.schedule)};
  std::vector<std::int64_t> out;
  const std::int64_t end = value_count(d);
  for (std::int64_t v = 0; v < end; ++v)
    // An unchanged kind can still be tried with other modules.
    if (v != now || (d == D::recompute && c.strategy.recompute.modules.any())) out.push_back(v);
  const std::int64_t up = d == D::recompute || d == D::zero ? -1 : 1;  // decides between two equally near values
  std::stable_sort(out.begin(), out.end(), [&](std::int64_t a, std::int64_t b) {
    return std::pair(std::abs(a - now), up * a) < std::pair(std::abs(b - now), up * b);
  });
  return out;
}

bool places_alike(const Schedule& a, const Schedule& b) {
  if (a.stages != b.stages || a.virtual_stages != b.virtual_stages) return false;
  for (std::int32_t k = 0; k < a.virtual_stages; ++k)
    if (pipeline_chunk(a, 0, k) != pipeline_chunk(b, 0, k)) return false;
  return true;
}

/// Returns the pipeline with one configuration for all layers. Its stages keep their layers where they can.
Pipeline with_configuration(const ExportTarget& t, const Pipeline& own, const ChangedConfiguration& c) {
  Pipeline made = uniform_pipeline(t.job.model, t.asked.training, c.strategy, c.schedule, t.split);
  made.id = own.id;
  made.samples = own.samples;
  if (!places_alike(own.schedule, c.schedule)) return made;
  for (std::size_t i = 0; i < made.stages.size(); ++i)
    for (std::size_t k = 0; k < made.stages[i].chunks.size(); ++k)
      made.stages[i].chunks[k].ranges = {{own.stages[i].chunks[k].first(), own.stages[i].chunks[k].last(), c.strategy}};
  return made;
}

/// Returns the requested plan, with this pipeline as its only one.
Plan with_pipeline(const ExportTarget& t, const Pipeline& pipeline) {
  Plan out = t.asked;
  out.pipelines = {pipeline};
  return out;
}

std::vector<Fault> faults_of(const ExportTarget& t, const Plan& plan) {
  std::vector<Fault> out;
  if (t.engine != nullptr)
    for (const RuleViolation& v : engine_faults(*t.engine, t.job.model, t.job.cluster, t.job.training, plan))
      out.push_back({v.rule, v.text});
  if (t.format.fault != nullptr && out.empty())  // it checks the engine's rules first
    if (const auto fault = t.format.fault(t.job, plan)) out.push_back({fault->id, fault->found, true});
  return out;
}

std::vector<Fault> faults_of(const ExportTarget& t, const Pipeline& pipeline) { return faults_of(t, with_pipeline(t, pipeline)); }

/// Returns the strategy that most layers have, with the samples of a micro-batch of its pipeline; nothing where these
/// do not divide.
std::optional<ChangedConfiguration> of_most_layers(const ExportTarget& t, const Pipeline& own) {
  ChangedConfiguration out{strategy_counts(t.asked).front().strategy, own.schedule};
  const std::int64_t samples = own.samples_per_microbatch();
  if (samples % out.strategy.dp != 0) return std::nullopt;
  out.schedule.micro_batch = static_cast<std::int32_t>(samples / out.strategy.dp);
  settle(t, D::recompute, out);
  return out;
}

bool equal_replicas(const Pipeline& pipeline) {
  return std::none_of(pipeline.stages.begin(), pipeline.stages.end(), [](const Stage& s) { return uneven_replicas(s); });
}

/// Returns one strategy, devices in order, and equal replicas: the starting point of every other change. Returns
/// nothing where that has no configuration.
std::optional<Pipeline> made_uniform(const ExportTarget& t, const Pipeline& own, const std::vector<Fault>& faults,
                                     std::vector<std::string>& lost) {
  const auto one = of_most_layers(t, own);
  if (!one || !is_legal(t.facts, one->strategy, one->schedule)) return std::nullopt;
  Pipeline out = with_configuration(t, own, *one);
  const std::string with =
      cat("; written with ", label(one->strategy), " for all layers, equal replicas and devices in the default order");
  std::set<std::string> left;
  for (const Fault& f : faults_of(t, out)) left.insert(f.id);
  for (const Fault& f : faults)
    if (!left.contains(f.id)) lost.push_back(cat(f.id, ": ", f.text, with));
  return out;
}

struct TriedChange {
  Pipeline pipeline;
  D dimension;
  std::string text;  ///< "overlap_p2p off"
};

/// Sets overlap switches that the engine does not have to the engine's behaviour.
void take_usual_overlap(const ExportTarget& t, Pipeline& now, std::vector<std::string>& lost) {
  if (t.engine == nullptr || t.engine->runs.chooses_overlap) return;
  ChangedConfiguration c{now.strategy(), now.schedule};
  const Overlap usual = always_overlapped(*t.engine, t.facts, c.strategy, c.schedule);
  if (c.strategy.overlap == usual) return;
  for (const Fault& f : faults_of(t, now))
    if (f.id.ends_with("-OVERLAP-ALWAYS")) lost.push_back(cat(f.id, ": ", f.text, "; written with the engine's setting"));
  c.strategy.overlap = usual;
  now = with_configuration(t, now, c);
}

/// Returns the first replacement with which the rule holds and no rule breaks that held.
std::optional<TriedChange> mended(const ExportTarget& t, const Pipeline& own, const std::vector<Fault>& faults,
                                  const std::set<D>& settled) {
  std::set<std::string> broken;
  for (const Fault& f : faults) broken.insert(f.id);
  const ChangedConfiguration now{own.strategy(), own.schedule};
  for (const D d : kReplaceable) {
    if (settled.contains(d)) continue;
    for (const std::int64_t value : values_of(t, d, now)) {
      ChangedConfiguration c = now;
      set(d, value, c.strategy, c.schedule);
      settle(t, d, c);
      if (!is_legal(t.facts, c.strategy, c.schedule)) continue;
      Pipeline made = with_configuration(t, own, c);
      const std::vector<Fault> left = faults_of(t, made);
      const bool helps = std::none_of(left.begin(), left.end(), [&](const Fault& f) {
        return f.id == faults.front().id || (!f.of_format && !broken.contains(f.id));
      });
      const std::string modules = d == D::recompute ? to_string(c.strategy.recompute.modules) : "";
      if (helps)
        return TriedChange{std::move(made), d,
                           cat(to_string(d), " ", value_text(d, value), modules.empty() ? "" : " of ", modules)};
    }
  }
  return std::nullopt;
}

Error refused(const ExportTarget& t, const std::vector<Fault>& faults) {
  std::string found;
  for (const Fault& f : faults) found += cat(found.empty() ? "" : "; ", f.id, ": ", f.text);
  const std::string& engine = t.format.engine.empty() ? t.format.name : t.format.engine;
  return {ErrorKind::check_failed, t.format.name, found,
          cat("degrees, batch and devices that ", engine, " supports: other features that it cannot express are left out"),
          t.format.engine.empty() ? std::string() : cat("espalier plan --engine ", engine, " finds what it can run")};
}

}  // namespace

Result<ClosestPlan> closest_plan(const Exporter& format, const Job& job, const Plan& plan) {
  const EngineModel* engine = format.engine.empty() ? nullptr : &engine_written_for(format.name, format.engine, plan);
  const SplitPolicy split = engine == nullptr ? SplitPolicy::balanced : engine->split;
  const ExportTarget t{format, engine, job, plan, rule_facts(job.model, job.cluster, job.training, split), split};
  std::vector<Fault> faults = faults_of(t, plan);
  if (faults.empty()) return ClosestPlan{plan, {}};
  if (plan.pipelines.size() != 1) return refused(t, faults);
  Pipeline now = plan.only_pipeline();
  std::vector<std::string> lost;
  if (!plan.uniform() || !equal_replicas(now) || !devices_in_order(plan)) {
    auto made = made_uniform(t, now, faults, lost);
    if (!made) return refused(t, faults);
    now = std::move(*made);
  }
  take_usual_overlap(t, now, lost);
  faults = faults_of(t, now);
  for (std::set<D> settled; !faults.empty(); faults = faults_of(t, now)) {
    auto change = mended(t, now, faults, settled);
    if (!change) return refused(t, faults);
    lost.push_back(cat(faults.front().id, ": ", faults.front().text, "; written with ", change->text));
    now = std::move(change->pipeline);
    settled.insert(change->dimension);
  }
  return ClosestPlan{with_pipeline(t, now), std::move(lost)};
}

}  // namespace espalier::exchange
