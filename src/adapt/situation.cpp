// SPDX-License-Identifier: Apache-2.0
#include "adapt/situation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "plan/engine.h"
#include "plan/process_groups.h"

namespace espalier::adapt {

std::string_view to_string(ActionKind kind) {
  switch (kind) {
    case ActionKind::stay: return "stay";
    case ActionKind::shift: return "shift";
    case ActionKind::re_place: return "re-place";
    case ActionKind::reroute: return "reroute";
    case ActionKind::reshape: return "reshape";
  }
  return "";
}

Result<std::pair<std::string, double>> named_factor(const std::string& text, const std::string& where, double low, double high) {
  const auto wrong = [&](const std::string& found) {
    return Error{ErrorKind::usage, where, found,
                 base::cat("NAME=NUMBER with a number from ", base::six_digits(low), " to ", base::six_digits(high)), ""};
  };
  const std::size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0) return wrong("\"" + text + "\"");
  double value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + at + 1, end, value);
  if (read.ec != std::errc() || read.ptr != end || !(value >= low && value <= high)) return wrong("\"" + text + "\"");
  return std::pair{text.substr(0, at), value};
}

namespace {

Status usage(const std::string& where, const std::string& found, const std::string& expected) {
  return Error{ErrorKind::usage, where, found, expected, ""};
}

Status add_lost(Situation& s, const Disturbance& what) {
  std::set<std::int64_t> away;
  for (const std::string& name : what.lost) {
    const auto target = target_called(s.whole, name, "--lose");
    if (!target) return target.error();
    if (target->kind != ClusterTarget::Kind::node) return usage("--lose", "\"" + name + "\"", "a node such as \"node:3\"");
    away.insert(target->index);
  }
  s.state.away.assign(away.begin(), away.end());
  return {};
}

Status add_slow(Situation& s, const Disturbance& what) {
  std::map<std::int64_t, double> slow;
  for (const auto& [name, factor] : what.slow) {
    const auto target = target_called(s.whole, name, "--slow");
    if (!target) return target.error();
    if (!(factor >= 1 && std::isfinite(factor)))
      return usage("--slow", base::six_digits(factor), "a slowdown factor of at least 1");
    if (target->kind == ClusterTarget::Kind::device) {
      slow[target->index] = factor;
      continue;
    }
    if (target->kind != ClusterTarget::Kind::node)
      return usage("--slow", "\"" + name + "\"", "a device or node such as \"rank:17\"");
    const std::int64_t first = s.whole.first_device_of_node(target->index);
    for (std::int64_t k = 0; k < s.whole.groups[s.whole.group_of_node(target->index)].devices_per_node; ++k)
      slow[first + k] = factor;
  }
  for (const auto& [device, factor] : slow)
    if (factor != 1.0) s.state.slow.push_back({device, factor});
  return {};
}

Status add_links(Situation& s, const Disturbance& what) {
  std::map<std::string, double> links;
  for (const auto& [name, factor] : what.links) {
    const auto target = target_called(s.whole, name, "--link");
    if (!target) return target.error();
    if (target->kind == ClusterTarget::Kind::group)
      return usage("--link", "\"" + name + "\"", "a link \"a-b\", a node or a device");
    if (!(factor >= 0 && factor <= 1)) return usage("--link", base::six_digits(factor), "a bandwidth factor from 0 (lost) to 1");
    links[name] = factor;
  }
  for (const auto& [name, factor] : links)
    if (factor != 1.0) s.state.capacity.push_back({name, factor});
  return {};
}

Status add_nodes(Situation& s, const Disturbance& what) {
  for (const auto& [name, nodes] : what.added) {
    const auto group = s.whole.group_called(name);
    if (!group) return usage("--add", "\"" + name + "\"", "a node group of the cluster");
    if (nodes < 1 || nodes > 100'000) return usage("--add", cat(nodes), "a number of nodes, at least 1");
    auto more = enlarged(s.whole, s.source, *group, nodes);
    if (!more) return more.error();
    for (std::int64_t& device : s.placed.devices) device = more->moved[static_cast<std::size_t>(device)];
    s.whole = std::move(more->cluster);
    s.source = std::move(more->source);
  }
  return {};
}

void sort_nodes(Situation& s) {
  std::set<std::int64_t> used;
  for (const Pipeline& pipeline : s.plan->pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const std::int64_t device : devices_of(stage.devices))
        used.insert(s.whole.node_of(s.placed.devices[static_cast<std::size_t>(device)]));
  const std::set<std::int64_t> away(s.state.away.begin(), s.state.away.end());
  for (std::int64_t node = 0; node < s.whole.nodes(); ++node) {
    if (used.count(node) > 0) s.used.push_back(node);
    if (used.count(node) > 0 && away.count(node) > 0) s.lost.push_back(node);
    if (used.count(node) == 0 && away.count(node) == 0) s.spare.push_back(node);
  }
}

/// Makes every device of a group as slow as its slowest. This bounds the time of a plan that has no price on unlike
/// devices.
Cluster all_slowest(Cluster cluster) {
  for (NodeGroup& group : cluster.groups) {
    double least = 1.0;
    for (const DeviceSpeed& speed : group.speed) least = std::min(least, speed.factor);
    group.device = group.device.at_speed(least);
    group.speed.clear();
  }
  return cluster;
}

bool narrowed_nodes(const Situation& s, const Present& present) {
  return std::any_of(s.state.capacity.begin(), s.state.capacity.end(), [&](const CapacityFactor& c) {
    const auto target = target_called(s.whole, c.target, "cluster");
    ESPALIER_CHECK(target.ok());
    if (target->kind == ClusterTarget::Kind::link) return false;
    const std::int64_t node = target->kind == ClusterTarget::Kind::node ? target->index : s.whole.node_of(target->index);
    return std::find(present.node_of.begin(), present.node_of.end(), node) != present.node_of.end();
  });
}

}  // namespace

MoveScene Situation::scene() const { return {&job->model, engine, job->training, &whole, state, options.move}; }

Result<Situation> situation_of(const Job& job, const Plan& plan, const Disturbance& what, const ChangeOptions& options) {
  Situation s;
  s.job = &job;
  s.plan = &plan;
  s.options = options;
  s.engine = job.engine_model ? job.engine_model.get() : find_engine(job.engine);
  if (s.engine == nullptr) return Error{ErrorKind::bad_input, "engine", "\"" + job.engine + "\"", "a known engine", ""};
  s.whole = job.cluster;
  s.whole.capacity.clear();
  s.whole.events.clear();
  s.source = without_changes(job.cluster_source);
  s.placed.plan = &plan;
  s.placed.devices.resize(static_cast<std::size_t>(job.cluster.devices()));
  std::iota(s.placed.devices.begin(), s.placed.devices.end(), 0);
  Job still = job;
  still.cluster = s.whole;
  const auto before = simulate(still, plan);
  if (!before) return before.error();
  s.before_ns = before->prediction.iteration_ns;
  for (const auto add : {add_nodes, add_lost, add_slow, add_links})
    if (Status status = add(s, what); !status.ok()) return status.error();
  s.state = without_lost_links(s.whole, std::move(s.state));
  sort_nodes(s);
  return s;
}

Plan renumbered(const Plan& plan, const std::vector<std::int64_t>& number_of) {
  Plan out = plan;
  for (Pipeline& pipeline : out.pipelines)
    for (Stage& stage : pipeline.stages) {
      std::vector<std::int64_t> devices = devices_of(stage.devices);
      bool same = true;
      for (std::int64_t& device : devices) {
        const std::int64_t now = number_of[static_cast<std::size_t>(device)];
        same &= now == device;
        device = now;
      }
      if (same) continue;
      stage.devices.clear();
      for (const std::int64_t device : devices) {
        if (!stage.devices.empty()) {
          DeviceRange& last = stage.devices.back();
          if (last.count == 1 && device > last.first) last.stride = device - last.first;
          if (device == last.first + last.count * last.stride) {
            ++last.count;
            continue;
          }
          if (last.count == 1) last.stride = 1;
        }
        stage.devices.push_back({device, 1, 1});
      }
    }
  return out;
}

Plan on_own_nodes(const Situation& s) {
  std::vector<std::int64_t> number(static_cast<std::size_t>(s.whole.devices()), -1);
  std::int64_t next = 0;
  for (const std::int64_t node : s.used)
    for (std::int64_t k = 0; k < s.whole.groups[s.whole.group_of_node(node)].devices_per_node; ++k)
      number[static_cast<std::size_t>(s.whole.first_device_of_node(node) + k)] = next++;
  std::vector<std::int64_t> number_of;
  for (const std::int64_t device : s.placed.devices) number_of.push_back(number[static_cast<std::size_t>(device)]);
  return renumbered(*s.plan, number_of);
}

Job job_on(const Situation& s, const Present& present, bool nominal) {
  Job job = *s.job;
  job.cluster = present.cluster;
  job.cluster_source = present.source;
  if (nominal)
    for (NodeGroup& group : job.cluster.groups) group.speed.clear();
  return job;
}

Result<StepTime> step_time(const Situation& s, const Present& present, const Plan& plan) {
  Job job = job_on(s, present, false);
  auto result = simulate(job, plan);
  bool bound = narrowed_nodes(s, present);
  if (!result && job.cluster.has_speeds()) {
    job.cluster = all_slowest(job.cluster);
    bound = true;
    result = simulate(job, plan);
  }
  if (!result) return result.error();
  const Prediction& p = result->prediction;
  return StepTime{p.iteration_ns, bound, p.fits, p.peak_memory_bytes, p.memory.activations, p.memory_limit_bytes};
}

std::vector<std::int64_t> healthy_nodes(const Situation& s) {
  std::set<std::int64_t> out(s.state.away.begin(), s.state.away.end());
  for (const Slowdown& slow : s.state.slow) out.insert(s.whole.node_of(slow.device));
  for (const CapacityFactor& c : s.state.capacity) {
    const auto target = target_called(s.whole, c.target, "cluster");
    ESPALIER_CHECK(target.ok());
    if (target->kind == ClusterTarget::Kind::node) out.insert(target->index);
    if (target->kind == ClusterTarget::Kind::device) out.insert(s.whole.node_of(target->index));
  }
  std::vector<std::int64_t> nodes;
  for (std::int64_t node = 0; node < s.whole.nodes(); ++node)
    if (out.count(node) == 0) nodes.push_back(node);
  return nodes;
}

void judge(Change& change, const std::optional<std::int64_t>& if_stay_ns) {
  change.gain_ns = if_stay_ns ? *if_stay_ns - change.iteration_ns : 0;
  change.break_even_s.reset();
  if (change.action == ActionKind::stay || !change.possible) return;
  const double pause = change.move.pause_s();
  if (!if_stay_ns) {
    change.break_even_s = pause;
  } else if (change.gain_ns > 0) {
    change.break_even_s = pause * static_cast<double>(*if_stay_ns) / static_cast<double>(change.gain_ns);
  }
}

}  // namespace espalier::adapt
