// SPDX-License-Identifier: Apache-2.0
#include "cluster/change_reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "base/format.h"
#include "base/text.h"
#include "cluster/level_reader.h"
#include "cluster/names.h"
#include "cluster/presence.h"
#include "cluster/traits_reader.h"

namespace espalier::cluster {
namespace {

using Kind = ClusterTarget::Kind;

constexpr double kLongestTrace = 1e9;  ///< s, about thirty years
constexpr double kMostFactor = 1000.0;
constexpr double kMostSlowdown = 1e6;
constexpr double kMostNodesThatMove = 1e7;  ///< total of all events: limits the time to replay them

std::string number(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

/// Calls `read` with each row of `key`, whether it is in place or in a separate file.
void each_row(base::Reader& reader, std::string_view key, const ClusterFiles& files, const std::function<void()>& begin_list,
              const std::function<void(base::Reader&)>& read) {
  const auto read_file = [&](const std::string& place, const Node& name) {
    const auto file = files.find(place);
    if (file == files.end()) {
      reader.fail(key, base::in_quotes(name.text), "the rows themselves",
                  "files can be opened only for a cluster file, not for text without a folder");
      return;
    }
    begin_list();
    base::Reader::root(file->second, reader.sink()).each(key, true, read);
    begin_list();
  };
  const Node* node = reader.find(key);
  if (node == nullptr || node->kind == NodeKind::null) return;
  begin_list();
  if (node->kind == NodeKind::string) return read_file(std::string(key), *node);
  if (node->kind == NodeKind::mapping) {
    base::Reader one = reader.child(key, true);
    return read(one);
  }
  if (node->kind != NodeKind::sequence) return reader.fail(key, "", "a list of rows, or the name of a CSV file");
  for (std::size_t i = 0; i < node->items.size() && reader.sink().ok(); ++i) {
    const std::string place = cat(key, "[", i, "]");
    if (node->items[i].kind == NodeKind::string) {
      read_file(place, node->items[i]);
      continue;
    }
    base::Reader row(reader.document(), node->items[i], cat(reader.path(), ".", place), reader.sink());
    if (reader.sink().ok()) read(row);
  }
}

/// Reads the target named by `key`, which must have one of the kinds. The error message lists the valid ones.
std::optional<ClusterTarget> read_target(base::Reader& row, std::string_view key, const Cluster& cluster,
                                         const std::vector<Kind>& kinds, const std::string& expected) {
  const std::string name = row.required_string(key);
  if (!row.sink().ok()) return std::nullopt;
  const auto target = target_called(cluster, name, "");
  if (!target) {
    row.fail(key, target.error().found, target.error().expected, target.error().hint);
    return std::nullopt;
  }
  if (std::find(kinds.begin(), kinds.end(), target->kind) != kinds.end()) return *target;
  row.fail(key, base::in_quotes(name), expected);
  return std::nullopt;
}

/// Reads the time of a row, which must not precede that of the row above.
Seconds read_time(base::Reader& row, double& before) {
  const double time = row.required_real("time_s", 0.0, kLongestTrace);
  if (row.sink().ok() && time < before)
    row.fail("time_s", cat(number(time), " after ", number(before)), "times that do not decrease from row to row");
  before = std::max(before, time);
  return Seconds(time);
}

// ---- capacity -----------------------------------------------------------------------------------------------------

const char* const kLinkTargets = "a link (a-b), a node (node:3) or a device (rank:17)";
const std::vector<Kind> kLinkKinds{Kind::link, Kind::node, Kind::device};

/// Parses "4.5Tb" or "560GB": bits or bytes.
std::optional<double> bytes_of(std::string text) {
  const bool bits = text.ends_with("b");
  if (bits) text.back() = 'B';
  const auto bytes = base::parse_bytes(text);
  if (!bytes) return std::nullopt;
  return static_cast<double>(*bytes) / (bits ? 8.0 : 1.0);
}

/// Holds the state of reading.
struct CapacityRead {
  double before = 0;  ///< time of the row above
  std::size_t rows = 0;
  std::map<std::string, std::size_t> traces;  ///< index in Cluster::capacity by target
  std::set<std::string> buckets;
};

void read_bucket(base::Reader& row, Cluster& cluster, CapacityRead& read) {
  TokenBucket bucket;
  bucket.target = row.required_string("link");
  read_target(row, "link", cluster, kLinkKinds, kLinkTargets);
  base::Reader given = row.child("token_bucket", true);
  bucket.full = BytesPerSecond(read_bandwidth(given, "full", 0.0));
  bucket.sustained = BytesPerSecond(read_bandwidth(given, "sustained", 0.0));
  if (!given.has("full")) given.fail("full", "nothing", "the rate while the bucket holds tokens, e.g. 10Gb/s");
  if (!given.has("sustained")) given.fail("sustained", "nothing", "the rate once the bucket is empty, e.g. 1.25Gb/s");
  if (given.sink().ok() && bucket.full < bucket.sustained)
    given.fail("full", format_bandwidth(bucket.full), "at least the sustained rate, " + format_bandwidth(bucket.sustained));
  const std::string size = given.required_string("bucket");
  const auto bytes = bytes_of(size);
  if (given.sink().ok() && (!bytes || *bytes < 1 || *bytes > 1e18))
    given.fail("bucket", base::in_quotes(size), "a size in bits or bytes, e.g. 4.5Tb or 560GB");
  if (bytes && given.sink().ok()) bucket.bucket = Bytes(std::llround(*bytes));
  given.finish();
  row.finish();
  if (!row.sink().ok()) return;
  if (!read.buckets.insert(bucket.target).second)
    row.fail("link", cat("a second token bucket of ", bucket.target), "one per link");
  cluster.token_buckets.push_back(std::move(bucket));
}

void read_capacity_row(base::Reader& row, Cluster& cluster, CapacityRead& read) {
  if (row.has("token_bucket")) return read_bucket(row, cluster, read);
  const Seconds at = read_time(row, read.before);
  const auto target = read_target(row, "link", cluster, kLinkKinds, kLinkTargets);
  const double factor = row.required_real("factor", 0.0, kMostFactor);
  row.finish();
  if (++read.rows > kMaxChanges) row.fail("time_s", cat("more than ", kMaxChanges, " rows"), "a shorter trace");
  if (!row.sink().ok() || !target) return;
  const std::string name = row.required_string("link");
  const auto [place, fresh] = read.traces.emplace(name, cluster.capacity.size());
  if (fresh) cluster.capacity.push_back({name, {}});
  std::vector<LinkChange>& changes = cluster.capacity[place->second].changes;
  if (!changes.empty() && changes.back().at >= at)
    return row.fail("time_s", cat(name, " at ", number(at.count()), " s after ", number(changes.back().at.count()), " s"),
                    "increasing times for each link, one factor at a time");
  changes.push_back({at, factor, 1.0});
}

// ---- events -------------------------------------------------------------------------------------------------------

/// Reads `value` as a number; `usual` if it is absent.
double read_value(base::Reader& row, double low, double high, std::optional<double> usual) {
  return usual ? row.optional_real("value", low, high, *usual) : row.required_real("value", low, high);
}

void read_move(base::Reader& row, const Cluster& cluster, ClusterEvent& event) {
  const auto target = read_target(row, "target", cluster, {Kind::group, Kind::node}, "a group (a) or a node (node:3)");
  if (!target) return;
  event.value = read_value(row, 1, target->kind == Kind::node ? 1 : kMostNodesThatMove, 1.0);
  if (event.value != std::floor(event.value)) row.fail("value", "", "a whole number of nodes");
}

void read_route(base::Reader& row, const Cluster& cluster, ClusterEvent& event) {
  const auto target = read_target(row, "target", cluster, {Kind::link}, "a link (a-b)");
  if (row.has("value")) event.via = row.required_string("value");
  if (!target || event.via.empty() || !row.sink().ok()) return;
  const std::vector<std::string> names = names_of_ends(cluster);
  const GroupLink& link = cluster.links[static_cast<std::size_t>(target->index)];
  if (std::find(names.begin(), names.end(), event.via) == names.end())
    return row.fail("value", base::in_quotes(event.via), "the group or site through which traffic goes: " + base::listed(names),
                    base::suggestion(event.via, names));
  for (const std::string& hop : {link.from + "-" + event.via, event.via + "-" + link.to})
    if (!cluster.link_called(hop))
      row.fail("value", base::in_quotes(event.via), "a route that has links; there is no link " + hop);
}

ClusterEvent read_event(base::Reader& row, const Cluster& cluster, double& before) {
  static const std::vector<std::string_view> words(kEventNames.begin(), kEventNames.end());
  ClusterEvent event;
  event.at = read_time(row, before);
  if (!row.has("event")) row.fail("event", "nothing", "join, leave, slow, link or route");
  event.kind = static_cast<ClusterEventKind>(row.optional_choice("event", words, 0));
  event.target = row.required_string("target");
  if (!row.sink().ok()) return event;
  switch (event.kind) {
    case ClusterEventKind::join:
    case ClusterEventKind::leave: read_move(row, cluster, event); break;
    case ClusterEventKind::slow:
      read_target(row, "target", cluster, {Kind::node, Kind::device}, "a node (node:3) or a device (rank:17)");
      event.value = read_value(row, 1.0, kMostSlowdown, std::nullopt);
      break;
    case ClusterEventKind::link:
      read_target(row, "target", cluster, kLinkKinds, kLinkTargets);
      event.value = read_value(row, 0.0, kMostFactor, std::nullopt);
      break;
    case ClusterEventKind::route: read_route(row, cluster, event); break;
  }
  row.finish();
  return event;
}

}  // namespace

void read_changes(base::Reader& reader, const ClusterFiles& files, Cluster& cluster) {
  CapacityRead read;
  each_row(
      reader, "capacity", files, [&] { read.before = 0; }, [&](base::Reader& row) { read_capacity_row(row, cluster, read); });
  if (!reader.sink().ok()) return;
  Presence presence(cluster);
  double before = 0, moved = 0;
  each_row(
      reader, "events", files, [] {},
      [&](base::Reader& row) {
        ClusterEvent event = read_event(row, cluster, before);
        moved += event.kind == ClusterEventKind::join || event.kind == ClusterEventKind::leave ? event.value : 0.0;
        if (moved > kMostNodesThatMove || cluster.events.size() == kMaxChanges)
          row.fail("time_s", "too many events", "at most 100,000 events, in which at most 10,000,000 nodes join or leave");
        if (!row.sink().ok()) return;
        if (Status status = presence.apply(event); !status.ok())
          row.fail("target", status.error().found, status.error().expected, status.error().hint);
        cluster.events.push_back(std::move(event));
      });
}

}  // namespace espalier::cluster
