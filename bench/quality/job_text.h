// SPDX-License-Identifier: Apache-2.0
// Holds a job as figures that can be changed one by one, and writes it as a job file. The network is a flag of the
// command line, so the text contains it as a comment.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/format.h"
#include "cluster/names.h"
#include "espalier/cluster.h"
#include "espalier/job.h"

namespace espalier::bench {

struct GroupText {
  std::string name, site, device;
  std::int64_t nodes = 1, per_node = 1;
  double intra_GBps = 0, intra_us = 0;  ///< 0: the usual node of the device
  double inter_Gbps = 100, inter_us = 5;
  std::int64_t nics = 1;
  double peak = 1, memory_bandwidth = 1;  ///< relative to the catalogue
  std::map<std::int64_t, double> speed;   ///< by device of the group
};

enum class Join : std::uint8_t { none, inter_group, links, matrix };

struct LinkText {
  std::string from, to, sharing;  ///< sharing "": the default
  double Gbps = 100, us = 5;
};

struct JobText {
  std::string model, sequence, lengths, precision, schedules, devices, space;  ///< "": not stated
  std::int64_t batch = 8;
  std::vector<GroupText> groups;
  Join join = Join::inter_group;
  double join_Gbps = 100, join_us = 5;
  std::string matrix_sharing;
  std::vector<LinkText> links;
  double limit_GiB = 0;  ///< 0: none
  double margin = -1;    ///< below 0: the default
  bool flow = false;
  [[nodiscard]] std::int64_t total() const {
    std::int64_t sum = 0;
    for (const GroupText& g : groups) sum += g.nodes * g.per_node;
    return sum;
  }
};

inline std::string figure(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

/// Returns the device as in the catalogue, or with its figures scaled.
inline std::string device_text(const GroupText& g) {
  if (g.peak == 1 && g.memory_bandwidth == 1) return g.device;
  const DeviceKind kind = load_cluster(cat("{nodes: 1, device: ", g.device, "}"), "catalogue").value().groups.front().device;
  std::string peaks;
  for (std::size_t i = 0; i < cluster::kPrecisionNames.size(); ++i)
    if (const double tflops = kind.peak[i].count() * 1e-12; tflops > 0)
      peaks += cat(peaks.empty() ? "" : ", ", cluster::kPrecisionNames[i], ": ", figure(tflops * g.peak));
  return cat("{base: ", g.device, ", peak_tflops: {", peaks,
             "}, memory_bandwidth: ", figure(kind.memory_bandwidth.count() * 1e-9 * g.memory_bandwidth), "GB/s}");
}

inline std::string group_text(const GroupText& g, std::int64_t first_device, bool alone) {
  std::string out = cat("nodes: ", g.nodes, ", devices_per_node: ", g.per_node, ", device: ", device_text(g));
  if (!alone) out = cat("name: ", g.name, ", ", g.site.empty() ? "" : cat("site: ", g.site, ", "), out);
  if (g.intra_GBps > 0 && g.per_node > 1)
    out += cat(", intra_node: {bandwidth: ", figure(g.intra_GBps), "GB/s, latency: ", figure(g.intra_us), "us}");
  out += cat(", inter_node: {bandwidth: ", figure(g.inter_Gbps), "Gb/s, nics_per_node: ", g.nics,
             ", latency: ", figure(g.inter_us), "us}");
  std::string speeds;
  for (const auto& [device, speed] : g.speed)
    speeds += cat(speeds.empty() ? "" : ", ", "\"rank:", first_device + device, "\": ", figure(speed));
  return speeds.empty() ? out : cat(out, ", speed: {", speeds, "}");
}

inline std::string join_text(const JobText& job) {
  std::string rows;
  if (job.join == Join::none) return "";
  if (job.join == Join::inter_group)
    return cat(", inter_group: {bandwidth: ", figure(job.join_Gbps), "Gb/s, latency: ", figure(job.join_us), "us}");
  for (const LinkText& l : job.links) {
    if (job.join == Join::links)
      rows += cat(rows.empty() ? "" : ", ", "{from: ", l.from, ", to: ", l.to, ", bandwidth: ", figure(l.Gbps),
                  "Gb/s, latency: ", figure(l.us), "us, both: true", l.sharing.empty() ? "" : cat(", sharing: ", l.sharing), "}");
    else
      for (const bool back : {false, true})
        rows += cat(rows.empty() ? "" : ", ", "{from: ", back ? l.to : l.from, ", to: ", back ? l.from : l.to,
                    ", gbps: ", figure(l.Gbps), ", delay_ms: ", figure(l.us * 1e-3), "}");
  }
  const std::string sharing = job.matrix_sharing.empty() ? "" : cat(", sharing: ", job.matrix_sharing);
  return job.join == Join::links ? cat(", links: [", rows, "]") : cat(", matrix: [", rows, "]", sharing);
}

inline std::string cluster_text(const JobText& job) {
  const std::string limit = job.limit_GiB > 0 ? cat(", memory_limit: ", figure(job.limit_GiB), "GiB") : "";
  if (job.groups.size() == 1) return cat("{", group_text(job.groups.front(), 0, true), limit, "}");
  std::string groups;
  std::int64_t first = 0;
  for (const GroupText& g : job.groups) {
    groups += cat(groups.empty() ? "" : ", ", "{", group_text(g, first, false), "}");
    first += g.nodes * g.per_node;
  }
  return cat("{groups: [", groups, "]", join_text(job), limit, "}");
}

inline std::string text_of(const JobText& job) {
  std::string search;
  const auto say = [&](const std::string& what) { search += cat(search.empty() ? "" : ", ", what); };
  if (!job.space.empty()) say("space: " + job.space);
  if (!job.devices.empty()) say("devices: " + job.devices);
  if (job.margin >= 0) say("memory_margin: " + figure(job.margin));
  if (!job.schedules.empty()) say("allow: {schedule: " + job.schedules + "}");
  std::string training = cat("global_batch: ", job.batch, ", precision: ", job.precision);
  if (!job.sequence.empty()) training = cat("sequence_length: ", job.sequence, ", ", training);
  if (!job.lengths.empty()) training += ", lengths: " + job.lengths;
  return cat(job.flow ? "# espalier plan --network flow\n" : "", "model: ", job.model, "\ncluster: ", cluster_text(job),
             "\ntraining: {", training, "}\nengine: generic\n", search.empty() ? "" : cat("search: {", search, "}\n"));
}

inline Result<Job> load(const JobText& text, const std::string& name) {
  auto job = load_job(text_of(text), name, ".", {});
  if (job) job->network = text.flow ? NetworkKind::flow : NetworkKind::closed;
  return job;
}

}  // namespace espalier::bench
