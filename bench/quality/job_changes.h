// SPDX-License-Identifier: Apache-2.0
// Generates changes of a job after which a step must not take longer. One figure of its network, devices or memory
// improves, or it gets nodes, groups or samples. Each change maps the devices of the original job to those of the
// changed one, so that a plan can be carried over.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "random_jobs.h"

namespace espalier::bench {

enum class ChangeKind : std::uint8_t {
  intra_bandwidth,
  inter_bandwidth,
  join_bandwidth,
  latency,
  device,
  memory,
  node,
  group,
  order,
  batch
};
inline constexpr std::array<std::string_view, 10> kChangeKinds = {
    "intra bandwidth", "inter bandwidth", "join bandwidth", "latency", "device",
    "memory",          "node more",       "group more",     "order",   "batch"};

struct Change {
  ChangeKind kind;
  std::string what;
  JobText job;
  std::vector<std::int64_t> device;  ///< new number of each old device
};

class Changes {
 public:
  Changes(const JobText& job, Random& random) : job_(job), random_(random) {}
  std::vector<Change> all() {
    for (std::size_t g = 0; g < job_.groups.size(); ++g) of_group(g);
    of_join();
    of_memory();
    of_order();
    more_groups();
    add(ChangeKind::batch, "batch x 2", [](JobText& j) { j.batch *= 2; });
    return std::move(out_);
  }

 private:
  [[nodiscard]] bool several() const { return job_.groups.size() > 1; }
  /// Returns the devices of the job in a cluster whose groups have more nodes or another order.
  [[nodiscard]] std::vector<std::int64_t> places_in(const JobText& changed) const {
    std::vector<std::int64_t> out;
    for (const GroupText& g : job_.groups) {
      std::int64_t first = 0;
      for (const GroupText& other : changed.groups) {
        if (other.name == g.name) break;
        first += other.nodes * other.per_node;
      }
      for (std::int64_t d = 0; d < g.nodes * g.per_node; ++d) out.push_back(first + d);
    }
    return out;
  }
  void add(ChangeKind kind, const std::string& what, const std::function<void(JobText&)>& apply) {
    JobText changed = job_;
    apply(changed);
    std::vector<std::int64_t> places = places_in(changed);
    out_.push_back({kind, what, std::move(changed), std::move(places)});
  }
  void of_group(std::size_t g) {
    const GroupText& own = job_.groups[g];
    const auto change = [&](ChangeKind kind, const std::string& what, const std::function<void(GroupText&)>& apply) {
      add(kind, cat(own.name, ": ", what), [&](JobText& j) { apply(j.groups[g]); });
    };
    if (own.per_node > 1) {
      change(ChangeKind::intra_bandwidth, "intra_node bandwidth x 2", [](GroupText& t) { t.intra_GBps *= 2; });
      change(ChangeKind::latency, "intra_node latency / 2", [](GroupText& t) { t.intra_us /= 2; });
    }
    if (own.nodes > 1 || several()) {
      change(ChangeKind::inter_bandwidth, "inter_node bandwidth x 2", [](GroupText& t) { t.inter_Gbps *= 2; });
      change(ChangeKind::latency, "inter_node latency / 2", [](GroupText& t) { t.inter_us /= 2; });
    }
    change(ChangeKind::device, "peak x 1.25", [](GroupText& t) { t.peak = 1.25; });
    change(ChangeKind::device, "memory bandwidth x 1.25", [](GroupText& t) { t.memory_bandwidth = 1.25; });
    for (const auto& [device, speed] : own.speed)
      change(ChangeKind::device, cat("speed of device ", device, " up"),
             [device = device](GroupText& t) { t.speed.erase(device); });
    // An additional node is useful only if devices may be left out; on several groups that is the default.
    const bool leaves_out = job_.devices == "any" || (several() && job_.devices.empty());
    if (leaves_out && own.nodes < 16) change(ChangeKind::node, "a node more", [](GroupText& t) { ++t.nodes; });
  }
  void of_join() {
    if (!several() || job_.join == Join::none) return;
    if (job_.join == Join::inter_group) {
      add(ChangeKind::join_bandwidth, "inter_group bandwidth x 2", [](JobText& j) { j.join_Gbps *= 2; });
      add(ChangeKind::latency, "inter_group latency / 2", [](JobText& j) { j.join_us /= 2; });
    }
    for (std::size_t l = 0; l < job_.links.size(); ++l) {
      const std::string name = cat(job_.links[l].from, "-", job_.links[l].to);
      add(ChangeKind::join_bandwidth, cat("link ", name, " bandwidth x 2"), [l](JobText& j) { j.links[l].Gbps *= 2; });
      add(ChangeKind::latency, cat("link ", name, " latency / 2"), [l](JobText& j) { j.links[l].us /= 2; });
    }
  }
  void of_memory() {
    if (job_.limit_GiB <= 0) return;
    add(ChangeKind::memory, "memory limit x 1.25", [](JobText& j) { j.limit_GiB *= 1.25; });
    add(ChangeKind::memory, "no memory limit", [](JobText& j) { j.limit_GiB = 0; });
  }
  void of_order() {
    if (!several() || has_speeds()) return;  // speeds name devices by number
    add(ChangeKind::order, "groups reversed", [](JobText& j) { std::reverse(j.groups.begin(), j.groups.end()); });
    if (job_.groups.size() > 2) add(ChangeKind::order, "groups shuffled", [&](JobText& j) { random_.shuffle(j.groups); });
  }
  [[nodiscard]] bool has_speeds() const {
    return std::any_of(job_.groups.begin(), job_.groups.end(), [](const GroupText& g) { return !g.speed.empty(); });
  }
  /// Adds a group at the end, joined like the others.
  void more_groups() {
    const bool leaves_out = job_.devices == "any" || (several() && job_.devices.empty());
    const bool joined = job_.join == Join::inter_group || (several() && job_.join == Join::links);
    if (!leaves_out || !joined || !several() || job_.groups.size() > 3) return;
    for (const bool like : {true, false}) {
      const GroupText more = [&] {
        GroupText g = job_.groups.front();
        g.name = "z";
        g.speed.clear();
        if (!like) g.device = random_.of(devices_of(job_.precision == "bf16"));
        g.nodes = std::min<std::int64_t>(g.nodes, 2);
        return g;
      }();
      add(ChangeKind::group, like ? "a group more, as the first" : cat("a group more, ", more.device), [&](JobText& j) {
        if (j.join == Join::links)
          j.links.push_back({more.site.empty() ? j.groups.front().name : j.groups.front().site, "z", "", 25, 50});
        j.groups.push_back(more);
        if (j.join == Join::links) j.groups.back().site.clear();
      });
    }
  }

  const JobText& job_;
  Random& random_;
  std::vector<Change> out_;
};

}  // namespace espalier::bench
