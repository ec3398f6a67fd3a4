// SPDX-License-Identifier: Apache-2.0
// Fuzzes the tables of a cluster file with any bytes: matrix, capacity and events. A table in a file of its own must
// be read like one in place.
#include "base/document.h"
#include "cluster/cluster_files.h"
#include "cluster/cluster_reader.h"
#include "cluster/table_reader.h"
#include "fuzz_expect.h"

namespace {

using namespace espalier;

struct Table {
  const char* key;
  std::vector<std::string> columns;
};

/// Returns a cluster of two groups; `matrix` joins them, the other tables need links.
std::string cluster_of(const std::string& key) {
  const std::string links = key == "matrix" ? "" : "links: [{from: a, to: b, bandwidth: 8Gb/s, latency: 1ms, both: true}]\n";
  return "groups: [{nodes: 3, devices_per_node: 2, device: l4}, {nodes: 2, device: t4}]\n" + links + key + ": table.csv\n";
}

void read_both_ways(const Table& table, std::string_view text) {
  auto rows = cluster::read_table(text, "table.csv", table.key, table.columns);
  if (!rows.ok()) return fuzz::expect_helpful(rows.error());
  auto document = base::read_yaml(cluster_of(table.key), "cluster.yaml");
  const cluster::ClusterFiles files{{table.key, *rows}};
  base::ErrorSink sink;
  base::Reader reader = base::Reader::root(*document, sink);
  const Cluster cluster = cluster::read_cluster(reader, files);
  if (!sink.ok()) return fuzz::expect_helpful(sink.first().error());
  cluster::embed(document->root, files);
  const auto again = load_cluster(base::to_json(document->root), "embedded");
  fuzz::expect(again.ok(), "an embedded table is read again", again.ok() ? "" : again.error().message());
  fuzz::expect(again->links == cluster.links && again->capacity == cluster.capacity && again->events == cluster.events,
               "an embedded table says the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  for (const Table& table : {Table{"matrix", {"from", "to", "gbps", "delay_ms"}}, Table{"capacity", {"time_s", "link", "factor"}},
                             Table{"events", {"time_s", "event", "target", "value"}}})
    read_both_ways(table, text);
  return 0;
}
