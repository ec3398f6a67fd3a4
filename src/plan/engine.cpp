// SPDX-License-Identifier: Apache-2.0
// Builds the catalogue of engines from data/engines.yaml and the fitted coefficients.
#include "plan/engine.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/shipped.h"
#include "data/engines_yaml.h"
#include "plan/coefficients.h"
#include "plan/engine_reader.h"

namespace espalier {
namespace {

/// Returns the coefficients fitted to the engine's code at its version; else the pooled ones. Versions of an engine
/// that shares the coefficients of another are no versions of the other.
FrameworkCoefficients coefficients_of(const EngineModel& engine) {
  const FrameworkCalibration& fits = framework_calibration();
  const std::string& fitted = fitted_engine(engine);
  const auto own = fits.of(fitted, fitted == engine.base ? engine.version : std::nullopt);
  return own ? *own : fits.of("pooled", std::nullopt).value_or(FrameworkCoefficients{});
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

/// Holds the version and the options that a name states.
struct NamedMode {
  std::optional<base::Version> version;
  std::vector<ChosenOption> options;  ///< by their place in the catalogue
};

/// Returns the option in "a" or "a=3"; nothing where it is unknown, or where it lacks a value or has one too many.
std::optional<ChosenOption> option_in(const EngineModel& engine, std::string_view word) {
  const std::string_view name = word.substr(0, word.find('='));
  const auto at =
      std::find_if(engine.options.begin(), engine.options.end(), [&](const EngineOption& o) { return o.name == name; });
  if (at == engine.options.end() || at->sets.empty() != (name.size() == word.size())) return std::nullopt;
  ChosenOption out(static_cast<std::size_t>(at - engine.options.begin()));
  if (at->sets.empty()) return out;
  const char* const end = word.data() + word.size();
  const auto [next, fault] = std::from_chars(word.data() + name.size() + 1, end, out.value);
  if (fault != std::errc() || next != end || out.value < 0 || out.value > kMostElements) return std::nullopt;
  return out;
}

/// Returns the options in "+a+b=3", by their place in the catalogue; nothing where one is wrong or given twice.
std::optional<std::vector<ChosenOption>> options_in(const EngineModel& engine, std::string_view text) {
  std::vector<ChosenOption> out;
  for (std::string_view rest = text; !rest.empty();) {
    rest.remove_prefix(1);  // skips the +
    const std::string_view word = rest.substr(0, rest.find('+'));
    rest.remove_prefix(word.size());
    const auto option = option_in(engine, word);
    if (!option) return std::nullopt;
    out.push_back(*option);
  }
  std::sort(out.begin(), out.end());
  const auto same = [](const ChosenOption& a, const ChosenOption& b) { return a.place == b.place; };
  if (std::adjacent_find(out.begin(), out.end(), same) != out.end()) return std::nullopt;
  return out;
}

/// Returns the mode in "ENGINE@VERSION+a+b"; nothing where the version cannot be read, or an option is wrong.
std::optional<NamedMode> mode_in(const EngineModel& engine, std::string_view name) {
  NamedMode mode;
  std::string_view rest = name.substr(engine.base.size());
  if (rest.starts_with('@')) {
    const std::size_t end = std::min(rest.find('+'), rest.size());
    mode.version = base::Version::parse(rest.substr(1, end - 1));
    if (!mode.version) return std::nullopt;
    rest.remove_prefix(end);
  }
  auto options = options_in(engine, rest);
  if (!options) return std::nullopt;
  mode.options = std::move(*options);
  return mode;
}

/// Keeps each version and combination of options that was asked for, so that pointers to it stay valid.
class Combinations {
 public:
  const EngineModel* find(const EngineModel& engine, const NamedMode& mode) {
    const std::scoped_lock lock(mutex_);
    const std::string name = mode.version ? base::cat(engine.base, "@", mode.version->text()) : engine.base;
    const auto [at, added] = engines_.try_emplace({name, mode.options});
    if (added) {
      at->second = with_options(shipped_engines(), engine, mode.options, mode.version);
      at->second.coefficients = coefficients_of(at->second);
    }
    return &at->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::vector<ChosenOption>>, EngineModel> engines_;
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

std::string_view base_engine(std::string_view name) { return name.substr(0, name.find_first_of("@+")); }

const EngineModel* find_engine(std::string_view name) {
  const EngineModel* engine = named(engine_catalogue(), base_engine(name));
  if (engine == nullptr || engine->name == name) return engine;
  const auto mode = mode_in(*engine, name);
  return mode ? combinations().find(*engine, *mode) : nullptr;
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
