// SPDX-License-Identifier: Apache-2.0
// Builds the catalogue of engines from data/engines.yaml and the fitted coefficients.
#include "plan/engine.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/shipped.h"
#include "data/engines_yaml.h"
#include "plan/coefficients.h"
#include "plan/engine_reader.h"

namespace espalier {
namespace {

/// Returns the coefficients fitted to the engine's code; else the pooled ones.
FrameworkCoefficients coefficients_of(const EngineModel& engine) {
  const FrameworkCalibration& fits = framework_calibration();
  for (const std::string& name : {fitted_engine(engine), std::string("pooled")})
    for (const auto& [fitted, coefficients] : fits.engines)
      if (fitted == name) return coefficients;
  return {};
}

EngineFile calibrated(EngineFile file) {
  for (EngineModel& engine : file.engines) engine.coefficients = coefficients_of(engine);
  return file;
}

const EngineFile& shipped_engines() {
  // Read-only after construction: a constant that happens to be stored as text.
  static const EngineFile file =
      calibrated(base::shipped(read_engines(embedded::engines_yaml, "data/engines.yaml"), "data/engines.yaml"));
  return file;
}

/// Returns the options that a name lists, by their place in the catalogue; nothing where one is unknown or given twice.
std::optional<std::vector<std::size_t>> options_in(const EngineModel& engine, std::string_view name) {
  std::vector<bool> wanted(engine.options.size());
  for (std::string_view rest = name.substr(engine.base.size()); !rest.empty();) {
    rest.remove_prefix(1);  // skips the +
    const std::string_view word = rest.substr(0, rest.find('+'));
    rest.remove_prefix(word.size());
    const auto at =
        std::find_if(engine.options.begin(), engine.options.end(), [&](const EngineOption& o) { return o.name == word; });
    const auto i = static_cast<std::size_t>(at - engine.options.begin());
    if (i == wanted.size() || wanted[i]) return std::nullopt;
    wanted[i] = true;
  }
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) out.push_back(i);
  return out;
}

/// Keeps each combination of options that was asked for, so that pointers to it stay valid.
class Combinations {
 public:
  const EngineModel* find(const EngineModel& engine, const std::vector<std::size_t>& options) {
    const std::scoped_lock lock(mutex_);
    const auto [at, added] = engines_.try_emplace({engine.base, options});
    if (added) at->second = with_options(shipped_engines(), engine, options);
    return &at->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::vector<std::size_t>>, EngineModel> engines_;
};

Combinations& combinations() {
  static Combinations known;
  return known;
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
  const auto options = options_in(*engine, name);
  return options ? combinations().find(*engine, *options) : nullptr;
}

std::string engine_suggestion(std::string_view word) {
  std::vector<std::string> names;
  for (const EngineModel& engine : engine_catalogue()) {
    if (std::find(engine.also.begin(), engine.also.end(), word) != engine.also.end())
      return base::cat("did you mean \"", engine.name, "\"?");
    names.push_back(engine.name);
  }
  return base::suggestion(word, names);
}

}  // namespace espalier
