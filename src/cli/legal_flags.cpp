// SPDX-License-Identifier: Apache-2.0
#include "cli/legal_flags.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/dimension.h"
#include "plan/engine.h"
#include "plan/rules.h"
#include "planner/legality.h"

namespace espalier::cli {
namespace {

bool legal(const ConfigurationFlags& flags, const Job& job) {
  const auto c = read_flags(flags, job);
  const EngineModel* engine = find_engine(job.engine);
  return c && engine != nullptr && planner::illegal(job, *engine, c->strategy, c->schedule).ok();
}

/// Returns the flag of a dimension that counts; null for the others.
std::optional<std::int32_t>* count_of(ConfigurationFlags& f, Dimension dimension) {
  switch (dimension) {
    case Dimension::tp: return &f.tp;
    case Dimension::cp: return &f.cp;
    case Dimension::ep: return &f.ep;
    case Dimension::etp: return &f.etp;
    case Dimension::pp: return &f.pp;
    case Dimension::vpp: return &f.vpp;
    case Dimension::dp: return &f.dp;
    case Dimension::shard: return &f.shard;
    case Dimension::zero: return &f.zero;
    case Dimension::micro_batch: return &f.micro_batch;
    case Dimension::recompute_layers: return &f.recompute_layers;
    default: return nullptr;
  }
}

/// Returns the flag of a dimension whose values are words; null for the others.
std::string* word_of(ConfigurationFlags& f, Dimension dimension) {
  switch (dimension) {
    case Dimension::sp: return &f.sp;
    case Dimension::cp_kind: return &f.cp_kind;
    case Dimension::schedule: return &f.schedule;
    case Dimension::order: return &f.order;
    case Dimension::recompute: return &f.recompute;
    default: return nullptr;
  }
}

/// Returns values to try, in ascending order: divisors of the quantity that the degree divides.
std::vector<std::int32_t> values_of(Dimension dimension, const Job& job) {
  constexpr std::int64_t kMost = 1 << 16;  // bounds the scan
  std::int64_t whole = 0, high = job.cluster.devices();
  std::vector<std::int32_t> out(static_cast<std::size_t>(value_count(dimension)));
  std::iota(out.begin(), out.end(), 0);
  if (!out.empty()) return out;
  if (dimension == Dimension::vpp) high = static_cast<std::int64_t>(job.model.layers.size());
  if (dimension == Dimension::recompute_layers) high = job.model.blocks();
  if (dimension == Dimension::micro_batch) high = job.training.global_batch;
  if (dimension != Dimension::vpp && dimension != Dimension::recompute_layers && dimension != Dimension::ep) whole = high;
  for (std::int64_t v = 1; v <= std::min(high, kMost); ++v)
    if (whole % v == 0) out.push_back(static_cast<std::int32_t>(v));
  return out;
}

std::string flag_of(Dimension dimension) {
  std::string name(to_string(dimension));
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

/// Returns the nearest values of one flag below and above with which everything is legal: "--tp 2 or --tp 4".
std::string nearest_counts(ConfigurationFlags flags, Dimension dimension, std::int32_t now, const Job& job) {
  constexpr int kTries = 64;  // each checks every rule; legal values are near in practice
  std::vector<std::int32_t> values = values_of(dimension, job);
  const auto from = std::lower_bound(values.begin(), values.end(), now) - values.begin();
  const auto first_legal = [&](auto begin, auto end) {
    int tries = 0;
    for (auto it = begin; it != end && tries < kTries; ++it, ++tries) {
      *count_of(flags, dimension) = *it;
      if (*it != now && legal(flags, job)) return flag_of(dimension) + " " + std::to_string(*it);
    }
    return std::string();
  };
  const std::string below = first_legal(std::make_reverse_iterator(values.begin() + from), values.rend());
  const std::string above = first_legal(values.begin() + from, values.end());
  return below.empty() || above.empty() ? below + above : below + " or " + above;
}

std::string legal_words(ConfigurationFlags flags, Dimension dimension, const Job& job) {
  std::string out;
  for (std::int64_t v = 0; v < enum_size(dimension); ++v) {
    *word_of(flags, dimension) = value_text(dimension, v);
    if (!legal(flags, job)) continue;
    out.append(out.empty() ? "" : " or ").append(flag_of(dimension)).append(" ").append(*word_of(flags, dimension));
  }
  return out;
}

/// Returns the dimensions that the broken rules read: first the one that each names, then the others. Rules of
/// engines are not in the table, so they return all.
std::vector<Dimension> dimensions_to_change(const Job& job, const Configuration& c) {
  const EngineModel& engine = *find_engine(job.engine);
  std::vector<Dimension> out;
  DimensionSet reads = 0;
  for (const RuleViolation& v : violations(job.model, job.cluster, job.training, c.strategy, c.schedule, engine.split)) {
    const Rule* rule = find_rule(v.rule);
    if (rule == nullptr) continue;
    if (std::find(out.begin(), out.end(), rule->fix) == out.end()) out.push_back(rule->fix);
    reads |= rule->reads;
  }
  for (int i = 0; i < kDimensions; ++i) {
    const auto dimension = static_cast<Dimension>(i);
    const bool read = reads == 0 || (reads & bit(dimension)) != 0;
    if (read && std::find(out.begin(), out.end(), dimension) == out.end()) out.push_back(dimension);
  }
  return out;
}

std::string one_change(const ConfigurationFlags& flags, const Job& job) {
  const auto c = read_flags(flags, job);
  if (!c) return "";
  for (const Dimension dimension : dimensions_to_change(job, *c)) {
    ConfigurationFlags changed = flags;
    std::string found;
    if (count_of(changed, dimension) != nullptr)
      found = nearest_counts(changed, dimension, static_cast<std::int32_t>(get(dimension, c->strategy, c->schedule)), job);
    else if (word_of(changed, dimension) != nullptr)
      found = legal_words(changed, dimension, job);
    if (!found.empty()) return found;
  }
  return "";
}

/// Returns a hint to leave out a flag whose value follows from the others.
std::string one_flag_less(const ConfigurationFlags& flags, const Job& job) {
  const auto helps = [&](auto ConfigurationFlags::*field) {
    ConfigurationFlags fewer = flags;
    fewer.*field = ConfigurationFlags().*field;
    return fewer.*field != flags.*field && legal(fewer, job);
  };
  if (helps(&ConfigurationFlags::dp))
    return "leave out --dp; it follows from the " + std::to_string(job.cluster.devices()) + " devices";
  if (helps(&ConfigurationFlags::shard)) return "leave out --shard; it follows from the ranks with the same weights";
  if (helps(&ConfigurationFlags::overlap)) return "leave out --overlap; it follows from the engine";
  return "";
}

}  // namespace

std::string change_that_helps(const ConfigurationFlags& flags, const Job& job) {
  if (find_engine(job.engine) == nullptr) return "";
  if (const std::string change = one_change(flags, job); !change.empty()) return change + " would do";
  if (const std::string less = one_flag_less(flags, job); !less.empty()) return less;
  if (!flags.dp) return "";
  ConfigurationFlags without = flags;
  without.dp.reset();
  const std::string change = one_change(without, job);
  return change.empty() ? "" : change + " without --dp would do";
}

}  // namespace espalier::cli
