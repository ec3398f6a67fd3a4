// SPDX-License-Identifier: Apache-2.0
#include "job/engine_defaults.h"

#include <array>

#include "job/framework_defaults.h"
#include "job/search_part.h"
#include "plan/engine.h"
#include "plan/engine_rules.h"

namespace espalier::job {
namespace {

/// Returns the entry of the engine that needs no further words in a record. A variant (torchtitan-compile) gets the
/// one that its word chooses, or else that of its base engine.
const FrameworkDefault* entry_of(std::string_view engine) {
  const FrameworkDefault* variant = nullptr;
  for (const FrameworkDefault& f : run_defaults().frameworks) {
    if (f.engine != base_engine(engine)) continue;
    if (f.with.empty()) return &f;
    if (variant == nullptr) variant = &f;
  }
  if (variant != nullptr) return variant;
  const EngineModel* model = find_engine(engine);
  return model == nullptr || model->like.empty() ? nullptr : entry_of(model->like);
}

/// Returns the ordinal of a named value. A name that is not a value of the dimension ("if needed") gives the plainest
/// one.
std::int64_t value_of(const FrameworkDefault& f, const char* key, const char* dimension) {
  const auto it = f.defaults.find(key);
  if (it == f.defaults.end()) return 0;
  return value_of_name(dimension, it->second.value).value_or(0);
}

constexpr std::array<std::pair<const char*, bool Overlap::*>, 4> kOverlaps = {{
    {"grad", &Overlap::grad_reduce},
    {"param", &Overlap::param_gather},
    {"p2p", &Overlap::p2p},
    {"tp", &Overlap::tp},
}};

}  // namespace

EngineDefaults engine_defaults(const std::string& engine) {
  EngineDefaults out;
  const FrameworkDefault* f = entry_of(engine);
  if (f == nullptr) {
    // An engine without a switch always overlaps; usable_overlap() removes overlaps that the rules do not allow.
    const EngineModel* model = find_engine(engine);
    out.overlap.grad_reduce = out.overlap.param_gather = model != nullptr && !model->runs.chooses_overlap;
    return out;
  }
  out.zero = static_cast<ZeroStage>(value_of(*f, "zero_stage", "zero"));
  out.sp = static_cast<SequenceParallel>(value_of(*f, "sp", "sp"));
  out.recompute = static_cast<RecomputeKind>(value_of(*f, "recompute", "recompute"));
  out.overlap = f->overlap;
  return out;
}

std::string to_string(const EngineDefaults& d) {
  std::string out;
  const auto add = [&](const std::string& part) { out.append(out.empty() ? "" : ", ").append(part); };
  if (shards_optimizer(d.zero)) add("zero " + std::to_string(number_of(d.zero)));
  if (d.sp != SequenceParallel::none) add("sp " + std::string(espalier::to_string(d.sp)) + " with tp");
  if (d.recompute != RecomputeKind::none) add("recompute " + std::string(espalier::to_string(d.recompute)));
  std::string overlaps;
  for (const auto& [name, flag] : kOverlaps)
    if (d.overlap.*flag) overlaps.append(overlaps.empty() ? "" : ",").append(name);
  if (!overlaps.empty()) add("overlap " + overlaps);
  return out.empty() ? "none" : out;
}

Overlap usable_overlap(const Overlap& wanted, const EngineModel& engine, const Job& job, const Strategy& strategy,
                       const Schedule& schedule) {
  const auto rules_broken = [&](const Overlap& overlap) {
    Strategy x = strategy;
    x.overlap = overlap;
    return violations(job.model, job.cluster, job.training, x, schedule, engine.split).size() +
           engine_violations(engine, job.model, job.cluster, job.training, x, schedule).size();
  };
  // Overlaps are removed one by one, since engines may have two of them together or none.
  Overlap overlap = wanted;
  for (const auto& [name, flag] : kOverlaps) {
    if (!(overlap.*flag)) continue;
    Overlap without = overlap;
    without.*flag = false;
    if (rules_broken(without) < rules_broken(overlap)) overlap = without;
  }
  return rules_broken(overlap) <= rules_broken({}) ? overlap : Overlap{};
}

}  // namespace espalier::job
