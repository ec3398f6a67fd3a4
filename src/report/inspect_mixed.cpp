// SPDX-License-Identifier: Apache-2.0
#include "report/inspect_mixed.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/format.h"
#include "espalier/cluster_change.h"
#include "report/brief_text.h"

namespace espalier::report {
namespace {

std::string gigabits(BytesPerSecond bandwidth) { return cat(six_digits(bandwidth.count() * 8 / 1e9), " Gb/s"); }
std::string milli(Seconds time) { return cat(six_digits(time.count() * 1e3), " ms"); }
std::string clock(Seconds time) { return cat(six_digits(time.count()), " s"); }

const char* shared_by(LinkSharing sharing) {
  switch (sharing) {
    case LinkSharing::line: return "all";
    case LinkSharing::node: return "a node";
    case LinkSharing::node_pair: return "pair of nodes";
  }
  return "";
}

/// Holds a run of devices with one factor: "rank:20 to rank:23".
struct SpeedRun {
  std::int64_t first, last;
  double factor;
};

std::vector<SpeedRun> speed_runs(const Cluster& cluster) {
  std::vector<SpeedRun> runs;
  for (const NodeGroup& group : cluster.groups)
    for (const DeviceSpeed& speed : group.speed) {
      if (!runs.empty() && runs.back().last + 1 == speed.device && runs.back().factor == speed.factor)
        runs.back().last = speed.device;
      else
        runs.push_back({speed.device, speed.device, speed.factor});
    }
  return runs;
}

std::string speed_section(const Cluster& cluster) {
  std::vector<std::vector<std::string>> rows{{"device", "speed"}};
  for (const SpeedRun& run : speed_runs(cluster)) {
    const std::string first = cat("rank:", run.first);
    rows.push_back({run.first == run.last ? first : cat(first, " to rank:", run.last), six_digits(run.factor)});
  }
  return rows.size() == 1 ? "" : cat("\nDevices that differ from their kind\n", table(rows));
}

std::string link_section(const Cluster& cluster) {
  if (cluster.links.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"link", "bandwidth", "of", "latency"}};
  for (const GroupLink& link : cluster.links)
    rows.push_back({link.name(), gigabits(link.bandwidth), shared_by(link.sharing), milli(link.latency)});
  return cat("\nLinks, one direction each\n", table(rows, {2}));
}

std::string price_section(const Cluster& cluster) {
  double hour = 0;
  for (const NodeGroup& group : cluster.groups)
    hour += group.price_per_device_hour.value_or(0.0) * static_cast<double>(group.nodes * group.devices_per_node);
  if (hour == 0 && cluster.egress.empty()) return "";
  std::string out = cat("\nPrices\n  all devices  ", fixed(hour, 2), " ", cluster.currency, " per hour\n");
  for (const EgressPrice& price : cluster.egress)
    out += cat("  ", price.from, " to ", price.to, "  ", six_digits(price.per_gigabyte), " ", cluster.currency, " a GB\n");
  return out;
}

std::string capacity_section(const Cluster& cluster) {
  std::vector<std::vector<std::string>> rows{{"capacity of", "changes", "from", "to", "lowest", "highest"}};
  for (const CapacityTrace& trace : cluster.capacity) {
    const auto [low, high] =
        std::minmax_element(trace.changes.begin(), trace.changes.end(),
                            [](const LinkChange& a, const LinkChange& b) { return a.bandwidth_factor < b.bandwidth_factor; });
    rows.push_back({trace.target, std::to_string(trace.changes.size()), clock(trace.changes.front().at),
                    clock(trace.changes.back().at), cat("× ", six_digits(low->bandwidth_factor)),
                    cat("× ", six_digits(high->bandwidth_factor))});
  }
  return rows.size() == 1 ? "" : cat("\nCapacity over time\n", table(rows));
}

std::string bucket_section(const Cluster& cluster) {
  std::vector<std::vector<std::string>> rows{{"token bucket of", "full", "sustained", "at full rate for"}};
  for (const TokenBucket& bucket : cluster.token_buckets) {
    const bool drains = bucket.full > bucket.sustained;
    rows.push_back({bucket.target, gigabits(bucket.full), gigabits(bucket.sustained),
                    drains ? clock(full_rate_lasts(bucket, full_bucket(bucket))) : "ever"});
  }
  return rows.size() == 1 ? "" : cat("\nToken buckets\n", table(rows));
}

constexpr std::array kKinds = {ClusterEventKind::join, ClusterEventKind::leave, ClusterEventKind::slow, ClusterEventKind::link,
                               ClusterEventKind::route};

std::int64_t count_of(const Cluster& cluster, ClusterEventKind kind) {
  return std::count_if(cluster.events.begin(), cluster.events.end(),
                       [kind](const ClusterEvent& event) { return event.kind == kind; });
}

std::string event_section(const Cluster& cluster) {
  if (cluster.events.empty()) return "";
  std::vector<std::string> words;
  for (const ClusterEventKind kind : kKinds)
    if (const std::int64_t n = count_of(cluster, kind)) words.push_back(cat(n, " ", to_string(kind)));
  return cat("\nEvents\n  ", cluster.events.size(), " from ", clock(cluster.events.front().at), " to ",
             clock(cluster.events.back().at), ": ", base::joined(words), "\n");
}

void write_changes(base::JsonWriter& w, const Cluster& cluster) {
  if (!cluster.capacity.empty()) {
    w.key("capacity").begin_array();
    for (const CapacityTrace& trace : cluster.capacity) {
      w.compact_next().begin_object().key("link").value(trace.target).key("changes").begin_array();
      for (const LinkChange& change : trace.changes)
        w.begin_array().value(change.at.count()).value(change.bandwidth_factor).end_array();
      w.end_array().end_object();
    }
    w.end_array();
  }
  if (!cluster.token_buckets.empty()) {
    w.key("token_buckets").begin_array();
    for (const TokenBucket& bucket : cluster.token_buckets) {
      w.compact_next().begin_object().key("link").value(bucket.target);
      w.key("full_gbps").value(bucket.full.count() * 8 / 1e9).key("sustained_gbps").value(bucket.sustained.count() * 8 / 1e9);
      w.key("bucket_bytes").value(bucket.bucket.count()).end_object();
    }
    w.end_array();
  }
  if (cluster.events.empty()) return;
  w.key("events").compact_next().begin_object();
  for (const ClusterEventKind kind : kKinds) w.key(to_string(kind)).value(count_of(cluster, kind));
  w.key("last_s").value(cluster.events.back().at.count());
  w.end_object();
}

}  // namespace

std::string traits_of(const Cluster& cluster, std::size_t index) {
  const NodeGroup& group = cluster.groups[index];
  std::string out;
  if (!group.site.empty()) out += cat(", site ", group.site);
  if (group.price_per_device_hour)
    out += cat(", ", fixed(*group.price_per_device_hour, 2), " ", cluster.currency, " per device-hour");
  if (!group.nics.empty()) out += cat(", ", base::joined(group.nics));
  return out;
}

std::string group_prefix(const Cluster& cluster, const NodeGroup& group) {
  return cluster.homogeneous() ? std::string() : cat(group.name, ": ");
}

std::string mixed_sections(const Cluster& cluster) {
  return speed_section(cluster) + link_section(cluster) + price_section(cluster) + capacity_section(cluster) +
         bucket_section(cluster) + event_section(cluster);
}

void write_traits(base::JsonWriter& w, const Cluster& cluster, std::size_t index) {
  const NodeGroup& group = cluster.groups[index];
  if (!cluster.homogeneous()) w.key("name").value(group.name);
  if (!group.site.empty()) w.key("site").value(group.site);
  if (group.price_per_device_hour) w.key("price_per_device_hour").value(*group.price_per_device_hour);
  if (group.nics.empty()) return;
  w.key("nic").compact_next().begin_array();
  for (const std::string& nic : group.nics) w.value(nic);
  w.end_array();
}

void write_mixed(base::JsonWriter& w, const Cluster& cluster) {
  if (const std::vector<SpeedRun> runs = speed_runs(cluster); !runs.empty()) {
    w.key("speed").begin_array();
    for (const SpeedRun& run : runs)
      w.compact_next()
          .begin_object()
          .key("first")
          .value(run.first)
          .key("last")
          .value(run.last)
          .key("factor")
          .value(run.factor)
          .end_object();
    w.end_array();
  }
  if (!cluster.links.empty()) {
    w.key("links").begin_array();
    for (const GroupLink& link : cluster.links) {
      w.compact_next().begin_object().key("from").value(link.from).key("to").value(link.to);
      w.key("bandwidth_gbps").value(link.bandwidth.count() * 8 / 1e9).key("latency_us").value(link.latency.count() * 1e6);
      w.key("sharing").value(to_string(link.sharing)).end_object();
    }
    w.end_array();
  }
  if (!cluster.egress.empty()) {
    w.key("currency").value(cluster.currency);
    w.key("egress").begin_array();
    for (const EgressPrice& price : cluster.egress) {
      w.compact_next().begin_object().key("from").value(price.from).key("to").value(price.to);
      w.key("per_gigabyte").value(price.per_gigabyte).end_object();
    }
    w.end_array();
  }
  write_changes(w, cluster);
}

}  // namespace espalier::report
