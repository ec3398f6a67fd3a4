// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_tables.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/invariant.h"

namespace espalier::solve::device_groups {
namespace {

void check_option(const StageOption& option, std::size_t kinds, std::size_t types) {
  ESPALIER_CHECK(option.kind >= 0 && static_cast<std::size_t>(option.kind) < kinds && option.units >= 1);
  for (const auto* figures :
       {&option.forward_ns, &option.backward_ns, &option.static_bytes, &option.saved_bytes, &option.end_ns}) {
    ESPALIER_CHECK(figures->size() >= types);
    ESPALIER_CHECK(std::all_of(figures->begin(), figures->end(), [](std::int64_t x) { return x >= 0; }));
  }
  for (const auto* figures : {&option.gather_ns, &option.reduce_ns, &option.transient_bytes}) {
    ESPALIER_CHECK(figures->empty() || figures->size() >= types);
    ESPALIER_CHECK(std::all_of(figures->begin(), figures->end(), [](std::int64_t x) { return x >= 0; }));
  }
  ESPALIER_CHECK(option.parts >= 1 && option.slowdown_millionths >= 1'000'000);
  ESPALIER_CHECK(option.pass_forward_ns >= 0 && option.pass_backward_ns >= 0 && option.fixed_bytes >= 0 &&
                 option.end_fixed_ns >= 0 && option.message_bytes >= 0);
}

std::int32_t port_of(const StageOption& option) { return option.port < 0 ? option.kind : option.port; }

const DeviceGroupsProblem& checked(const DeviceGroupsProblem& problem) {
  ESPALIER_CHECK(!problem.layers.empty() && problem.layers.size() < 30'000 && problem.microbatches >= 1);
  ESPALIER_CHECK(problem.max_stages >= 1 && problem.slack_permille >= 0 && problem.states >= 1);
  ESPALIER_CHECK(problem.table_cells >= 0 && problem.depth >= 1);
  ESPALIER_CHECK(std::all_of(problem.units.begin(), problem.units.end(), [](std::int32_t n) { return n >= 0; }));
  ESPALIER_CHECK(*std::min_element(problem.layers.begin(), problem.layers.end()) >= 0);
  for (const auto& row : problem.send_ns) ESPALIER_CHECK(row.size() == problem.send_ns.size());
  if (!problem.send_ns.empty())
    for (const StageOption& option : problem.options)
      ESPALIER_CHECK(static_cast<std::size_t>(port_of(option)) < problem.send_ns.size());
  const auto types = static_cast<std::size_t>(*std::max_element(problem.layers.begin(), problem.layers.end())) + 1;
  for (const StageOption& option : problem.options) check_option(option, problem.units.size(), types);
  return problem;
}

/// Returns a figure of a type; 0 if the figures are empty.
std::int64_t at(const std::vector<std::int64_t>& figures, std::int32_t type) { return figures.empty() ? 0 : figures[type]; }

/// Returns whether a is no worse than b in every figure of the existing layer types.
bool no_worse(const StageOption& a, const StageOption& b, const std::set<std::int32_t>& types) {
  if (a.parts != b.parts || a.slowdown_millionths > b.slowdown_millionths) return false;
  if (a.kind != b.kind || a.units != b.units || a.pass_forward_ns > b.pass_forward_ns ||
      a.pass_backward_ns > b.pass_backward_ns || a.end_fixed_ns > b.end_fixed_ns ||
      a.memory_bytes - a.fixed_bytes < b.memory_bytes - b.fixed_bytes ||
      a.memory_bytes - a.fixed_bytes - a.message_bytes < b.memory_bytes - b.fixed_bytes - b.message_bytes)
    return false;
  return std::all_of(types.begin(), types.end(), [&](std::int32_t t) {
    return a.forward_ns[t] <= b.forward_ns[t] && a.backward_ns[t] <= b.backward_ns[t] && a.static_bytes[t] <= b.static_bytes[t] &&
           a.saved_bytes[t] <= b.saved_bytes[t] && a.end_ns[t] <= b.end_ns[t] && at(a.gather_ns, t) <= at(b.gather_ns, t) &&
           at(a.reduce_ns, t) <= at(b.reduce_ns, t) && at(a.transient_bytes, t) <= at(b.transient_bytes, t);
  });
}

/// Returns options that no other equals or beats; among equals the first. Options that take more units than available
/// count as beaten. The ports of `tables` must be known.
std::vector<std::int32_t> worth_trying(const DeviceGroupsProblem& problem, const StageTables& tables) {
  const std::set<std::int32_t> types(problem.layers.begin(), problem.layers.end());
  std::vector<std::int32_t> kept;
  for (std::size_t b = 0; b < problem.options.size(); ++b) {
    const StageOption& option = problem.options[b];
    bool beaten = option.units > problem.units[option.kind];
    for (std::size_t a = 0; a < problem.options.size() && !beaten && tables.uses(GroupRule::options); ++a) {
      const StageOption& other = problem.options[a];
      if (a == b || !tables.no_worse_port(port_of(other), port_of(option)) || !no_worse(other, option, types)) continue;
      beaten = a < b || !tables.no_worse_port(port_of(option), port_of(other)) || !no_worse(option, other, types);
    }
    if (!beaten) kept.push_back(static_cast<std::int32_t>(b));
  }
  return kept;
}

std::vector<std::int64_t> sums(const std::vector<std::int32_t>& layers, const std::vector<std::int64_t>& of_type) {
  std::vector<std::int64_t> result{0};
  for (const std::int32_t type : layers) result.push_back(result.back() + at(of_type, type));
  return result;
}

/// Returns the larger of the least shares of f and of b in w, over the layers and the pass, but at least half;
/// 1/1000, rounded down. A share of a sum is no smaller than the least share of its parts.
std::int64_t share_of_longer(const StageOption& option, const std::vector<std::int32_t>& layers) {
  std::int64_t forward = 1000, backward = 1000;
  const auto add = [&](std::int64_t f, std::int64_t b) {
    if (f + b == 0) return;
    forward = std::min(forward, f * 1000 / (f + b));
    backward = std::min(backward, b * 1000 / (f + b));
  };
  add(option.pass_forward_ns, option.pass_backward_ns);
  for (const std::int32_t type : layers) add(option.forward_ns[type], option.backward_ns[type]);
  return std::max<std::int64_t>({forward, backward, 500});
}

/// Returns the least shares of f and of b in w over the layers and the pass; 1/1000, rounded down.
std::pair<std::int64_t, std::int64_t> shares_of_both(const StageOption& option, const std::vector<std::int32_t>& layers) {
  std::pair<std::int64_t, std::int64_t> share{1000, 1000};
  const auto add = [&](std::int64_t f, std::int64_t b) {
    if (f + b == 0) return;
    share.first = std::min(share.first, f * 1000 / (f + b));
    share.second = std::min(share.second, b * 1000 / (f + b));
  };
  add(option.pass_forward_ns, option.pass_backward_ns);
  for (const std::int32_t type : layers) add(option.forward_ns[type], option.backward_ns[type]);
  return share;
}

}  // namespace

StageTables::StageTables(const DeviceGroupsProblem& problem) : runs_(checked(problem).layers) {
  layers_ = static_cast<std::int32_t>(problem.layers.size());
  microbatches_ = problem.microbatches;
  without_ = problem.without;
  all_units_ = problem.all_units;
  table_cells_ = uses(GroupRule::room) ? problem.table_cells : 0;
  fill_sends(problem);
  const std::vector<std::int32_t> kept = worth_trying(problem, *this);
  dropped_ = static_cast<std::int64_t>(problem.options.size() - kept.size());
  count_units(problem, kept);
  const std::int64_t stages = std::accumulate(units_.begin(), units_.end(), std::int64_t{0});
  most_stages_ = static_cast<std::int32_t>(std::min<std::int64_t>({stages, problem.max_stages, layers_}));
  depth_ = std::min(problem.depth, most_stages_);
  for (const std::int32_t o : kept) add_option(problem, o);
  std::stable_sort(shapes_.begin(), shapes_.end(),
                   [](const Shape& a, const Shape& b) { return a.kind != b.kind ? a.kind < b.kind : a.units < b.units; });
  count_most_of_stage();
  fill_least_work();
  fill_least();
}

void StageTables::count_most_of_stage() {
  most_of_stage_.assign(units_.size(), 1);
  for (const Shape& shape : shapes_) {
    std::int64_t& most = most_of_stage_[static_cast<std::size_t>(shape.kind)];
    most = std::max<std::int64_t>(most, shape.units);
  }
}

std::int64_t StageTables::worst_bound() const {
  std::int64_t pass = 0, end = 0, begin = 0, layers = 0, slowdown = 0;
  for (const Option& o : options_) pass = std::max(pass, o.pass_forward + o.pass_backward);
  for (const Option& o : options_) {
    end = std::max(end, o.end_fixed + o.end[layers_] + o.reduce[layers_]);
    begin = std::max(begin, 2 * o.gather[layers_]);
    slowdown = std::max(slowdown, o.slowdown);
  }
  for (std::int32_t l = 0; l < layers_; ++l) {
    std::int64_t layer = 0;
    for (const Option& o : options_) layer = std::max(layer, o.forward[l + 1] - o.forward[l] + o.backward[l + 1] - o.backward[l]);
    layers += layer;
  }
  const std::int64_t send = port_send_.empty() ? 0 : *std::max_element(port_send_.begin(), port_send_.end());
  const std::int64_t chain = layers + most_stages_ * (pass + 2 * send);
  const std::int64_t stretched = (chain / 1000 + 1) * ((slowdown - 1'000'000) / 1000 + 1);
  return (microbatches_ + 1) * chain + begin + end + stretched;
}

void StageTables::fill_sends(const DeviceGroupsProblem& problem) {
  const std::size_t kinds = problem.units.size();
  ports_ = static_cast<std::int32_t>(problem.send_ns.empty() ? kinds : problem.send_ns.size());
  const auto ports = static_cast<std::size_t>(ports_);
  port_send_.assign(ports * ports, 0);
  for (std::size_t a = 0; a < problem.send_ns.size(); ++a)
    std::copy(problem.send_ns[a].begin(), problem.send_ns[a].end(), port_send_.begin() + static_cast<std::ptrdiff_t>(a * ports));
  better_port_.assign(ports * ports, 1);
  for (std::size_t a = 0; a < ports; ++a)
    for (std::size_t b = 0; b < ports; ++b)
      for (std::size_t x = 0; x < ports; ++x)
        if (port_send_[a * ports + x] > port_send_[b * ports + x] || port_send_[x * ports + a] > port_send_[x * ports + b])
          better_port_[a * ports + b] = 0;
  std::vector<std::set<std::int32_t>> of_kind(kinds);
  for (const StageOption& option : problem.options) of_kind[static_cast<std::size_t>(option.kind)].insert(port_of(option));
  send_.assign(kinds * kinds, 0);
  for (std::size_t a = 0; a < kinds; ++a)
    for (std::size_t b = 0; b < kinds; ++b) {
      std::int64_t least = kNever;
      for (const std::int32_t from : of_kind[a])
        for (const std::int32_t to : of_kind[b]) {
          least = std::min(least, port_send(from, to));
          const std::int64_t both = port_send(from, to) + port_send(to, from);
          if (both == 0) continue;
          forward_permille_ = std::min(forward_permille_, port_send(from, to) * 1000 / both);
          backward_permille_ = std::min(backward_permille_, port_send(to, from) * 1000 / both);
        }
      send_[a * kinds + b] = least == kNever ? 0 : least;
    }
}

void StageTables::count_units(const DeviceGroupsProblem& problem, const std::vector<std::int32_t>& kept) {
  divisor_.assign(problem.units.size(), 0);
  for (const std::int32_t o : kept) {
    const StageOption& option = problem.options[o];
    divisor_[option.kind] = std::gcd(divisor_[option.kind], option.units);
  }
  for (std::size_t kind = 0; kind < divisor_.size(); ++kind) {
    units_.push_back(divisor_[kind] == 0 ? 0 : problem.units[kind] / divisor_[kind]);
    if (all_units_ && units_.back() * divisor_[kind] != problem.units[kind]) units_can_be_used_ = false;
    strides_.push_back(codes_);
    codes_ *= units_.back() + 1;
    ESPALIER_CHECK(codes_ < kNever >> 20);
  }
}

void StageTables::add_option(const DeviceGroupsProblem& problem, std::int32_t original) {
  const StageOption& from = problem.options[original];
  Option option;
  option.original = original;
  option.kind = from.kind;
  option.forward = sums(problem.layers, from.forward_ns);
  option.backward = sums(problem.layers, from.backward_ns);
  option.port = port_of(from);
  option.end = sums(problem.layers, from.end_ns);
  option.gather = sums(problem.layers, from.gather_ns);
  option.reduce = sums(problem.layers, from.reduce_ns);
  option.parts = from.parts;
  option.slowdown = from.slowdown_millionths;
  option.pass_forward = from.pass_forward_ns;
  option.pass_backward = from.pass_backward_ns;
  option.end_fixed = from.end_fixed_ns;
  fill_most_in_flight(problem, from, option);
  longer_permille_ = std::min(longer_permille_, share_of_longer(from, problem.layers));
  const auto [forward, backward] = shares_of_both(from, problem.layers);
  forward_permille_ = std::min(forward_permille_, forward);
  backward_permille_ = std::min(backward_permille_, backward);
  least_end_ = std::min(least_end_, option.end_fixed + option.end[1]);
  const std::int32_t units = from.units / divisor_[from.kind];
  const auto same = [&](const Shape& shape) { return shape.kind == from.kind && shape.units == units; };
  auto shape = std::find_if(shapes_.begin(), shapes_.end(), same);
  if (shape == shapes_.end()) shape = shapes_.insert(shape, Shape{from.kind, units, units * strides_[from.kind], {}});
  shape->options.push_back(static_cast<std::int32_t>(options_.size()));
  options_.push_back(std::move(option));
}

/// Fills most_in_flight. While a layer runs, its transients are held, and the saved activations of later layers are
/// already freed.
void StageTables::fill_most_in_flight(const DeviceGroupsProblem& problem, const StageOption& from, Option& option) const {
  const std::vector<std::int64_t> fixed = sums(problem.layers, from.static_bytes), saved = sums(problem.layers, from.saved_bytes);
  const std::int64_t room = from.memory_bytes - from.fixed_bytes, most = in_flight(most_stages_);
  std::vector<std::int64_t> transient;  // [run]
  for (const LayerRuns::Run& run : runs_.all()) {
    const std::int64_t before = run.shorter < 0 ? 0 : transient[static_cast<std::size_t>(run.shorter)];
    transient.push_back(std::max({at(from.transient_bytes, run.type), before - from.saved_bytes[run.type], std::int64_t{0}}));
    const std::int64_t kept = saved[run.end] - saved[run.begin];
    const std::int64_t left = room - (fixed[run.end] - fixed[run.begin]) - transient.back();
    const std::int64_t several = left - from.message_bytes;  // for more than one micro-batch
    std::int64_t fit = left >= kept ? 1 : 0;
    if (several >= 2 * kept) fit = kept == 0 ? most : std::min(most, several / kept);
    option.most_in_flight.push_back(static_cast<std::int32_t>(std::min(fit, most)));
  }
}

/// Fills the least work. An option that fits with some number of stages behind fits with fewer. So each run is
/// entered at the largest number where it fits, and from there downwards.
void StageTables::fill_least_work() {
  memory_depth_ = std::max(0, static_cast<std::int32_t>(std::min<std::int64_t>(depth_ + 1, in_flight(most_stages_))) - 1);
  const std::size_t level = shapes_.size() * runs_.count();
  least_work_.assign(static_cast<std::size_t>(memory_depth_ + 1) * level, kNever);
  for (std::size_t s = 0; s < shapes_.size(); ++s)
    for (const std::int32_t o : shapes_[s].options)
      for (std::size_t run = 0; run < runs_.count(); ++run) {
        const std::int32_t most = option(o).most_in_flight[run];
        if (most == 0) continue;
        const StageTime t = time(option(o), static_cast<std::int32_t>(run));
        const auto behind = static_cast<std::size_t>(std::min(memory_depth_, most - 1));
        std::int64_t& cell = least_work_[behind * level + s * runs_.count() + run];
        cell = std::min(cell, t.forward + t.backward);
      }
  for (std::size_t i = least_work_.size() - level; i-- > 0;) least_work_[i] = std::min(least_work_[i], least_work_[i + level]);
}

void StageTables::fill_least() {
  least_.assign(shapes_.size() * runs_.count(), {kNever, kNever, kNever, kNever, kNever, kNever});
  for (std::size_t s = 0; s < shapes_.size(); ++s)
    for (std::size_t run = 0; run < runs_.count(); ++run) {
      if (least_work(0, s)[run] >= kNever) continue;
      Least& cell = least_[s * runs_.count() + run];
      for (const std::int32_t o : shapes_[s].options) {
        const StageTime t = time(option(o), static_cast<std::int32_t>(run));
        cell.step = std::min(cell.step, t.begin + microbatches_ * (t.forward + t.backward) + t.stretch + t.end);
        cell.begin = std::min(cell.begin, t.begin + t.stretch);
        cell.end = std::min(cell.end, t.stretch + t.end);
        cell.both = std::min(cell.both, t.begin + t.stretch + t.end);
        cell.late = std::min(cell.late, t.forward + t.backward + t.stretch);
        cell.alone = std::min(cell.alone, t.begin + t.forward + t.backward + t.stretch + t.end);
      }
    }
}

}  // namespace espalier::solve::device_groups
