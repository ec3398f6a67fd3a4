// SPDX-License-Identifier: Apache-2.0
#include "planner/interval.h"

#include "base/document.h"
#include "base/shipped.h"
#include "data/intervals_yaml.h"
#include "plan/engine.h"

namespace espalier::planner {

Result<IntervalTable> read_intervals(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  IntervalTable table;
  (void)root.required_string("schema");
  root.each("intervals", true, [&](base::Reader& r) {
    const std::string engine = r.optional_string("engine", ""), device = r.optional_string("device", "");
    PredictionInterval i;
    i.low = r.optional_real("low", 1e-3, 1.0, i.low);
    i.high = r.optional_real("high", 1.0, 1e3, i.high);
    i.runs = r.optional_int("runs", 0, 1'000'000'000, 0);
    r.finish();
    table[{engine, device}] = i;
  });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return table;
}

const IntervalTable& shipped_intervals() {
  // Read-only after construction: a constant that happens to be stored as text.
  static const IntervalTable table = base::shipped(read_intervals(embedded::intervals_yaml, "data/calibration/intervals.yaml"),
                                                   "data/calibration/intervals.yaml");
  return table;
}

PredictionInterval interval_for(const IntervalTable& table, const std::string& name, const std::string& device) {
  const EngineModel* model = find_engine(name);
  const std::string engine = model ? fitted_engine(*model) : std::string(base_engine(name));
  const auto find = [&](const std::string& e, const std::string& d) -> const PredictionInterval* {
    const auto it = table.find({e, d});
    return it == table.end() ? nullptr : &it->second;
  };
  if (const PredictionInterval* own = find(engine, device)) {
    PredictionInterval i = *own;
    i.basis = "calibrated: " + device + ", " + engine + ", " + std::to_string(i.runs) + " runs";
    return i;
  }
  const bool device_known = find("", device) != nullptr;
  const PredictionInterval* of_engine = find(engine, "");
  const PredictionInterval* best = of_engine ? of_engine : find("", device_known ? device : "");
  PredictionInterval i = best ? *best : PredictionInterval{};
  i.runs = 0;
  if (of_engine)
    i.basis = device_known ? "engine " + engine + " calibrated on other devices, " + device + " with other engines"
                           : "uncalibrated: priors of " + device + ", engine " + engine + " calibrated on other devices";
  else
    i.basis = device_known
                  ? "uncalibrated engine " + engine + ": pooled coefficients; " + device + " calibrated with other engines"
                  : "uncalibrated: priors of " + device + ", engine " + engine;
  return i;
}

}  // namespace espalier::planner
