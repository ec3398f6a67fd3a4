// SPDX-License-Identifier: Apache-2.0
// Tests traces of spot instances: small ones by hand, and the shipped ones, written to a cluster file and read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/document.h"
#include "data/source_dir.h"
#include "espalier/cluster_change.h"
#include "espalier/exchange.h"

namespace espalier::exchange {
namespace {

using ::testing::HasSubstr;

Result<ImportedTrace> imported(const char* format, const std::string& text, std::int64_t per_node = 1) {
  return find_trace_format(format)->read({"trace.csv", text, 0, per_node});
}

std::string lines(const Result<ImportedTrace>& trace) {
  EXPECT_TRUE(trace.ok()) << (trace.ok() ? "" : trace.error().message());
  return trace.ok() ? events_csv(trace->events, "x") : "";
}

constexpr const char* kHead = "# x\ntime_s,event,target,value\n";

// n1 and n2 come at 1 s, n1 goes at 2 s, and n3 takes its number. Two numbers are enough; both leave at the start.
TEST(SpotTraces, BambooNodesTakeFreeNumbers) {
  const auto trace = imported("bamboo", "# from\n1000,add,n1\n1000,add,n2\n2000,remove,n1\n3500,add,n3\n");
  EXPECT_EQ(lines(trace), std::string(kHead) +
                              "0,leave,node:0,\n0,leave,node:1,\n1,join,node:0,\n1,join,node:1,\n"
                              "2,leave,node:0,\n3.5,join,node:0,\n");
  EXPECT_EQ(trace->nodes, 2);
}

// There are three at the start, then two, then four.
TEST(SpotTraces, CountsAndDifferences) {
  const std::string same = std::string(kHead) + "0,leave,node:3,\n60,leave,node:2,\n120,join,node:2,\n120,join,node:3,\n";
  EXPECT_EQ(lines(imported("counts", "time_s,nodes\n0,3\n60,2\n90,2\n120,4\n")), same);
  EXPECT_EQ(lines(imported("parcae", "0,3\n60000,2\n120000,4\n")), same);
  EXPECT_EQ(lines(imported("parcae",
                           "time_ms,event,n_nodes,plan\n0,add,3,\"4, 8\"\n60000,remove,1,\"4, 8\"\n"
                           "90000,no-op,0,\"4, 8\"\n120000,add,2,\"4, 8\"\n")),
            same);
  EXPECT_EQ(lines(imported("sailor", "time_s,gpus\n0,12\n60,11\n120,16\n", 4)), same);
  EXPECT_THAT(imported("sailor", "0,12\n60,11\n", 4)->notes, testing::Contains(HasSubstr("rounded down")));
}

// One minute past midnight belongs to the next day; two clocks are mixed.
TEST(SpotTraces, DatedCountsArePutInOrder) {
  const auto trace = imported("bamboo", "2021-12-31, 23:59:00, 2\n2022-01-01, 00:01:00, 3\n2022-01-01, 00:00:00, 1\n");
  EXPECT_EQ(lines(trace), std::string(kHead) + "0,leave,node:2,\n60,leave,node:1,\n120,join,node:1,\n120,join,node:2,\n");
  EXPECT_THAT(trace->notes, testing::Contains(HasSubstr("sorted")));
}

TEST(SpotTraces, MistakesSayWhere) {
  const auto failure = [](const char* format, const std::string& text) {
    const auto trace = imported(format, text);
    EXPECT_FALSE(trace.ok()) << text;
    return trace.ok() ? "" : trace.error().message();
  };
  EXPECT_THAT(failure("bamboo", "0,add,n1\n5,remove,n2\n"),
              testing::AllOf(HasSubstr("trace.csv:2:10"), HasSubstr("a present node")));
  EXPECT_THAT(failure("bamboo", "0,ad,n1\n"), HasSubstr("add or remove"));
  EXPECT_THAT(failure("bamboo", "2021-13-01, 10:00:00, 4\n"), HasSubstr("a date such as 2021-12-11"));
  EXPECT_THAT(failure("parcae", "0,add,2,x\n5,remove,3,x\n"), HasSubstr("at most the present nodes"));
  EXPECT_THAT(failure("counts", "0,3\n-1,2\n"), HasSubstr("a time that is a number"));
  EXPECT_THAT(failure("counts", "5,3\n1,2\n"), HasSubstr("do not decrease"));
  EXPECT_THAT(failure("counts", "0,2.5\n"), HasSubstr("whole number"));
  EXPECT_THAT(failure("counts", "0,0\n"), HasSubstr("no node is ever present"));
  EXPECT_THAT(failure("bamboo", "2021-12-31, 23:59:00, 2\n2068-01-01, 00:01:00, 3\n"), HasSubstr("a wrong year"));
  EXPECT_THAT(failure("sailor", "# nothing\n"), HasSubstr("no rows"));
}

// Each shipped trace becomes the events of a cluster that is read back. At its end, the cluster has the trace's
// number of nodes.
TEST(SpotTraces, ThoseThatShipAreRead) {
  struct Shipped {
    const char* format;
    const char* file;
    std::int64_t nodes, at_end;
  };
  const std::string folder = ESPALIER_SOURCE_DIR "/data/traces/";
  for (const Shipped& s :
       {Shipped{"bamboo", "bamboo_p3_trace.csv", -1, 10}, Shipped{"bamboo", "bamboo_g4dn_trace.csv", -1, -1},
        Shipped{"bamboo", "bamboo_gcloud_a100x1_east1b.csv", -1, 64},
        Shipped{"parcae", "parcae_gpt15b_trace_hh_55_65.csv", -1, -1},
        Shipped{"parcae", "parcae_gpt15b_trace_hl_15_25.csv", -1, -1},
        Shipped{"parcae", "parcae_gpt15b_trace_lh_80_90.csv", -1, -1},
        Shipped{"parcae", "parcae_gpt15b_trace_ll_10_11.csv", -1, -1}, Shipped{"parcae", "parcae_p3.csv", -1, 10},
        Shipped{"sailor", "sailor_a100_trace.csv", 4, 3}, Shipped{"sailor", "sailor_a100_trace_original.csv", 16, 16}}) {
    SCOPED_TRACE(s.file);
    const auto text = base::read_file(folder + s.file);
    ASSERT_TRUE(text.ok());
    const auto trace = find_trace_format(s.format)->read({s.file, *text, 0, 1});
    ASSERT_TRUE(trace.ok()) << trace.error().message();
    if (s.nodes >= 0) {
      EXPECT_EQ(trace->nodes, s.nodes);
    }
    auto cluster = load_cluster("{nodes: " + std::to_string(trace->nodes) + ", devices_per_node: 1, device: l4}", "cluster.yaml");
    ASSERT_TRUE(cluster.ok());
    cluster->events = trace->events;
    const auto away = static_cast<std::int64_t>(state_at(*cluster, Seconds(1e8)).away.size());
    if (s.at_end >= 0) {
      EXPECT_EQ(trace->nodes - away, s.at_end);
    }
    const auto path = std::filesystem::temp_directory_path() / ("espalier_trace_" + std::string(s.file));
    std::ofstream(path) << events_csv(trace->events, s.file);
    const auto back = load_cluster("{nodes: " + std::to_string(trace->nodes) +
                                       ", devices_per_node: 1, device: l4, events: " + path.filename().string() + "}",
                                   "cluster.yaml", path.parent_path().string());
    ASSERT_TRUE(back.ok()) << back.error().message();
    EXPECT_EQ(back->events, trace->events);
    std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace espalier::exchange
