// SPDX-License-Identifier: Apache-2.0
#include "planner/interval_exceptions.h"

#include <algorithm>

#include "base/document.h"
#include "base/shipped.h"
#include "data/interval_exceptions_yaml.h"
#include "plan/engine.h"
#include "plan/structure.h"

namespace espalier::planner {

Result<std::vector<IntervalException>> read_interval_exceptions(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  std::vector<IntervalException> rows;
  (void)root.required_string("schema");
  root.each("exceptions", true, [&](base::Reader& r) {
    const auto condition = [&](std::string_view key) -> std::optional<bool> {
      if (!r.has(key)) return std::nullopt;
      return r.optional_bool(key, false);
    };
    IntervalException& row = rows.emplace_back();
    row.engine = r.required_string("engine");
    row.kind = r.required_string("kind");
    row.adapters = condition("adapters");
    row.experts = condition("experts");
    row.device_runs = condition("device_runs");
    if (r.has("zero")) row.zero = static_cast<int>(r.required_int("zero", 0, 3));
    row.high = r.required_real("high", 1.0, 1e3);
    row.source = r.required_string("source");
    r.finish();
  });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return rows;
}

const std::vector<IntervalException>& shipped_interval_exceptions() {
  // Read-only after construction: a constant that happens to be stored as text.
  static const std::vector<IntervalException> rows =
      base::shipped(read_interval_exceptions(embedded::interval_exceptions_yaml, "data/calibration/interval_exceptions.yaml"),
                    "data/calibration/interval_exceptions.yaml");
  return rows;
}

IntervalFacts interval_facts(const Job& job, const EngineModel& engine, const Program& program) {
  IntervalFacts out;
  out.engine = base_engine(engine.name);
  out.adapters = job.training.adapter.any();
  out.experts = has_experts(job.model);
  for (const NodeGroup& group : job.cluster.groups)
    out.device_runs = out.device_runs && interval_for(shipped_intervals(), engine.name, group.device.name).runs > 0;
  for (const Strategy& strategy : program.strategies) out.zero.push_back(static_cast<int>(strategy.zero));
  return out;
}

PredictionInterval widened(PredictionInterval interval, const IntervalFacts& facts, const std::vector<IntervalException>& rows) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const IntervalException& r) {
    return r.engine == facts.engine && r.adapters.value_or(facts.adapters) == facts.adapters &&
           r.experts.value_or(facts.experts) == facts.experts && r.device_runs.value_or(facts.device_runs) == facts.device_runs &&
           (!r.zero || std::find(facts.zero.begin(), facts.zero.end(), *r.zero) != facts.zero.end());
  });
  if (row == rows.end() || row->high <= interval.high) return interval;
  interval.high = row->high;
  interval.basis += "; wide: " + row->kind + " were slower than predicted in published runs";
  return interval;
}

}  // namespace espalier::planner
