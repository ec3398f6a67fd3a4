// SPDX-License-Identifier: Apache-2.0
#include "job/search_part.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>

#include "base/format.h"
#include "plan/engine.h"
#include "plan/recompute_modules.h"

namespace espalier::job {
namespace {

constexpr std::int64_t kLargestValue = std::int64_t{1} << 40;

std::vector<std::string> dimension_names() {
  std::vector<std::string> out;
  for (int i = 0; i < kDimensions; ++i) out.emplace_back(to_string(static_cast<Dimension>(i)));
  return out;
}

/// Returns the names of an enum's values by ordinal; empty for a dimension that counts.
std::vector<std::string> value_names(Dimension dimension) {
  std::vector<std::string> out;
  for (std::int64_t v = 0; v < enum_size(dimension); ++v) out.push_back(value_text(dimension, v));
  return out;
}

/// Returns the names of values that a space may list; sets of modules are no value of a single strategy.
std::vector<std::string> space_names(Dimension dimension) {
  std::vector<std::string> out = value_names(dimension);
  if (dimension == Dimension::recompute) out.push_back(value_text(dimension, kModuleSets));
  return out;
}

std::string written(const base::Node& node) {
  if (node.kind == base::NodeKind::string) return "\"" + node.text + "\"";
  return base::to_json(node);
}

/// Returns the smallest and largest value of a dimension that counts, on any cluster and for any model.
std::pair<std::int64_t, std::int64_t> range_of(Dimension dimension) {
  const std::int64_t values = value_count(dimension);
  return {least_value(dimension), values > 0 ? values - 1 : kLargestValue};
}

std::string range_text(Dimension dimension) {
  const auto [low, high] = range_of(dimension);
  if (high < kLargestValue) return "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  return "a whole number ≥ " + std::to_string(low);
}

/// Reads one value of a dimension. For an invalid value it records an error and returns nothing.
std::optional<std::int64_t> read_value(base::Reader& reader, Dimension dimension, const base::Node& node) {
  const std::string key(to_string(dimension));
  const std::vector<std::string> names = space_names(dimension);
  if (names.empty()) {
    const auto [low, high] = range_of(dimension);
    if (node.kind == base::NodeKind::integer && node.integer >= low && node.integer <= high) return node.integer;
    const bool quoted = node.kind == base::NodeKind::string && !node.text.empty() &&
                        node.text.find_first_not_of("0123456789") == std::string::npos;
    reader.fail(key, written(node), range_text(dimension),
                quoted                                 ? "remove the quotes"
                : node.kind != base::NodeKind::integer ? "write a whole number"
                : node.integer < low                   ? "choose a larger number"
                                                       : "choose a smaller number");
    return std::nullopt;
  }
  if (names.front() == "off" && node.kind == base::NodeKind::boolean) return node.boolean ? 1 : 0;
  const auto it = std::find(names.begin(), names.end(), node.text);
  if (node.kind == base::NodeKind::string && it != names.end()) return it - names.begin();
  const auto close = base::did_you_mean(node.text, names);
  reader.fail(key, written(node), names.front() == "off" ? "true or false" : "one of " + base::joined(names),
              close ? "did you mean \"" + *close + "\"?" : "");
  return std::nullopt;
}

/// Rejects member names that are not dimensions. They are reported here, because the reader's own "did you mean" only
/// covers names that were looked up.
bool known_dimensions_only(base::Reader& part) {
  for (const auto& [key, node] : part.node().members) {
    if (parse_dimension(key)) continue;
    const auto close = base::did_you_mean(key, dimension_names());
    part.fail(key, "the unknown dimension \"" + key + "\"", "one of " + base::joined(dimension_names()),
              close ? "did you mean \"" + *close + "\"?" : "");
    return false;
  }
  return true;
}

/// Reads selective recomputation of modules, `recompute: layernorm,moe_act` or a list of such names. Returns whether
/// the value is that, or wrong; else it is one of the dimension's values.
bool read_modules(base::Reader& part, const base::Node& node, RecomputeModules& modules) {
  std::string names = node.kind == base::NodeKind::string ? node.text : "";
  for (const base::Node& item : node.items) names += item.text + ",";
  std::vector<std::string> known = space_names(Dimension::recompute);
  if (names.empty() || std::find(known.begin(), known.end(), names) != known.end()) return false;
  if (const auto named = parse_recompute_modules(names)) {
    modules = *named;
    return true;
  }
  RecomputeModules::all().each([&](RecomputeModule m) { known.emplace_back(to_string(m)); });
  std::istringstream rest(names);
  std::optional<std::string> close;
  for (std::string word; !close && std::getline(rest, word, ',');)
    if (std::find(known.begin(), known.end(), word) == known.end()) close = base::did_you_mean(word, known);
  part.fail("recompute", written(node), "none, selective, full, or modules of a block: " + listed(RecomputeModules::all()),
            close ? "did you mean \"" + *close + "\"?" : "");
  return true;
}

/// Reads `recompute_modules: [layernorm, act]`, the meaning of `selective`.
RecomputeModules read_meaning(base::Reader& search) {
  RecomputeModules out;
  const base::Node* node = search.find("recompute_modules");
  if (node == nullptr || node->kind == base::NodeKind::null) return out;
  std::string names = node->kind == base::NodeKind::string ? node->text : "";
  for (const base::Node& item : node->items) names += item.text + ",";
  if (const auto named = parse_recompute_modules(names)) return *named;
  search.fail("recompute_modules", written(*node), "modules of a block: " + listed(RecomputeModules::all()));
  return out;
}

/// Reads `fix`, `allow`, `forbid`: dimension -> value or list of values. Where `modules` is given, recomputation may
/// be named by modules.
SearchSpace::Values read_values(base::Reader& part, bool lists, RecomputeModules* modules = nullptr) {
  SearchSpace::Values out;
  if (!known_dimensions_only(part)) return out;
  for (int i = 0; i < kDimensions; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    const std::string key(to_string(dimension));
    const base::Node* node = part.find(key);
    if (!node || node->kind == base::NodeKind::null) continue;
    std::vector<std::int64_t>& values = out[dimension];
    if (modules != nullptr && dimension == Dimension::recompute && read_modules(part, *node, *modules)) {
      values.push_back(static_cast<std::int64_t>(RecomputeKind::selective));
      continue;
    }
    if (node->kind != base::NodeKind::sequence) {
      if (const auto v = read_value(part, dimension, *node)) values.push_back(*v);
      continue;
    }
    if (!lists) part.fail(key, "a list", "one value", "use `allow` for several");
    if (node->items.empty()) part.fail(key, "an empty list", "at least one value");
    for (const base::Node& item : node->items) {
      if (const auto v = read_value(part, dimension, item)) values.push_back(*v);
    }
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }
  part.finish();
  return out;
}

void read_limits(base::Reader& part, SearchSpace& space) {
  if (!known_dimensions_only(part)) return;
  for (const auto& [key, node] : part.node().members) {
    const Dimension dimension = *parse_dimension(key);
    if (enum_size(dimension) > 0) {
      part.fail(key, "a limit on \"" + key + "\"", "a dimension that counts", "use `allow` or `forbid` for named values");
    } else if (part.has(key)) {
      space.limit(dimension, part.required_int(key, range_of(dimension).first, INT64_MAX));
    }
  }
  part.finish();
}

/// Merges fix, which is a list of one value. Stating the same dimension under allow as well is a likely
/// contradiction.
void merge_fix(base::Reader& fix_part, SearchSpace::Values&& fix, SearchSpace& space) {
  for (auto& [dimension, values] : fix) {
    const std::string key(to_string(dimension));
    if (space.allowed.contains(dimension))
      fix_part.fail(key, "\"" + key + "\" under both fix and allow", "one of them",
                    "fix sets one value, allow lists several: remove one of the two");
    space.allowed[dimension] = std::move(values);
    space.fixed.insert(dimension);
  }
}

/// Returns an error if the job lets the search choose modules and its engine has no sets to choose from.
Status choice_of_modules(const Job& job) {
  if (!job.search.admits(Dimension::recompute, kModuleSets)) return {};
  const EngineModel& engine = job.engine_model ? *job.engine_model : *find_engine(job.engine);
  if (!module_sets(engine, job.model).empty()) return {};
  std::string names;
  for (const EngineModel& other : engine_catalogue())
    if (!module_sets(other, job.model).empty()) names += (names.empty() ? "" : ", ") + other.name;
  const bool fixed = job.search.fixed.contains(Dimension::recompute);
  return Error{ErrorKind::bad_input, fixed ? "search.fix.recompute" : "search.allow.recompute",
               "modules under engine " + job.engine, "an engine that selects the modules of this model: " + names,
               "use selective, or choose another engine"};
}

}  // namespace

std::string value_name(std::string_view name, std::int64_t value) {
  const auto dimension = parse_dimension(name);
  return dimension ? value_text(*dimension, value) : std::to_string(value);
}

std::optional<std::int64_t> value_of_name(std::string_view name, std::string_view text) {
  const auto dimension = parse_dimension(name);
  const std::vector<std::string> names = dimension ? value_names(*dimension) : std::vector<std::string>{};
  const auto it = std::find(names.begin(), names.end(), text);
  if (it != names.end()) return it - names.begin();
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!names.empty() || code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Objective> read_objective(base::Reader& search) {
  if (!search.has("objective")) return std::nullopt;
  base::Reader reader = search.child("objective", true);
  Objective out;
  const std::string minimise = reader.optional_string("minimise", "time");
  if (minimise == "cost")
    out.minimise = Objective::Minimise::cost;
  else if (minimise != "time")
    reader.fail("minimise", "\"" + minimise + "\"", "time or cost", "cost: the price of a step");
  if (reader.has("budget_per_step")) out.budget_per_step = reader.optional_real("budget_per_step", 0.0, 1e12, 0.0);
  if (reader.has("deadline")) out.deadline_s = reader.optional_duration("deadline", 0.0);
  reader.finish();
  return out;
}

SearchSpace read_search_space(base::Reader& reader) {
  SearchSpace space;
  const std::string word = reader.optional_string("space", "uniform");
  if (const auto kind = space_kind_of(word)) {
    space.kind = *kind;
  } else {
    static const std::vector<std::string> kKinds = {"uniform", "layerwise", "spatial_temporal", "full"};
    const auto close = base::did_you_mean(word, kKinds);
    reader.fail("space", "\"" + word + "\"", "one of " + base::joined(kKinds), close ? "did you mean \"" + *close + "\"?" : "");
  }
  if (reader.has("devices")) {
    const std::string devices = reader.optional_string("devices", "");
    space.devices = device_choice_of(devices);
    if (!space.devices)
      reader.fail("devices", "\"" + devices + "\"", "equal, any or all",
                  "any: stages on groups of different devices; all: the same, and every device is used");
  }
  base::Reader allow = reader.child("allow", false), forbid = reader.child("forbid", false);
  base::Reader fix = reader.child("fix", false), limits = reader.child("limits", false);
  space.allowed = read_values(allow, true);
  space.forbidden = read_values(forbid, true);
  space.recompute_modules = read_meaning(reader);
  merge_fix(fix, read_values(fix, false, &space.recompute_modules), space);
  read_limits(limits, space);
  if (reader.has("memory_margin")) space.memory_margin = reader.optional_real("memory_margin", 0.0, 0.9, 0.0);
  reader.finish();
  return space;
}

Status mean_modules(Job& job) {
  const RecomputeModules named = job.search.recompute_modules;
  if (!named.any()) return choice_of_modules(job);
  auto engine = std::make_shared<EngineModel>(job.engine_model ? *job.engine_model : *find_engine(job.engine));
  const RecomputeModules foreign = named.without(engine->runs.recompute_modules);
  if (foreign.any())
    return Error{ErrorKind::bad_input, "search.fix.recompute", listed(foreign) + " under engine " + job.engine,
                 "modules that it recomputes: " + listed(engine->runs.recompute_modules), "omit them, or choose another engine"};
  const bool one_policy = named == kPerOperator || named == engine->runs.recompute_modules;
  const RecomputeModules absent =
      one_policy ? RecomputeModules{} : named.without(modules_of(job.model, engine->memory.fuses_norms));
  if (absent.any())
    return Error{
        ErrorKind::bad_input, "search.fix.recompute", listed(absent),
        "modules that exist as separate parts in the model's blocks",
        "for this model: " + listed(modules_of(job.model, engine->memory.fuses_norms).both(engine->runs.recompute_modules))};
  engine->memory.selective = named;
  job.engine_model = std::move(engine);
  return choice_of_modules(job);
}

}  // namespace espalier::job
