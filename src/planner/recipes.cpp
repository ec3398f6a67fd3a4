// SPDX-License-Identifier: Apache-2.0
#include "planner/recipes.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/document.h"
#include "base/format.h"
#include "base/shipped.h"
#include "data/recipes_yaml.h"
#include "plan/dimension.h"
#include "plan/engine.h"

namespace espalier::planner {
namespace {

using search::Configuration;

constexpr double kSizes = 4;  ///< a recipe holds for models up to this factor smaller or larger

std::int32_t degree(base::Reader& r, const char* key) { return static_cast<std::int32_t>(r.optional_int(key, 1, 1 << 20, 1)); }

std::vector<std::string> words(base::Reader& r, const char* key) {
  std::vector<std::string> out;
  if (const base::Node* node = r.find(key))
    for (const base::Node& item : node->items) out.push_back(item.text);
  return out;
}

/// Reads the value of a dimension by its name; `fallback` if the recipe has none.
template <class Enum>
Enum named(base::Reader& r, const char* key, Dimension d, Enum fallback) {
  const std::string word = r.optional_string(key, value_text(d, static_cast<std::int64_t>(fallback)));
  for (std::int64_t v = 0; v < enum_size(d); ++v)
    if (value_text(d, v) == word) return static_cast<Enum>(v);
  r.fail(key, word, base::cat("a value of ", key));
  return fallback;
}

Recipe read_recipe(base::Reader& r) {
  Recipe out;
  out.label = r.required_string("label");
  out.framework = r.required_string("framework");
  out.source = r.required_string("source");
  out.devices = words(r, "devices");
  if (out.devices.empty()) r.fail("devices", "none", "at least one prefix of a device name");
  out.mixture = r.optional_choice("kind", {"dense", "mixture"}, 0) == 1;
  out.parameters = r.required_real("parameters", 1e6, 1e14);
  out.sequence = r.optional_int("sequence", 0, 1 << 30, 0);
  out.tp = degree(r, "tp");
  out.pp = degree(r, "pp");
  out.cp = degree(r, "cp");
  out.ep = degree(r, "ep");
  out.vpp = degree(r, "vpp");
  out.micro_batch = static_cast<std::int32_t>(r.optional_int("micro_batch", 0, 1 << 20, 0));
  out.zero = static_cast<ZeroStage>(r.optional_int("zero", 0, 3, 0));
  out.recompute = named(r, "recompute", Dimension::recompute, RecomputeKind::none);
  out.schedule = named(r, "schedule", Dimension::schedule, out.vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b);
  out.options = words(r, "options");
  r.finish();
  return out;
}

bool is_mixture(const RuleFacts& facts) { return !facts.experts.empty(); }

bool is_valid(const Recipe& r, const Job& job, const RuleFacts& facts) {
  const std::string& device = job.cluster.groups.front().device.name;
  const bool known = std::any_of(r.devices.begin(), r.devices.end(), [&](const std::string& d) { return device.starts_with(d); });
  const double ratio = static_cast<double>(parameter_count(job.model)) / r.parameters;
  return known && r.mixture == is_mixture(facts) && ratio <= kSizes && ratio >= 1 / kSizes &&
         2 * job.training.sequence.main >= r.sequence;
}

std::int64_t group_of(const Recipe& r) { return std::int64_t{r.tp} * r.pp * r.cp; }

/// Returns the nearest recipe of one framework whose groups divide the devices; if none does, the nearest.
const Recipe& nearest(const std::vector<const Recipe*>& of, double parameters, std::int64_t devices) {
  const auto before = [&](const Recipe* a, const Recipe* b) {
    const bool a_divides = devices % group_of(*a) == 0, b_divides = devices % group_of(*b) == 0;
    if (a_divides != b_divides) return a_divides;
    return std::fabs(std::log(a->parameters / parameters)) < std::fabs(std::log(b->parameters / parameters));
  };
  return **std::min_element(of.begin(), of.end(), before);
}

Configuration configuration_of(const Recipe& r, const RuleFacts& facts, std::int32_t vpp) {
  Configuration c;
  c.strategy.tp = r.tp;
  c.strategy.cp = r.cp;
  c.strategy.sp = r.tp > 1 ? SequenceParallel::megatron : SequenceParallel::none;
  c.strategy.ep = r.ep;
  c.strategy.dp = static_cast<std::int32_t>(facts.devices / group_of(r));
  c.schedule.stages = r.pp;
  c.schedule.kind = r.schedule;
  c.schedule.virtual_stages = r.schedule == ScheduleKind::zb_v ? 2 : vpp;
  if (r.schedule == ScheduleKind::interleaved && vpp == 1) c.schedule.kind = ScheduleKind::one_f_one_b;
  if (c.strategy.data_ranks() > 1) {
    c.strategy.zero = r.zero;
    c.strategy.shard = shards_optimizer(r.zero) ? static_cast<std::int32_t>(c.strategy.data_ranks()) : 1;
    c.strategy.overlap.grad_reduce = true;
    c.strategy.overlap.param_gather = shards_optimizer(r.zero);
  }
  c.strategy.overlap.p2p = r.pp > 1;
  c.strategy.recompute.kind = r.recompute;
  const auto chunks = static_cast<std::size_t>(r.pp) * static_cast<std::size_t>(c.schedule.virtual_stages);
  if (r.recompute == RecomputeKind::full)
    c.strategy.recompute.layers = chunks < facts.largest_chunk.size() ? facts.largest_chunk[chunks] : 0;
  return c;
}

/// Returns the engine with the recipe's options that it supports.
std::string engine_with(const EngineModel& engine, const Recipe& r) {
  std::string out = engine.name;
  for (const EngineOption& option : engine.options)
    if (std::find(r.options.begin(), r.options.end(), option.name) != r.options.end() &&
        out.find(base::cat("+", option.name)) == std::string::npos)
      out += base::cat("+", option.name);
  return find_engine(out) != nullptr ? out : engine.name;
}

/// Builds the members of its micro-batches. If the model has too few layers or micro-batches to interleave as the
/// recipe does, each stage has one chunk.
Baseline family_of(const Recipe& r, const RuleFacts& facts) {
  Baseline out{r.label, {}, "", ""};
  if (facts.devices % group_of(r) != 0) {
    out.refusal = base::cat("needs a multiple of ", group_of(r), " devices");
    return out;
  }
  const std::vector<std::int32_t> sizes = r.micro_batch > 0 ? std::vector{r.micro_batch} : std::vector{1, 2, 4, 8, 16};
  for (const std::int32_t vpp : {r.vpp, 1}) {
    for (const std::int32_t micro_batch : sizes) {
      Configuration c = configuration_of(r, facts, vpp);
      c.schedule.micro_batch = micro_batch;
      c.schedule.microbatches = static_cast<std::int32_t>(microbatches_of(facts, c.strategy, c.schedule));
      const std::vector<RuleViolation> broken = violations(facts, c.strategy, c.schedule);
      if (broken.empty())
        out.family.push_back(c);
      else if (out.refusal.empty())
        out.refusal = broken.front().rule + ": " + broken.front().text;
    }
    if (!out.family.empty()) break;
  }
  if (!out.family.empty()) out.refusal.clear();
  return out;
}

}  // namespace

Result<std::vector<Recipe>> read_recipes(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  std::vector<Recipe> out;
  (void)root.required_string("schema");
  root.each("recipes", true, [&](base::Reader& r) { out.push_back(read_recipe(r)); });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return out;
}

const std::vector<Recipe>& shipped_recipes() {
  // Read-only after construction: a constant that happens to be stored as text.
  static const std::vector<Recipe> all =
      base::shipped(read_recipes(embedded::recipes_yaml, "data/recipes.yaml"), "data/recipes.yaml");
  return all;
}

std::vector<Baseline> recipes(const Job& job, const RuleFacts& facts, const EngineModel& engine) {
  if (job.training.sequence.main == 0) return {};
  const auto parameters = static_cast<double>(parameter_count(job.model));
  std::vector<Baseline> out;
  std::set<std::string> done;
  for (const Recipe& first : shipped_recipes()) {
    if (!is_valid(first, job, facts) || !done.insert(first.framework).second) continue;
    std::vector<const Recipe*> all;
    for (const Recipe& r : shipped_recipes())
      if (r.framework == first.framework && is_valid(r, job, facts)) all.push_back(&r);
    const Recipe& chosen = nearest(all, parameters, facts.devices);
    out.push_back(family_of(chosen, facts));
    if (const std::string name = engine_with(engine, chosen); name != engine.name) out.back().engine = name;
  }
  return out;
}

}  // namespace espalier::planner
