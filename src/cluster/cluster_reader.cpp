// SPDX-License-Identifier: Apache-2.0
// Reads cluster files. read_cluster is the table of contents. Each form has one builder, and defaults leave a note.
#include "cluster/cluster_reader.h"

#include <algorithm>
#include <filesystem>

#include "base/document_kind.h"
#include "base/format.h"
#include "cluster/change_reader.h"
#include "cluster/group_reader.h"
#include "cluster/join_reader.h"
#include "cluster/segment.h"
#include "cluster/traits_reader.h"

namespace espalier::cluster {
namespace {

/// Returns the stated `memory_limit`; nothing if it is absent or wrong.
std::optional<Bytes> stated_memory_limit(base::Reader& reader) {
  if (!reader.has("memory_limit")) return std::nullopt;
  const std::int64_t limit = reader.optional_bytes("memory_limit", 0);
  if (limit > 0) return Bytes(limit);
  reader.fail("memory_limit", std::to_string(limit) + " bytes", "a size above 0, e.g. 36GiB");
  return std::nullopt;
}

std::string limit_without_effect(const base::Reader& reader, const DeviceKind& device, Bytes limit) {
  const std::string path = reader.path() == "$"              ? "cluster"
                           : reader.path().starts_with("$.") ? reader.path().substr(2)
                                                             : reader.path();
  return base::cat(path, ".memory_limit, ", base::gib(limit.count()), ", has no effect: ", device.name, " has ",
                   base::gib((device.memory - device.context_reserve).count()),
                   " for a plan, after driver and context; omit the limit, or name a device with more memory");
}

/// Makes the limit of one group its devices' memory, so that all code that reads a device respects it.
void read_group_memory_limit(base::Reader& reader, DeviceKind& device, std::vector<std::string>& notes) {
  const std::optional<Bytes> limit = stated_memory_limit(reader);
  if (!limit) return;
  if (device.memory - device.context_reserve < *limit) {
    notes.push_back(limit_without_effect(reader, device, *limit));
    return;
  }
  device.memory = device.context_reserve + *limit;
  std::erase_if(device.sources, [](const auto& s) { return s.first == "memory"; });
  device.sources.emplace_back("memory", "memory_limit of the group in " + reader.document().where);
}

/// Reads a named group of a list, and numbers it after those before it.
void read_listed_group(base::Reader& reader, std::optional<std::int64_t> segment, std::vector<GroupDraft>& drafts,
                       std::vector<std::string>& notes) {
  std::int64_t nodes = 0, devices = 0;
  for (const GroupDraft& before : drafts) {
    nodes += before.group.nodes;
    devices += before.devices();
  }
  GroupDraft draft = read_group(reader, segment, notes);
  if (reader.sink().ok()) read_group_name(reader, drafts.size(), draft.group);
  if (reader.sink().ok()) read_traits(reader, nodes, devices, draft.group);
  if (reader.sink().ok()) read_group_memory_limit(reader, draft.group.device, notes);
  reader.finish();
  drafts.push_back(std::move(draft));
}

void read_groups(base::Reader& reader, const ClusterFiles& files, std::optional<std::int64_t> segment, Cluster& cluster) {
  std::vector<GroupDraft> drafts;
  reader.each("groups", true, [&](base::Reader& group) {
    if (drafts.size() == kMaxGroups) group.fail("nodes", "more than 256 groups", "at most 256 groups of nodes");
    if (!reader.sink().ok()) return;
    read_listed_group(group, segment, drafts, cluster.notes);
  });
  if (drafts.empty() && reader.sink().ok()) reader.fail("groups", "an empty list", "at least one group of nodes");
  if (!reader.sink().ok()) return;
  std::int64_t total = 0;
  for (const GroupDraft& draft : drafts) total += draft.devices();
  if (total > kMaxDevices)
    reader.fail("groups", std::to_string(total) + " devices", "at most " + std::to_string(kMaxDevices) + " devices in all");
  for (const GroupDraft& draft : drafts) cluster.groups.push_back(draft.group);
  check_names(reader, cluster);
  if (!reader.sink().ok()) return;
  if (cluster.homogeneous()) {
    cluster.inter = std::move(cluster.groups.front().inter);
    cluster.groups.front().inter.clear();
    refuse_joints(reader);
  } else {
    read_joints(reader, files, drafts, cluster);
  }
}

void read_single(base::Reader& reader, std::optional<std::int64_t> segment, Cluster& cluster) {
  GroupDraft draft = read_group(reader, segment, cluster.notes);
  draft.group.name = usual_group_name(0);
  if (reader.sink().ok()) read_traits(reader, 0, 0, draft.group);
  cluster.inter = std::move(draft.group.inter);
  draft.group.inter.clear();
  cluster.groups.push_back(std::move(draft.group));
}

void read_memory_limit(base::Reader& reader, Cluster& cluster) {
  cluster.memory_limit = stated_memory_limit(reader);
  if (!cluster.memory_limit) return;
  for (const NodeGroup& group : cluster.groups)
    if (group.device.memory - group.device.context_reserve < *cluster.memory_limit)
      cluster.notes.push_back(limit_without_effect(reader, group.device, *cluster.memory_limit));
}

}  // namespace

Cluster read_cluster(base::Reader& reader, const cluster::ClusterFiles& files) {
  Cluster result;
  result.name = reader.optional_string("name", "");
  const std::optional<std::int64_t> segment = read_segment(reader);
  if (reader.has("groups"))
    read_groups(reader, files, segment, result);
  else
    read_single(reader, segment, result);
  if (segment) check_segment(reader, result);
  read_memory_limit(reader, result);
  if (reader.sink().ok()) read_prices(reader, result);
  if (reader.sink().ok()) read_changes(reader, files, result);
  reader.finish();
  return result;
}

}  // namespace espalier::cluster

namespace espalier {

Result<Cluster> load_cluster(std::string_view text, const std::string& where, const std::string& folder) {
  auto document = base::read_yaml(text, where);
  if (!document.ok()) return document.error();
  const base::Node& root = document->root;
  if (root.kind != base::NodeKind::mapping)
    return Error{ErrorKind::bad_input, where + ":" + std::to_string(root.line) + ":" + std::to_string(root.column),
                 std::string(base::to_string(root.kind)), "a mapping with nodes, devices_per_node and device, or with groups",
                 "see examples/clusters"};
  const auto files = cluster::open_files(*document, folder);
  if (!files) return files.error();
  base::ErrorSink sink;
  base::Reader reader = base::Reader::root(document.value(), sink);
  Cluster result = cluster::read_cluster(reader, *files);
  if (!sink.ok()) return base::wrong_kind_of(text, where, "a cluster file", sink.first().error());
  return result;
}

Result<Cluster> load_cluster_file(const std::string& path) {
  auto text = base::read_file(path);
  if (!text.ok()) return text.error();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  auto result = load_cluster(text.value(), path, folder.empty() ? "." : folder.string());
  if (result.ok() && result->name.empty()) result.value().name = std::filesystem::path(path).stem().string();
  return result;
}

}  // namespace espalier
