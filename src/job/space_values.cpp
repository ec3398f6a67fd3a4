// SPDX-License-Identifier: Apache-2.0
#include "job/space_values.h"

#include <algorithm>
#include <numeric>

#include "job/search_part.h"

namespace espalier::job {
namespace {

std::vector<std::int64_t> divisors_of(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d != n / d) out.push_back(n / d);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::int64_t> counting(std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(std::max<std::int64_t>(0, high - low + 1)));
  std::iota(out.begin(), out.end(), low);
  return out;
}

std::vector<std::int64_t> expert_divisors(const Model& model) {
  std::vector<std::int64_t> out{1};
  for (const LayerKind& kind : model.kinds) {
    for (const Operator& op : kind.operators) {
      if (op.experts <= 1) continue;
      const auto more = divisors_of(op.experts);
      out.insert(out.end(), more.begin(), more.end());
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// Returns "2 or 4": the possible values around one that is not.
std::string neighbours(const std::vector<std::int64_t>& possible, std::int64_t value) {
  const auto above = std::lower_bound(possible.begin(), possible.end(), value);
  const std::string low = above == possible.begin() ? "" : std::to_string(*(above - 1));
  const std::string high = above == possible.end() ? "" : std::to_string(*above);
  return low + (low.empty() || high.empty() ? "" : " or ") + high;
}

std::string listed_values(const std::vector<std::int64_t>& values) {
  constexpr std::size_t kMost = 12;
  if (values.size() > kMost) return std::to_string(values.front()) + " … " + std::to_string(values.back());
  std::string out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == values.size() ? " or " : ", ") + std::to_string(values[i]);
  }
  return out;
}

bool possible(const std::vector<std::int64_t>& values, std::int64_t value) {
  return std::binary_search(values.begin(), values.end(), value);
}

/// Checks the pinned values of one dimension, as the job file states them under `part` ("fix" or "allow").
void check_dimension(base::Reader& part, Dimension dimension, const std::vector<std::int64_t>& values, const Job& job) {
  const std::string name(to_string(dimension));
  const auto here = possible_values(dimension, job);
  // mean_modules checks whether the engine has sets of modules.
  const auto sets = [&](std::int64_t v) { return dimension == Dimension::recompute && v == kModuleSets; };
  if (std::any_of(values.begin(), values.end(), [&](std::int64_t v) { return sets(v) || possible(here, v); })) return;
  const bool one = values.size() == 1;
  const std::string found = one ? std::to_string(values.front()) : listed_values(values) + ", none of which is possible";
  part.fail(name, found, listed_values(here) + ": " + reason_of_values(dimension, job),
            here.size() == 1 ? "remove search." + part.path().substr(part.path().rfind('.') + 1) + "." + name
                             : "choose " + neighbours(here, values.front()));
}

}  // namespace

std::vector<std::int64_t> possible_values(Dimension dimension, const Job& job) {
  const auto layers = static_cast<std::int64_t>(job.model.layers.size());
  switch (dimension) {
    case Dimension::tp:
    case Dimension::cp:
    case Dimension::dp:
    case Dimension::etp:
    case Dimension::shard: return divisors_of(job.cluster.devices());
    case Dimension::pp: {
      auto out = divisors_of(job.cluster.devices());
      std::erase_if(out, [&](std::int64_t v) { return v > layers; });
      return out;
    }
    case Dimension::ep: return expert_divisors(job.model);
    case Dimension::vpp: return counting(1, layers);
    case Dimension::micro_batch: return divisors_of(job.training.global_batch);
    case Dimension::recompute_layers: return counting(0, job.model.blocks());
    default: return counting(0, value_count(dimension) - 1);
  }
}

std::string reason_of_values(Dimension dimension, const Job& job) {
  const std::string devices = std::to_string(job.cluster.devices());
  switch (dimension) {
    case Dimension::tp:
    case Dimension::cp:
    case Dimension::dp:
    case Dimension::etp:
    case Dimension::shard: return "divisors of the " + devices + " devices";
    case Dimension::pp:
      return "divisors of the " + devices + " devices up to the " + std::to_string(job.model.layers.size()) +
             " layers (embedding and head counted)";
    case Dimension::ep:
      return possible_values(Dimension::ep, job).size() == 1 ? "the model has no experts" : "divisors of the model's experts";
    case Dimension::vpp: return "up to the layers of the model";
    case Dimension::micro_batch: return "divisors of the global batch " + std::to_string(job.training.global_batch);
    case Dimension::zero: return "the ZeRO stages";
    case Dimension::recompute_layers: return "up to the blocks of the model";
    default: return "its values";
  }
}

void check_space_values(base::Reader& search, const Job& job) {
  base::Reader fix = search.child("fix", false), allow = search.child("allow", false);
  for (const auto& [dimension, values] : job.search.allowed) {
    check_dimension(job.search.fixed.contains(dimension) ? fix : allow, dimension, values, job);
  }
}

}  // namespace espalier::job
