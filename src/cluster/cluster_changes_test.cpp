// SPDX-License-Identifier: Apache-2.0
// Tests capacity, token buckets and events of cluster files, in place and in separate CSV files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/document.h"
#include "cluster/cluster_files.h"
#include "cluster/cluster_reader.h"

namespace espalier::cluster::cluster_changes_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTwo =
    "groups: [{nodes: 2, device: h100-sxm-80gb}, {nodes: 3, device: l4}]\n"
    "links: [{from: a, to: b, bandwidth: 10Gb/s, latency: 1ms, both: true}]\n";

Cluster loaded(const std::string& text) {
  auto cluster = load_cluster(text, "cluster.yaml");
  EXPECT_TRUE(cluster.ok()) << (cluster.ok() ? "" : cluster.error().message());
  return cluster.ok() ? *cluster : Cluster{};
}

std::string failure(const std::string& text) {
  auto cluster = load_cluster(text, "cluster.yaml");
  EXPECT_FALSE(cluster.ok()) << text;
  return cluster.ok() ? "" : cluster.error().message();
}

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("espalier_changes_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

TEST(Capacity, RowsByLinkAndTime) {
  const Cluster c = loaded(std::string(kTwo) +
                           "capacity: [{time_s: 0, link: a-b, factor: 1}, {time_s: 10, link: \"node:0\", factor: 0.875},"
                           " {time_s: 10, link: a-b, factor: 0.25}, {time_s: 20.5, link: a-b, factor: 0}]");
  EXPECT_TRUE(c.changes());
  ASSERT_EQ(c.capacity.size(), 2u);
  EXPECT_EQ(c.capacity[0], (CapacityTrace{"a-b", {{Seconds(0), 1}, {Seconds(10), 0.25}, {Seconds(20.5), 0}}}));
  EXPECT_EQ(c.capacity[1], (CapacityTrace{"node:0", {{Seconds(10), 0.875}}}));
}

// A bucket of 4.5 Tb holds 562.5 GB.
TEST(Capacity, TokenBucketsBesideRows) {
  const Cluster c = loaded(std::string(kTwo) +
                           "capacity: [{link: b-a, token_bucket: {full: 10Gb/s, sustained: 1.25Gb/s, bucket: 4.5Tb}},"
                           " {time_s: 3, link: a-b, factor: 0.5}]");
  EXPECT_EQ(c.token_buckets, (std::vector<TokenBucket>{{"b-a", GBps(1.25), GBps(0.15625), Bytes(562'500'000'000)}}));
  EXPECT_EQ(c.capacity.size(), 1u);
  const Cluster one =
      loaded(std::string(kTwo) + "capacity: {link: a-b, token_bucket: {full: 1Gb/s, sustained: 1Gb/s, bucket: 1GB}}");
  EXPECT_EQ(one.token_buckets.size(), 1u);
}

TEST(Events, InTheirOrder) {
  const Cluster c =
      loaded(std::string(kTwo) +
             "events: [{time_s: 0, event: leave, target: b, value: 2}, {time_s: 5, event: slow, target: \"rank:17\", value: 1.5},"
             " {time_s: 5, event: join, target: \"node:3\"}, {time_s: 9, event: link, target: a-b, value: 0.5},"
             " {time_s: 9, event: leave, target: \"node:3\"}, {time_s: 9, event: route, target: a-b, value: null}]");
  ASSERT_EQ(c.events.size(), 6u);
  EXPECT_EQ(c.events[0], (ClusterEvent{Seconds(0), ClusterEventKind::leave, "b", 2, ""}));
  EXPECT_EQ(c.events[1], (ClusterEvent{Seconds(5), ClusterEventKind::slow, "rank:17", 1.5, ""}));
  EXPECT_EQ(c.events[2], (ClusterEvent{Seconds(5), ClusterEventKind::join, "node:3", 1, ""}));
  EXPECT_EQ(c.events[3].value, 0.5);
}

TEST(Events, ARouteGoesByWayOfAnother) {
  const std::string three =
      "groups: [{nodes: 1, device: l4}, {nodes: 1, device: l4}, {nodes: 1, device: l4}]\nlinks: ["
      "{from: a, to: b, bandwidth: 8Gb/s, latency: 1ms, both: true}, {from: b, to: c, bandwidth: 4Gb/s, latency: 2ms, both: "
      "true},"
      " {from: a, to: c, bandwidth: 8Gb/s, latency: 1ms, both: true}]\n";
  EXPECT_EQ(loaded(three + "events: [{time_s: 1, event: route, target: a-c, value: b}]").events[0].via, "b");
  EXPECT_THAT(failure(three + "events: [{time_s: 1, event: route, target: a-c, value: bb}]"), HasSubstr("did you mean \"b\"?"));
  EXPECT_THAT(failure(three + "events: [{time_s: 1, event: route, target: a-c, value: a}]"), HasSubstr("there is no link a-a"));
}

TEST(Changes, MistakesSayWhereAndWhatWasMeant) {
  const std::string t = kTwo;
  EXPECT_THAT(failure(t + "capacity: [{time_s: 0, link: a-c, factor: 1}]"),
              testing::AllOf(HasSubstr("$.capacity[0].link"), HasSubstr("a-b or b-a")));
  EXPECT_THAT(failure(t + "capacity: [{time_s: 0, link: a-b, factor: -0.5}]"), HasSubstr("$.capacity[0].factor"));
  EXPECT_THAT(failure(t + "capacity: [{time_s: 5, link: a-b, factor: 1}, {time_s: 4, link: b-a, factor: 1}]"),
              HasSubstr("found 4 after 5"));
  EXPECT_THAT(failure(t + "capacity: [{time_s: 5, link: a-b, factor: 1}, {time_s: 5, link: a-b, factor: 0.5}]"),
              HasSubstr("one factor at a time"));
  EXPECT_THAT(failure(t + "capacity: [{time_s: 0, link: a, factor: 1}]"), HasSubstr("a link (a-b), a node (node:3) or a device"));
  EXPECT_THAT(failure(t + "capacity: c.csv"), HasSubstr("files can be opened only for a cluster file"));
  EXPECT_THAT(failure(t + "capacity: [c.csv]"), HasSubstr("files can be opened only for a cluster file"));
  EXPECT_THAT(failure(t + "capacity: {link: a-b, token_bucket: {full: 1Gb/s, sustained: 2Gb/s, bucket: 1GB}}"),
              HasSubstr("at least the sustained rate"));
  EXPECT_THAT(failure(t + "capacity: {link: a-b, token_bucket: {full: 2Gb/s, sustained: 1Gb/s, bucket: 1}}"),
              HasSubstr("bucket"));
  EXPECT_THAT(failure(t + "events: [{time_s: 0, event: leaves, target: a}]"), HasSubstr("did you mean"));
  EXPECT_THAT(failure(t + "events: [{time_s: 0, event: leave, target: \"node:9\"}]"), HasSubstr("node:0 to node:4"));
  EXPECT_THAT(failure(t + "events: [{time_s: 0, event: join, target: \"node:1\"}]"),
              testing::AllOf(HasSubstr("node:1 joins but is already present"), HasSubstr("at the start")));
  EXPECT_THAT(failure(t + "events: [{time_s: 0, event: leave, target: a, value: 3}]"), HasSubstr("at most the 2 present ones"));
  EXPECT_THAT(failure(t + "events: [{time_s: 0, event: leave, target: a, value: 1.5}]"), HasSubstr("a whole number of nodes"));
  EXPECT_THAT(failure(t + "events: [{time_s: 0, event: slow, target: \"rank:1\"}]"), HasSubstr("$.events[0].value"));
  EXPECT_THAT(failure(t + "events: [{time_s: 0, event: slow, target: \"rank:1\", value: 0.5}]"), HasSubstr("a number from 1"));
  EXPECT_THAT(failure(t + "events: [{time_s: 0, event: slow, target: a-b, value: 2}]"), HasSubstr("a node (node:3) or a device"));
  EXPECT_THAT(failure(t + "events: [{time_s: 1, event: leave, target: a}, {time_s: 0, event: join, target: a}]"),
              HasSubstr("times that do not decrease"));
}

TEST(ClusterFiles, TablesBesideTheFile) {
  const Folder folder;
  folder.write("m.csv", "# measured\nfrom, to, gbps, delay_ms\r\na,b,1.12,11\r\nb,a,0.8,12.5\n\n");
  folder.write("c.csv", "time_s,link,factor\n0,a-b,1\n60,a-b,0.5\n");
  folder.write("e.csv", "event,time_s,target,value\nleave,30,node:4,\njoin,40,node:4,\nslow,41,rank:0,1.2\n");
  const std::string path = folder.write("cluster.yaml",
                                        "groups: [{nodes: 2, device: h100-sxm-80gb}, {nodes: 3, device: l4}]\nmatrix: m.csv\n"
                                        "capacity: [c.csv, {time_s: 70, link: b-a, factor: 0.5}]\nevents: e.csv\n");
  const auto cluster = load_cluster_file(path);
  ASSERT_TRUE(cluster.ok()) << cluster.error().message();
  EXPECT_DOUBLE_EQ(cluster->links[1].bandwidth.count(), 0.1e9);
  EXPECT_EQ(cluster->capacity.size(), 2u);
  EXPECT_EQ(cluster->events.size(), 3u);

  // With the rows in place it is the same cluster, and one document.
  auto text = base::read_file(path);
  auto document = base::read_yaml(*text, path);
  const auto files = cluster::open_files(*document, std::filesystem::path(path).parent_path().string());
  ASSERT_TRUE(files.ok()) << files.error().message();
  cluster::embed(document->root, *files);
  auto again = load_cluster(base::to_json(document->root), "embedded");
  ASSERT_TRUE(again.ok()) << again.error().message();
  again->name = cluster->name;
  EXPECT_EQ(*again, *cluster);
}

TEST(ClusterFiles, MistakesPointIntoTheTable) {
  const Folder folder;
  const auto failing = [&](const std::string& table) {
    folder.write("c.csv", table);
    const auto cluster = load_cluster_file(folder.write("cluster.yaml", std::string(kTwo) + "capacity: c.csv\n"));
    EXPECT_FALSE(cluster.ok()) << table;
    return cluster.ok() ? "" : cluster.error().message();
  };
  EXPECT_THAT(failing("time_s,link,factor\n0,a-b,1\n1,a-x,1\n"), testing::AllOf(HasSubstr("c.csv:3:3"), HasSubstr("\"a-x\"")));
  EXPECT_THAT(failing("time_s,link,factor\n0,a-b,much\n"), testing::AllOf(HasSubstr("c.csv:2:7"), HasSubstr("\"much\"")));
  EXPECT_THAT(failing("time,link,factor\n"), testing::AllOf(HasSubstr("c.csv:1:1"), HasSubstr("did you mean \"time_s\"?")));
  EXPECT_THAT(failing("time_s,link\n"), HasSubstr("the header time_s,link,factor"));
  EXPECT_THAT(failing("time_s,link,link\n"), HasSubstr("a second time"));
  EXPECT_THAT(failing("time_s,link,factor\n0,a-b\n"), HasSubstr("2 values"));
  EXPECT_THAT(failing("time_s,link,factor\n0,\"a-b,1\n"), HasSubstr("a quote that is not closed"));
  EXPECT_THAT(failing("# nothing\n"), HasSubstr("no line with column names"));
  EXPECT_THAT(failing("time_s,link,factor\n5,a-b,1\n4,a-b,1\n"), HasSubstr("c.csv:3:1"));
  const auto missing = load_cluster_file(folder.write("cluster.yaml", std::string(kTwo) + "capacity: d.csv\n"));
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().message(), testing::AllOf(HasSubstr("d.csv"), HasSubstr("time_s,link,factor")));
}

}  // namespace
}  // namespace espalier::cluster::cluster_changes_test
