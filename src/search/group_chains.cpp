// SPDX-License-Identifier: Apache-2.0
#include "search/group_chains.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace espalier::search {
namespace {

std::int64_t devices_of(const Strategy& s) { return s.devices(); }

/// Returns the first device of each stage of a chain, as device ids of the cluster.
std::vector<std::int64_t> first_devices(const Problem& problem, const StageOptions& options,
                                        const std::vector<solve::GroupedStage>& stages) {
  std::vector<std::size_t> order(stages.size());
  std::iota(order.begin(), order.end(), 0);
  const auto choice = [&](std::size_t i) -> const StageChoice& {
    return options.choices[static_cast<std::size_t>(stages[i].option)];
  };
  const auto devices = [&](std::size_t i) { return devices_of(choice(i).strategy); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return devices(a) > devices(b); });
  std::vector<std::int64_t> next(1, 0), out(stages.size());
  for (const NodeGroup& group : problem.cluster->groups) next.push_back(next.back() + group.nodes * group.devices_per_node);
  for (const std::size_t i : order) {
    std::int64_t& free = next[choice(i).group];
    out[i] = free;
    free += devices(i);
  }
  return out;
}

std::int32_t blocks_in(const Model& model, std::int32_t first, std::int32_t last) {
  std::int32_t blocks = 0;
  for (std::int32_t i = first; i <= last; ++i)
    blocks += model.layer(static_cast<std::size_t>(i)).role == LayerRole::block ? 1 : 0;
  return blocks;
}

/// Adds the chains in which the boundary behind stage i moves by a layer or two.
void add_moved(const Chain& chain, std::size_t i, std::vector<Chain>& out) {
  for (const int step : {-2, -1, 1, 2}) {
    Chain moved = chain;
    moved[i].last += step;
    moved[i + 1].first += step;
    if (moved[i].first <= moved[i].last && moved[i + 1].first <= moved[i + 1].last) out.push_back(std::move(moved));
  }
}

/// Adds the chains in which stages i and j swap places, with or without their numbers of layers.
void add_exchanged(const Chain& chain, std::size_t i, std::size_t j, std::vector<Chain>& out) {
  Chain exchanged = chain;
  std::swap(exchanged[i].option, exchanged[j].option);
  out.push_back(exchanged);
  const std::int32_t more = (chain[j].last - chain[j].first) - (chain[i].last - chain[i].first);
  if (more == 0) return;
  exchanged[i].last += more;
  for (std::size_t k = i + 1; k < j; ++k) exchanged[k] = {chain[k].option, chain[k].first + more, chain[k].last + more};
  exchanged[j].first += more;
  out.push_back(std::move(exchanged));
}

/// Adds the chains that join stages i and i + 1 on the units of either, or of both where these are of one kind.
void add_joined(const Chain& chain, std::size_t i, const StageOptions& options, std::vector<Chain>& out) {
  Chain joined = chain;
  joined[i].last = chain[i + 1].last;
  joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  out.push_back(joined);
  joined[i].option = chain[i + 1].option;
  out.push_back(joined);
  const auto option = [&](std::size_t k) -> const solve::StageOption& {
    return options.options[static_cast<std::size_t>(chain[k].option)];
  };
  if (option(i).kind != option(i + 1).kind) return;
  for (std::size_t o = 0; o < options.options.size(); ++o) {
    const solve::StageOption& both = options.options[o];
    if (both.kind != option(i).kind || both.units != option(i).units + option(i + 1).units) continue;
    joined[i].option = static_cast<std::int32_t>(o);
    out.push_back(joined);
  }
}

/// Adds the chains in which stage i has another option, on the same units or on others.
enum class Units : std::uint8_t { same, other };
void add_changed(const Chain& chain, std::size_t i, Units units, const StageOptions& options, std::vector<Chain>& out) {
  const solve::StageOption& now = options.options[static_cast<std::size_t>(chain[i].option)];
  for (std::size_t o = 0; o < options.options.size(); ++o) {
    const solve::StageOption& other = options.options[o];
    const bool same = other.kind == now.kind && other.units == now.units;
    if (same != (units == Units::same) || static_cast<std::int32_t>(o) == chain[i].option) continue;
    Chain changed = chain;
    changed[i].option = static_cast<std::int32_t>(o);
    out.push_back(std::move(changed));
  }
}

/// Adds the chains that cut stage i in the middle. One half keeps its option, or both halves share its units.
void add_split(const Chain& chain, std::size_t i, const StageOptions& options, std::vector<Chain>& out) {
  if (chain[i].last == chain[i].first) return;
  const std::int32_t middle = chain[i].first + (chain[i].last - chain[i].first) / 2;
  const auto cut = [&](std::int32_t first, std::int32_t second) {
    Chain split = chain;
    split[i] = {first, chain[i].first, middle};
    split.insert(split.begin() + static_cast<std::ptrdiff_t>(i) + 1, {second, middle + 1, chain[i].last});
    out.push_back(std::move(split));
  };
  const std::int32_t own = chain[i].option;
  const solve::StageOption& now = options.options[static_cast<std::size_t>(own)];
  for (std::size_t o = 0; o < options.options.size(); ++o) {
    const auto other = static_cast<std::int32_t>(o);
    const solve::StageOption& half = options.options[o];
    if (half.kind == now.kind && half.units * 2 <= now.units) cut(other, other);
    cut(own, other);
    if (other != own) cut(other, own);
  }
}

}  // namespace

double estimate_ns(const solve::DeviceGroupsProblem& numbers) {
  const auto m = static_cast<double>(numbers.microbatches);
  double rate = 0, stages = 0, end = 0;
  for (std::size_t kind = 0; kind < numbers.units.size(); ++kind) {
    double least = 0, best_rate = 0, best_stages = 0, best_end = 0;
    for (const solve::StageOption& option : numbers.options) {
      if (static_cast<std::size_t>(option.kind) != kind) continue;
      double work = 0, after = static_cast<double>(option.end_fixed_ns);
      for (const std::int32_t type : numbers.layers) {
        const auto t = static_cast<std::size_t>(type);
        work += static_cast<double>(option.forward_ns[t] + option.backward_ns[t]);
        after += static_cast<double>(option.end_ns[t] + option.gather_ns[t] + option.reduce_ns[t]);
      }
      const double number = static_cast<double>(numbers.units[kind]) / static_cast<double>(option.units);
      const double alone = work / number * (m + number) + after / number;
      if (least > 0 && alone >= least) continue;
      least = alone;
      best_rate = number / work;
      best_stages = number;
      best_end = after / number;
    }
    rate += best_rate;
    stages += best_stages;
    end = std::max(end, best_end);
  }
  const auto layers = static_cast<double>(numbers.layers.size());
  stages = std::min(std::max(1.0, stages), layers);
  const double whole = std::ceil(layers / stages) * stages / layers;
  return rate > 0 ? (m + stages) / rate * whole + end / 2 : 0;
}

std::vector<Chain> changes_of(const Chain& chain, const StageOptions& options) {
  std::vector<Chain> out;
  for (std::size_t i = 0; i + 1 < chain.size(); ++i) {
    add_moved(chain, i, out);
    for (std::size_t j = i + 1; j < chain.size(); ++j) add_exchanged(chain, i, j, out);
    add_joined(chain, i, options, out);
  }
  for (std::size_t i = 0; i < chain.size(); ++i) add_changed(chain, i, Units::same, options, out);
  for (std::size_t i = 0; i < chain.size(); ++i) {
    add_changed(chain, i, Units::other, options, out);
    add_split(chain, i, options, out);
  }
  return out;
}

solve::DeviceGroupsProblem solver_problem(const Problem& problem, const StageOptions& options, std::int64_t samples) {
  const std::vector<std::int64_t> units = unit_devices(*problem.cluster);
  solve::DeviceGroupsProblem numbers;
  for (std::size_t g = 0; g < units.size(); ++g) {
    const NodeGroup& group = problem.cluster->groups[g];
    numbers.units.push_back(static_cast<std::int32_t>(group.nodes * group.devices_per_node / units[g]));
  }
  numbers.layers = problem.model->layers;
  numbers.options = options.options;
  numbers.send_ns = options.send_ns;
  numbers.microbatches = problem.training.global_batch / samples;
  numbers.slack_permille = kSlackPermille;
  numbers.candidates = kMostChains;
  numbers.all_units = problem.space.devices == DeviceChoice::all;
  if (const auto pp = problem.space.limits.find(Dimension::pp); pp != problem.space.limits.end())
    numbers.max_stages = static_cast<std::int32_t>(std::min<std::int64_t>(numbers.max_stages, pp->second));
  return numbers;
}

Pipeline pipeline_of(const Problem& problem, const StageOptions& options, const Chain& stages, std::int64_t samples) {
  const std::vector<std::int64_t> devices = first_devices(problem, options, stages);
  Pipeline out;
  out.samples = problem.training.global_batch;
  out.schedule.stages = static_cast<std::int32_t>(stages.size());
  out.schedule.microbatches = static_cast<std::int32_t>(problem.training.global_batch / samples);
  for (std::size_t i = 0; i < stages.size(); ++i) {
    Strategy s = options.choices[static_cast<std::size_t>(stages[i].option)].strategy;
    s.overlap.p2p = stages.size() > 1;
    if (s.recompute.kind == RecomputeKind::full) {
      s.recompute.layers = blocks_in(*problem.model, stages[i].first, stages[i].last);
      if (s.recompute.layers == 0) s.recompute.kind = RecomputeKind::none;
    }
    if (i == 0) out.schedule.micro_batch = static_cast<std::int32_t>(samples / s.dp);
    Stage stage;
    stage.devices = {{devices[i], devices_of(s), 1}};
    stage.chunks.resize(1);
    stage.chunks.front().ranges = {{stages[i].first, stages[i].last, s}};
    out.stages.push_back(std::move(stage));
  }
  return out;
}

}  // namespace espalier::search
