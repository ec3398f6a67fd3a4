// SPDX-License-Identifier: Apache-2.0
// Reads levels of a fabric, and converts links, uplinks and spans into bandwidth per device.
#include "cluster/level_reader.h"

#include <algorithm>
#include <cstdio>

#include "base/division.h"
#include "cluster/hardware_facts.h"
#include "cluster/names.h"

namespace espalier::cluster {
namespace {

constexpr std::size_t kMaxTracePoints = 100'000;

std::string format(const char* pattern, double value) {
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

DomainSpan read_span(base::Reader& reader) {
  const base::Node* node = reader.find("span");
  if (node == nullptr || node->kind == base::NodeKind::null) return {};
  if (node->kind == base::NodeKind::string && node->text == "node") return {};
  if (node->kind == base::NodeKind::string && node->text == "cluster") return {DomainSpan::Kind::cluster, 0};
  if (node->kind != base::NodeKind::integer) {
    const std::string found = node->text.empty() ? std::string(to_string(node->kind)) : "\"" + node->text + "\"";
    reader.fail("span", found, "a number of devices, 'node' or 'cluster'");
    return {};
  }
  return {DomainSpan::Kind::devices, std::max<std::int64_t>(1, reader.optional_int("span", 1, 100'000'000, 1))};
}

FabricLevel resolve(const LevelSpec& spec, std::int64_t span, std::int64_t below, BytesPerSecond link_below) {
  FabricLevel level = spec.level;
  level.span = span;
  if (spec.uplink.count() > 0) {
    level.bandwidth = spec.uplink / static_cast<double>(below);
    // A device that sends alone is limited by the uplink or by its own link, whichever is slower.
    level.bandwidth_alone = link_below.count() > 0 ? std::min(spec.uplink, link_below) : spec.uplink;
  } else {
    level.bandwidth = level.bandwidth_alone = spec.link;
  }
  if (level.per_peer.count() > 0) {  // direct links: a small domain only has those between its devices
    const BytesPerSecond links = level.per_peer * static_cast<double>(span - 1);
    level.bandwidth = std::min(level.bandwidth, links);
    level.bandwidth_alone = std::min(level.bandwidth_alone, links);
  }
  level.bandwidth = level.bandwidth / spec.oversubscription;
  level.bandwidth_alone = std::max(level.bandwidth, spec.alone.count() > 0 ? spec.alone : level.bandwidth_alone);
  return level;
}

/// Returns the size of an inner domain of at most `wanted` devices in a node of `node`: equal parts if possible (6
/// cards under switches of 4: 3 + 3).
std::int64_t fit_into_node(std::int64_t wanted, std::int64_t node) {
  if (wanted >= node) return node;
  const std::int64_t parts = ceil_div(node, wanted);
  return node % wanted == 0 ? wanted : node % parts == 0 ? node / parts : 0;
}

}  // namespace

std::string format_bandwidth(BytesPerSecond bandwidth) { return format("%g GB/s", bandwidth.count() / 1e9); }
std::string format_latency(Seconds latency) { return format("%g us", latency.count() * 1e6); }

double read_bandwidth(base::Reader& reader, std::string_view key, double fallback) {
  const double value = reader.optional_bandwidth(key, fallback);
  if (!reader.has(key) || (value > 0 && value <= kMaxBandwidth)) return value;
  reader.fail(key, format("%g bytes/s", value), "a bandwidth above 0 and at most 1e15 bytes/s");
  return fallback;
}

double read_latency(base::Reader& reader, std::string_view key, double fallback) {
  const double value = reader.optional_duration(key, fallback);
  if (value >= 0 && value <= kMaxLatency) return value;
  reader.fail(key, format("%g s", value), "a latency between 0 and 10 s");
  return fallback;
}

double read_efficiency(base::Reader& reader, std::string_view key, double fallback) {
  return reader.optional_real(key, 1e-3, 1.0, fallback);
}

void read_shape(base::Reader& reader, FabricLevel& level) {
  level.start = Seconds(read_latency(reader, "start", level.start.count()));
  level.ramp = reader.optional_real("ramp", 0.0, 2.0, level.ramp);
  level.small_group = reader.optional_real("small_group", 0.0, 1.0, level.small_group);
  level.congestion = reader.optional_real("congestion", 0.0, 2.0, level.congestion);
  level.direct_bytes = reader.optional_real("direct_bytes", 0.0, 1e12, level.direct_bytes);
}

FabricKind read_kind(base::Reader& reader, FabricKind fallback) {
  static const std::vector<std::string_view> names(kFabricKindNames.begin(), kFabricKindNames.end());
  return static_cast<FabricKind>(reader.optional_choice("kind", names, static_cast<std::size_t>(fallback)));
}

std::vector<LinkChange> read_trace(base::Reader& reader) {
  std::vector<LinkChange> trace;
  reader.each("trace", false, [&](base::Reader& point) {
    LinkChange change;
    change.at = Seconds(point.optional_duration("at", 0.0));
    change.bandwidth_factor = point.optional_real("bandwidth_factor", 1e-6, 1e3, 1.0);
    change.latency_factor = point.optional_real("latency_factor", 0.0, 1e6, 1.0);
    if (!point.has("at"))
      point.fail("at", "nothing", "when the change begins, e.g. 10s");
    else if (!trace.empty() && change.at <= trace.back().at)
      point.fail("at", format("%g s", change.at.count()), "a time after that of the previous point");
    if (trace.size() >= kMaxTracePoints)
      point.fail("at", "more than 100000 points", "a shorter trace");
    else
      trace.push_back(change);
    point.finish();
  });
  return trace;
}

LevelSpec read_level(base::Reader& reader, std::vector<std::string>& notes) {
  LevelSpec spec;
  FabricLevel& level = spec.level;
  level.kind = read_kind(reader, FabricKind::other);
  level.name = reader.optional_string("name", std::string(to_string(level.kind)));
  spec.span = read_span(reader);
  spec.link = BytesPerSecond(read_bandwidth(reader, "bandwidth", 0.0));
  spec.uplink = BytesPerSecond(read_bandwidth(reader, "uplink", 0.0));
  if (reader.has("bandwidth") == reader.has("uplink"))
    reader.fail("bandwidth", reader.has("bandwidth") ? "both bandwidth and uplink" : "nothing",
                "bandwidth (of one device) or uplink (shared by the domain below)");
  spec.alone = BytesPerSecond(read_bandwidth(reader, "bandwidth_alone", 0.0));
  level.per_peer = BytesPerSecond(read_bandwidth(reader, "per_peer", 0.0));
  const HardwareFacts& facts = hardware_facts();
  level.latency = Seconds(read_latency(reader, "latency", facts.unstated_latency));
  if (!reader.has("latency")) notes.push_back(reader.path() + ".latency = " + format_latency(level.latency) + " (default)");
  level.efficiency = read_efficiency(reader, "efficiency", facts.unstated_efficiency);
  if (!reader.has("efficiency")) notes.push_back(reader.path() + format(".efficiency = %g (default)", level.efficiency));
  read_shape(reader, level);
  spec.oversubscription = reader.optional_real("oversubscription", 1.0, 1e4, 1.0);
  level.in_network_reduction = reader.optional_bool("in_network_reduction", false);
  level.trace = read_trace(reader);
  reader.finish();
  return spec;
}

std::vector<FabricLevel> resolve_node_levels(const std::vector<LevelSpec>& specs, std::int64_t devices_per_node) {
  std::vector<FabricLevel> levels;
  std::int64_t below = 1;
  BytesPerSecond link;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool outermost = i + 1 == specs.size();
    const std::int64_t wanted = specs[i].span.kind == DomainSpan::Kind::devices ? specs[i].span.devices : devices_per_node;
    if (outermost && below == devices_per_node) break;  // the node ended below this level
    const std::int64_t span = outermost ? devices_per_node : fit_into_node(wanted, devices_per_node);
    if (span <= below || span % below != 0) continue;
    levels.push_back(resolve(specs[i], span, below, link));
    below = span;
    link = levels.back().bandwidth_alone;
    if (below == devices_per_node) break;
  }
  return levels;
}

std::vector<FabricLevel> resolve_all_levels(const std::vector<LevelSpec>& specs, std::int64_t devices_per_node,
                                            std::int64_t total) {
  std::vector<FabricLevel> levels;
  std::int64_t below = 1;
  BytesPerSecond link;
  for (const LevelSpec& spec : specs) {
    std::int64_t span = spec.span.devices;
    if (spec.span.kind == DomainSpan::Kind::node) span = devices_per_node;
    if (spec.span.kind == DomainSpan::Kind::cluster) span = round_up(total, below);
    levels.push_back(resolve(spec, span, below, link));
    below = std::max<std::int64_t>(1, span);
    link = levels.back().bandwidth_alone;
  }
  return levels;
}

}  // namespace espalier::cluster
