// SPDX-License-Identifier: Apache-2.0
// The catalogue of engines: data/engines.yaml with what was fitted of them.
#include "plan/engine.h"

#include "base/shipped.h"
#include "data/engines_yaml.h"
#include "plan/coefficients.h"
#include "plan/engine_reader.h"

namespace espalier {
namespace {

std::vector<EngineModel> calibrated(std::vector<EngineModel> engines) {
  for (const auto& [name, coefficients] : framework_calibration().engines)  // "pooled" first: what an unmeasured engine has
    for (EngineModel& engine : engines)
      if (engine.name == name || name == "pooled") engine.coefficients = coefficients;
  return engines;
}

}  // namespace

std::string_view to_string(ActivationPolicy p) {
  switch (p) {
    case ActivationPolicy::megatron_2022_unfused: return "megatron-2022-unfused";
    case ActivationPolicy::fused_attention: return "fused-attention";
  }
  return "?";
}

const std::vector<EngineModel>& engine_catalogue() {
  // Read-only after construction: a constant that happens to be written as text.
  static const std::vector<EngineModel> catalogue =
      calibrated(base::shipped(read_engines(embedded::engines_yaml, "data/engines.yaml"), "data/engines.yaml"));
  return catalogue;
}

const EngineModel* find_engine(std::string_view name) {
  for (const EngineModel& engine : engine_catalogue()) {
    if (engine.name == name) return &engine;
  }
  return nullptr;
}

}  // namespace espalier
