// SPDX-License-Identifier: Apache-2.0
// The catalogue of engines: data/engines.yaml with what was fitted of them.
#include "plan/engine.h"

#include <algorithm>

#include "base/shipped.h"
#include "data/engines_yaml.h"
#include "plan/coefficients.h"
#include "plan/engine_reader.h"

namespace espalier {
namespace {

/// What was fitted of its code; else the pooled ones.
FrameworkCoefficients coefficients_of(const EngineModel& engine) {
  const FrameworkCalibration& fits = framework_calibration();
  for (const std::string& name : {fitted_engine(engine), std::string("pooled")})
    for (const auto& [fitted, coefficients] : fits.engines)
      if (fitted == name) return coefficients;
  return {};
}

EngineFile calibrated(EngineFile file) {
  for (std::vector<EngineModel>* list : {&file.engines, &file.with_options})
    for (EngineModel& engine : *list) engine.coefficients = coefficients_of(engine);
  return file;
}

const EngineFile& shipped_engines() {
  // Read-only after construction: a constant that happens to be written as text.
  static const EngineFile file =
      calibrated(base::shipped(read_engines(embedded::engines_yaml, "data/engines.yaml"), "data/engines.yaml"));
  return file;
}

/// `name` with its options in the order of the catalogue; empty where an option is unknown or given twice.
std::string in_order(const EngineModel& engine, std::string_view name) {
  std::vector<bool> wanted(engine.options.size());
  for (std::string_view rest = name.substr(engine.base.size()); !rest.empty();) {
    rest.remove_prefix(1);  // the +
    const std::string_view word = rest.substr(0, rest.find('+'));
    rest.remove_prefix(word.size());
    const auto at =
        std::find_if(engine.options.begin(), engine.options.end(), [&](const EngineOption& o) { return o.name == word; });
    const auto i = static_cast<std::size_t>(at - engine.options.begin());
    if (i == wanted.size() || wanted[i]) return "";
    wanted[i] = true;
  }
  std::string out = engine.base;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) out.append("+").append(engine.options[i].name);
  return out;
}

const EngineModel* named(const std::vector<EngineModel>& engines, std::string_view name) {
  const auto at = std::find_if(engines.begin(), engines.end(), [&](const EngineModel& e) { return e.name == name; });
  return at == engines.end() ? nullptr : &*at;
}

}  // namespace

std::string_view to_string(ActivationPolicy p) {
  switch (p) {
    case ActivationPolicy::megatron_2022_unfused: return "megatron-2022-unfused";
    case ActivationPolicy::fused_attention: return "fused-attention";
  }
  return "?";
}

const std::vector<EngineModel>& engine_catalogue() { return shipped_engines().engines; }

std::string_view base_engine(std::string_view name) { return name.substr(0, name.find('+')); }

const EngineModel* find_engine(std::string_view name) {
  const EngineModel* engine = named(engine_catalogue(), base_engine(name));
  if (engine == nullptr || engine->name == name) return engine;
  return named(shipped_engines().with_options, in_order(*engine, name));
}

}  // namespace espalier
