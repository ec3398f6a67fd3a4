// SPDX-License-Identifier: Apache-2.0
// Tests changes of a cluster that must not change the answer, or change it by a known factor. These are equal and
// steady devices written as a mixed cluster, all speeds doubled, and equal devices on unequal links.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "data/source_dir.h"
#include "espalier/job.h"
#include "espalier/planner.h"
#include "mixed_clusters.h"
#include "plan/engine.h"
#include "random.h"
#include "search/multi_pipeline.h"

namespace espalier::property {
namespace {

using namespace mixed;  // NOLINT: cases on unlike devices

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

/// Writes the cluster of the job as a list of one group, with a name and every device as fast as its kind.
std::string as_mixed(const std::string& job) {
  const std::string begin = "\ncluster: {";
  const std::size_t at = job.find(begin), end = job.find("}\ntraining", at);
  EXPECT_NE(at, std::string::npos);
  EXPECT_NE(end, std::string::npos);
  std::string inside = job.substr(at + begin.size(), end - at - begin.size()), limit;
  // The limit belongs to the whole cluster.
  if (const std::size_t memory = inside.find(", memory_limit: "); memory != std::string::npos) {
    limit = inside.substr(memory);
    inside.erase(memory);
  }
  return cat(job.substr(0, at), "\ncluster: {groups: [{name: a, speed: {\"node:0\": 1, \"rank:1\": 1}, ", inside, "}]", limit,
             "}", job.substr(end + 1));
}

/// Returns an answer without the notation of its cluster, and without the hash of that.
std::string without_source(std::string answer) {
  for (const std::string begin : {"\"cluster\": {"}) {
    const std::size_t at = answer.find(begin), end = answer.find("\n  },", at);
    if (at != std::string::npos && end != std::string::npos) answer.erase(at, end - at);
  }
  const std::string digest = "\"digest\": \"";
  if (const std::size_t at = answer.rfind(digest); at != std::string::npos)
    answer.erase(at, answer.find('"', at + digest.size()) + 1 - at);
  return answer;
}

/// On every example the answer is the same, to the byte. Examples of more than 64 devices are only in the long run.
TEST(EqualAndSteady, IsTheHomogeneousSearch) {
  int answers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(ESPALIER_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string text = text_of(entry.path());
    const auto one = load_job(text, "job", ESPALIER_SOURCE_DIR "/examples", {});
    ASSERT_TRUE(one) << one.error().message();
    if (one->cluster.devices() > 64 && !long_run()) continue;
    const auto other = load_job(as_mixed(text), "job", ESPALIER_SOURCE_DIR "/examples", {});
    ASSERT_TRUE(other) << other.error().message();
    const auto a = plan(*one, {}), b = plan(*other, {});
    ASSERT_TRUE(a && b);
    const std::string x = without_source(to_json(*a, false)), y = without_source(to_json(*b, false));
    const auto differ = std::mismatch(x.begin(), x.end(), y.begin(), y.end()).first - x.begin();
    EXPECT_TRUE(x == y) << entry.path() << ": " << x.substr(static_cast<std::size_t>(differ), 300);
    ++answers;
  }
  std::printf("%d examples\n", answers);
  EXPECT_GE(answers, 8);
}

/// Returns two kinds of device at `faster` times their speed, links and memory, whose host takes 1/faster as long.
std::string cluster_at(double faster) {
  const auto kind = [&](const char* name, double tflops) {
    return cat("{name: ", name, ", peak_tflops: {bf16: ", std::to_string(tflops * faster),
               "}, memory: 16GiB, memory_bandwidth: ", std::to_string(1000 * faster),
               "GB/s, efficiency: {kernel_floor: ", std::to_string(2 / faster), "us, kernel_launch: ", std::to_string(4 / faster),
               "us}}");
  };
  const auto nodes = [&](int count, const std::string& of) {
    return cat("{nodes: ", count, ", devices_per_node: 2, device: ", of,
               ", intra_node: {bandwidth: ", std::to_string(100 * faster), "GB/s, latency: ", std::to_string(2 / faster),
               "us}, inter_node: {bandwidth: ", std::to_string(100 * faster),
               "Gb/s, nics_per_node: 1, latency: ", std::to_string(5 / faster), "us}}");
  };
  return cat("{groups: [", nodes(1, kind("fast", 200)), ", ", nodes(2, kind("slow", 80)),
             "], inter_group: {bandwidth: ", std::to_string(50 * faster), "Gb/s, latency: ", std::to_string(20 / faster), "us}}");
}

/// With all speeds and bandwidths doubled and all latencies halved, the best plan takes half the time, up to the
/// rounding of nanoseconds.
TEST(TwiceAsFast, TakesHalfTheTime) {
  Case once(6, cluster_at(1), 16), twice(6, cluster_at(2), 16);
  EngineModel engine = *find_engine("generic");
  engine.coefficients.micro_batch_s = engine.coefficients.step_s = 0;
  const auto answer = [&](Case& c) {
    c.problem.engine = &engine;
    planner::SimulatedEvaluator evaluator(1);
    const auto found = search::device_groups(c.problem, evaluator, {});
    EXPECT_TRUE(found.best);
    return found.best->iteration_ns;
  };
  const auto slow = static_cast<double>(answer(once)), fast = static_cast<double>(answer(twice));
  EXPECT_NEAR(slow / fast, 2.0, 1e-4) << slow << ", " << fast;
}

/// Returns the micro-batches of two concurrent pipelines of two devices each, on two nodes of equal devices.
std::vector<std::int64_t> shares(const char* first_link, const char* second_link) {
  const auto node = [](const char* link, const char* name) {
    return cat("{name: ", name, ", nodes: 1, devices_per_node: 2, device: ", device("equal", 200, 64),
               ", intra_node: {bandwidth: ", link, ", latency: 2us}}");
  };
  Case c(4,
         cat("{groups: [", node(first_link, "x"), ", ", node(second_link, "y"),
             "], inter_group: {bandwidth: 1000Gb/s, latency: 0us}}"),
         96);
  c.problem.space.allow(Dimension::tp, {2});
  c.problem.space.allow(Dimension::micro_batch, {1});
  c.problem.space.allow(Dimension::recompute, {0});
  planner::SimulatedEvaluator evaluator(1);
  const search::SingleGroupOutcome alone = search::single_group(c.problem, evaluator, {});
  const search::MultiPipelineOutcome found = search::multi_pipeline(c.problem, evaluator, alone, 0, {});
  EXPECT_TRUE(found.best);
  std::vector<std::int64_t> out;
  for (const Pipeline& p : found.best->pipelines) out.push_back(p.samples);
  return out;
}

/// This is a negative control: devices alone do not determine the shares. Equal devices behind equal links share
/// evenly, behind unequal links they do not.
TEST(EqualDevices, ShareUnevenlyWhereLinksAreUneven) {
  EXPECT_EQ(shares("100GB/s", "100GB/s"), (std::vector<std::int64_t>{48, 48}));
  const std::vector<std::int64_t> uneven = shares("100GB/s", "5GB/s");
  ASSERT_EQ(uneven.size(), 2U);
  EXPECT_EQ(uneven[0] + uneven[1], 96);
  EXPECT_GE(uneven[0], uneven[1] + 10);
}

}  // namespace
}  // namespace espalier::property
