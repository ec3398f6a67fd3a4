// SPDX-License-Identifier: Apache-2.0
#include "cluster/cluster_files.h"

#include <filesystem>
#include <vector>

#include "base/format.h"
#include "base/text.h"
#include "cluster/table_reader.h"

namespace espalier::cluster {
namespace {

namespace fs = std::filesystem;

struct TableKey {
  const char* key;
  std::vector<std::string> columns;
};

const std::vector<TableKey>& table_keys() {
  static const std::vector<TableKey> keys{{"matrix", {"from", "to", "gbps", "delay_ms"}},
                                          {"capacity", {"time_s", "link", "factor"}},
                                          {"events", {"time_s", "event", "target", "value"}}};
  return keys;
}

/// Opens the table at `name`, a node with a path.
Status open_one(const base::Document& cluster, const Node& name, const TableKey& table, const std::string& place,
                const std::string& folder, ClusterFiles& files) {
  const fs::path path = fs::path(folder) / fs::path(name.text);
  auto text = base::read_file(path.string());
  if (!text) {
    const std::string similar = base::similar_path(folder, name.text);
    return Error{ErrorKind::bad_input, base::at(cluster.where, {name.line, name.column}) + " ($." + place + ")",
                 base::in_quotes(name.text) + ", " + text.error().found,
                 "a CSV file next to the cluster file: " + base::joined(table.columns, ","),
                 similar.empty() ? "" : "did you mean " + similar + "?"};
  }
  auto document = read_table(*text, path.string(), table.key, table.columns);
  if (!document) return document.error();
  files.emplace(place, std::move(*document));
  return {};
}

const std::vector<Node>& rows_of(const base::Document& table) { return table.root.members.front().second.items; }

}  // namespace

Result<ClusterFiles> open_files(const base::Document& cluster, const std::string& folder) {
  ClusterFiles files;
  if (folder.empty() || cluster.root.kind != NodeKind::mapping) return files;
  for (const TableKey& table : table_keys()) {
    const Node* node = cluster.root.find(table.key);
    if (node == nullptr) continue;
    if (node->kind == NodeKind::string)
      if (Status status = open_one(cluster, *node, table, table.key, folder, files); !status.ok()) return status.error();
    for (std::size_t i = 0; i < node->items.size(); ++i)
      if (node->items[i].kind == NodeKind::string)
        if (Status status = open_one(cluster, node->items[i], table, base::cat(table.key, "[", i, "]"), folder, files);
            !status.ok())
          return status.error();
  }
  return files;
}

void embed(Node& root, const ClusterFiles& files) {
  for (auto& [key, node] : root.members) {
    if (const auto whole = files.find(key); whole != files.end()) node = whole->second.root.members.front().second;
    std::vector<Node> items;
    bool opened = false;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const auto part = files.find(base::cat(key, "[", i, "]"));
      opened = opened || part != files.end();
      if (part == files.end())
        items.push_back(node.items[i]);
      else
        items.insert(items.end(), rows_of(part->second).begin(), rows_of(part->second).end());
    }
    if (opened) node.items = std::move(items);
  }
}

}  // namespace espalier::cluster
