// SPDX-License-Identifier: Apache-2.0
// Tests the command line in memory: every command, its exit codes, and that --json is the only output on stdout.
#include "cli/cli.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"
#include "data/source_dir.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

struct Ran {
  int code = 0;
  std::string out, err;
};

/// Returns surroundings without line wrapping, which report/text_layout_test.cpp and every example test.
Surroundings unlimited() {
  Surroundings surroundings;
  surroundings.width = 0;
  return surroundings;
}

Ran call(const std::vector<std::string>& words, const Surroundings& surroundings = unlimited()) {
  std::vector<const char*> argv{"espalier"};
  for (const std::string& w : words) argv.push_back(w.c_str());
  std::ostringstream out, err;
  const int code = run(static_cast<int>(argv.size()), argv.data(), out, err, surroundings);
  return {code, out.str(), err.str()};
}

class Cli : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) /
              ("espalier_cli_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    write("job.yaml", R"(
model: {model_type: gpt2, n_layer: 4, n_embd: 64, n_head: 4, n_positions: 128, vocab_size: 256}
cluster: {nodes: 1, devices_per_node: 4, device: h100-sxm-80gb}
training: {sequence_length: 128, global_batch: 16}
search: {limits: {pp: 2, vpp: 2}}
)");
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  /// Plans the job into out/ and returns the path of plan.json.
  std::string planned() {
    const Ran r = call({"plan", file("job.yaml"), "-o", file("out")});
    EXPECT_EQ(r.code, 0) << r.err;
    return file("out/plan.json");
  }
  fs::path folder_;
};

const base::Node* member(const base::Node& node, const char* a, const char* b) {
  const base::Node* inner = node.find(a);
  return inner ? inner->find(b) : nullptr;
}

TEST_F(Cli, PlanPrintsAnAnswerAndWritesFiles) {
  const Ran r = call({"plan", file("job.yaml"), "-o", file("out")});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("optimal"));
  EXPECT_THAT(r.out, HasSubstr("wrote "));
  for (const char* name : {"out/plan.json", "out/result.json", "out/timeline.json.gz"})
    EXPECT_TRUE(fs::exists(file(name))) << name;
}

TEST_F(Cli, JsonIsOneObjectAndThreadsDoNotChangeIt) {
  std::string first;
  for (const char* threads : {"1", "2", "4"}) {
    const Ran r = call({"plan", file("job.yaml"), "--json", "--threads", threads});
    ASSERT_EQ(r.code, 0) << r.err;
    ASSERT_TRUE(base::read_json(r.out, "out"));
    const std::string untimed = r.out.substr(0, r.out.find("\"timing\""));
    if (first.empty()) first = untimed;
    EXPECT_EQ(untimed, first);
  }
}

TEST_F(Cli, EstimateOfWhatDoesNotFitIsPrintedAndExitsFour) {
  const std::vector<std::string> small = {"--set", "cluster.memory_limit=1MiB"};
  Ran r = call({"estimate", file("job.yaml"), "--json", small[0], small[1]});
  EXPECT_EQ(r.code, 4) << r.err;
  EXPECT_THAT(r.out, HasSubstr("\"fits\": false"));
  r = call({"estimate", file("job.yaml"), small[0], small[1]});
  EXPECT_EQ(r.code, 4);
  EXPECT_THAT(r.out, HasSubstr("DOES NOT FIT"));
  Surroundings terminal;
  terminal.color = true;
  r = call({"estimate", file("job.yaml"), small[0], small[1]}, terminal);
  EXPECT_THAT(r.out, HasSubstr("\033[31mDOES NOT FIT\033[0m"));
  EXPECT_EQ(call({"estimate", file("job.yaml")}).code, 0);
}

// All three commands give one figure for one plan, and check derives it again, for the search as well as the
// prediction.
TEST_F(Cli, TheFlowNetworkTimesThePlanInEveryCommand) {
  const Ran text = call({"plan", "-v", file("job.yaml"), "--network", "flow", "-o", file("out")});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("All messages in flight share the links"));
  EXPECT_THAT(text.out, HasSubstr("busiest links: "));
  const auto iteration_of = [&](const std::string& json) {
    const auto document = base::read_json(json, "result");
    EXPECT_TRUE(document);
    const base::Node* network = document ? member(document->root, "prediction", "network") : nullptr;
    EXPECT_NE(network, nullptr);
    if (network == nullptr) return std::string();
    EXPECT_EQ(network->find("model")->text, "flow");
    EXPECT_GT(network->find("links")->items.size(), 0U);
    return member(document->root, "prediction", "iteration_s")->text;
  };
  const std::string planned = iteration_of(read("out/result.json"));
  EXPECT_EQ(iteration_of(call({"simulate", file("out/plan.json"), "--network", "flow", "--json"}).out), planned);
  EXPECT_EQ(call({"check", file("out/result.json"), "--search"}).code, 0);
  iteration_of(call({"estimate", file("job.yaml"), "--network", "flow", "--json"}).out);
  EXPECT_EQ(call({"simulate", file("out/plan.json"), "--json"}).out.find("\"network\""), std::string::npos);
  EXPECT_EQ(call({"estimate", file("job.yaml"), "--network", "magic"}).code, 2);
}

// A feature of a plan that has no price yet is rejected with the file and the place inside it.
TEST_F(Cli, WhatHasNoPriceIsRefusedWithFileAndPlace) {
  ASSERT_EQ(call({"plan", file("job.yaml"), "-o", file("out")}).code, 0);
  std::string plan = read("out/plan.json");
  const std::string moments = "\"moments\": \"fp32\"";
  ASSERT_NE(plan.find(moments), std::string::npos);
  plan.replace(plan.find(moments), moments.size(), "\"moments\": \"bf16\"");
  write("wide.json", plan);
  for (const char* command : {"simulate", "check", "explain"}) {
    const Ran ran = call({command, file("wide.json")});
    EXPECT_EQ(ran.code, 3) << command;
    EXPECT_THAT(ran.err, HasSubstr("wide.json: $.precision")) << command;
  }
}

// fsdp2 shards everything by itself (zero 3); plain DDP would be rejected. The help states this.
TEST_F(Cli, EstimateHasTheDefaultsOfTheEngine) {
  const Ran help = call({"estimate", "--help"});
  EXPECT_THAT(help.out, HasSubstr("fsdp2: zero 3, overlap grad,param"));
  EXPECT_THAT(help.out, HasSubstr("(default: 1)"));
  const Ran r = call({"estimate", file("job.yaml"), "--json", "--set", "engine=fsdp2"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("\"zero\": 3"));
  EXPECT_THAT(r.out, HasSubstr("\"param_gather\": true"));
  const Ran flag = call({"estimate", file("job.yaml"), "--json", "--engine", "fsdp2"});
  EXPECT_EQ(flag.code, 0) << flag.err;
  EXPECT_EQ(flag.out.substr(0, flag.out.find("\"timing\"")), r.out.substr(0, r.out.find("\"timing\"")));
  const Ran unknown = call({"estimate", file("job.yaml"), "--engine", "fsdp3"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("--engine: found \"fsdp3\""));
  const Ran plain = call({"estimate", file("job.yaml"), "--json"});
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("\"zero\": 0"));
}

TEST_F(Cli, SimplestPlan) {
  const Ran one = call({"plan", "--simple", file("job.yaml"), "--json"});
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("\"within\": 0.01"));
  const Ran any = call({"plan", "--simple=900%", file("job.yaml"), "-o", file("out")});
  EXPECT_EQ(any.code, 0) << any.err;
  EXPECT_THAT(any.out, HasSubstr("0 dimensions"));
  EXPECT_THAT(read("out/plan.json"), HasSubstr("\"zero\": 0"));
  EXPECT_EQ(call({"plan", "--simple=much", file("job.yaml")}).code, 2);
}

TEST_F(Cli, EnginesAreTabled) {
  const Ran r = call({"plan", "--engines", file("job.yaml")});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("runs on"));
  EXPECT_THAT(r.out, HasSubstr("Engines\n"));
  EXPECT_THAT(r.out, HasSubstr("unknown"));
}

TEST_F(Cli, CheckDoesNotKnowWhatJaxCanRun) {
  const std::string path = planned();
  const Ran r = call({"check", path, "--engine", "jax"});
  EXPECT_THAT(r.out, HasSubstr("unknown whether jax can run this plan"));
}

TEST_F(Cli, ThreeCommandsAgreeToTheNanosecond) {
  const std::string plan = planned();
  const Ran simulated = call({"simulate", plan, "--json", "--trace", file("t.json")});
  ASSERT_EQ(simulated.code, 0) << simulated.err;
  const auto answer = base::read_json(read("out/result.json"), "a"), again = base::read_json(simulated.out, "b");
  ASSERT_TRUE(answer && again);
  EXPECT_EQ(member(answer->root, "prediction", "iteration_s")->text, member(again->root, "prediction", "iteration_s")->text);
  EXPECT_TRUE(base::read_json(read("t.json"), "trace"));
}

TEST_F(Cli, DetailAddsTheStepsInsideInstructionsToTheTimeline) {
  const std::string plan = planned();
  ASSERT_EQ(call({"simulate", plan, "--trace", file("plain.json")}).code, 0);
  const Ran detailed = call({"simulate", plan, "--trace", file("steps.json"), "--detail"});
  ASSERT_EQ(detailed.code, 0) << detailed.err;
  const std::string plain = read("plain.json"), steps = read("steps.json");
  EXPECT_TRUE(base::read_json(steps, "trace"));
  EXPECT_THAT(plain, Not(HasSubstr("\"cat\":\"step\"")));
  EXPECT_THAT(steps, HasSubstr("\"cat\":\"step\",\"name\":\"attn.qkv\""));
  const std::size_t events = plain.find("\n],\"espalier\"");  // the lines of the plain timeline come first
  ASSERT_NE(events, std::string::npos);
  EXPECT_EQ(steps.substr(0, events), plain.substr(0, events));
}

TEST_F(Cli, DetailNeedsATimeline) {
  const Ran r = call({"simulate", planned(), "--detail"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.err, HasSubstr("--detail with --trace FILE or -o DIR"));
}

TEST_F(Cli, EstimateTakesAFlagForEveryField) {
  const Ran r = call(
      {"estimate", file("job.yaml"), "--tp", "2", "--sp", "megatron", "--pp", "2", "--vpp", "2", "--micro-batch", "2", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("\"interleaved\""));
  EXPECT_EQ(call({"estimate", file("job.yaml"), "--zero", "3", "--recompute", "full", "--overlap", "grad,param"}).code, 0);
  EXPECT_EQ(call({"estimate", file("job.yaml"), "--sp", "megatorn"}).code, 2);
  EXPECT_EQ(call({"estimate", file("job.yaml"), "--overlap", "everything"}).code, 2);
  EXPECT_EQ(call({"estimate", file("job.yaml"), "--zero", "4"}).code, 2);
  const Ran illegal = call({"estimate", file("job.yaml"), "--tp", "3"});
  EXPECT_EQ(illegal.code, 2);
  EXPECT_THAT(illegal.err, HasSubstr("divide-heads"));
}

TEST_F(Cli, LayerwisePlansAreCheckedExplainedAndCompared) {
  const std::string root = ESPALIER_SOURCE_DIR;
  write("layers.yaml", "model: " + root + "/models/gpt2/config.json\n" + R"(
cluster: {nodes: 1, devices_per_node: 4, device: rtx-4090, memory_limit: 6GiB}
training: {sequence_length: 1024, global_batch: 32}
search: {space: layerwise, fix: {pp: 2}, allow: {schedule: [1f1b]}}
)");
  const Ran planned = call({"plan", "-v", file("layers.yaml"), "-o", file("layers")});
  ASSERT_EQ(planned.code, 0) << planned.err;
  ASSERT_EQ(planned.out.substr(0, 10), "layer-wise") << planned.out;
  EXPECT_THAT(planned.out, HasSubstr("best uniform plan"));
  EXPECT_THAT(planned.out, HasSubstr("Stage balance"));
  const std::string plan = file("layers/plan.json");
  EXPECT_EQ(call({"check", plan, "--engine", "generic"}).code, 0) << call({"check", plan, "--engine", "generic"}).out;
  const Ran refused = call({"check", plan, "--engine", "megatron-core"});
  EXPECT_EQ(refused.code, 5);
  EXPECT_THAT(refused.out, HasSubstr("MEG-LAYERS"));
  const std::string headline = planned.out.substr(0, planned.out.find('\n'));
  for (const Ran& r : {call({"simulate", "-v", plan}), call({"compare", plan, plan}), call({"explain", plan})}) {
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr(headline));
    EXPECT_THAT(r.out, HasSubstr("strategies × layers"));
  }
  // Without the result next to it, the plan's space, which is the layer-wise one, is searched again.
  fs::copy(plan, file("alone.json"));
  const Ran alone = call({"explain", file("alone.json")});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.err, HasSubstr("searching the whole layerwise space"));
  EXPECT_THAT(alone.out, HasSubstr("What layer-wise strategies gain"));
}

TEST_F(Cli, CheckVerifiesAndNamesEngineRules) {
  const std::string plan = planned();
  EXPECT_EQ(call({"check", plan}).code, 0) << call({"check", plan}).out;
  EXPECT_EQ(call({"check", plan, "--engine", "nanotrn"}).code, 2);
  const Ran estimate = call({"estimate", file("job.yaml"), "--pp", "2", "--schedule", "zb-h1", "-o", file("zb")});
  ASSERT_EQ(estimate.code, 0) << estimate.err;
  const Ran r = call({"check", file("zb/plan.json"), "--engine", "megatron-core", "--json"});
  EXPECT_EQ(r.code, 5) << r.out;
  EXPECT_THAT(r.out, HasSubstr("MEG-SCHEDULE"));
}

TEST_F(Cli, ExplainReadsTheResultOrSearchesAgain) {
  const std::string plan = planned();
  const Ran beside = call({"explain", plan});
  EXPECT_EQ(beside.code, 0) << beside.err;
  EXPECT_THAT(beside.out, HasSubstr("What limits it"));
  EXPECT_THAT(beside.out, HasSubstr("How the space was covered"));
  EXPECT_EQ(beside.err, "");
  fs::remove(file("out/result.json"));
  const Ran again = call({"explain", plan, "--json"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("searching"));
  EXPECT_TRUE(base::read_json(again.out, "e"));
}

TEST_F(Cli, CompareShowsPlansSideBySide) {
  const std::string plan = planned();
  ASSERT_EQ(call({"estimate", file("job.yaml"), "--tp", "4", "-o", file("tp4")}).code, 0);
  const Ran r = call({"compare", plan, file("tp4/result.json")});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("against the first"));
  EXPECT_TRUE(base::read_json(call({"compare", plan, file("tp4/plan.json"), "--json"}).out, "c"));
}

TEST_F(Cli, InspectShowsWhatWasUnderstood) {
  const Ran model = call({"inspect", "model", ESPALIER_SOURCE_DIR "/models/llama-3-8b/config.json"});
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_THAT(model.out, HasSubstr("8.03B (8,030,261,248)"));
  EXPECT_THAT(model.out, HasSubstr("(default)"));
  write("cluster.yaml", "{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}\n");
  const Ran cluster = call({"inspect", "cluster", file("cluster.yaml")});
  EXPECT_EQ(cluster.code, 0) << cluster.err;
  EXPECT_THAT(cluster.out, HasSubstr("16 devices"));
  write("run.jsonl", R"({"id": "x", "framework": "nanotron", "model": {"name": "llama"}, "gpu": {"type": "H100", "count": 8}})");
  const Ran run = call({"inspect", "run", file("run.jsonl")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("not predicted: model.layers missing"));
  for (const char* kind : {"model", "cluster"}) {
    const std::string path = kind == std::string("model") ? ESPALIER_SOURCE_DIR "/models/gpt2/config.json" : file("cluster.yaml");
    EXPECT_TRUE(base::read_json(call({"inspect", kind, path, "--json"}).out, "i")) << kind;
  }
}

TEST_F(Cli, ValidatePrintsOneDocument) {
  write("runs.jsonl", "{\"id\": \"a\"}\n");
  const Ran r = call({"validate", file("runs.jsonl"), "--json"});
  EXPECT_EQ(r.code, 0) << r.err;
  const auto document = base::read_json(r.out, "v");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root.find("records")->integer, 1);
}

// One bad line is counted and shown with its place. The exit code is 3 only where no line can be read, in any of the
// files.
TEST_F(Cli, ValidateJudgesTheLinesThatCanBeRead) {
  write("good.jsonl", "{\"id\": \"a\"}\n");
  write("bad.jsonl", "{\"id\": \"a\"}\n{\"tp\": oops}\n");
  write("worse.jsonl", "{\"tp\": oops}\n");
  const Ran text = call({"validate", file("bad.jsonl")});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("bad.jsonl:2:"));
  const Ran bad = call({"validate", file("bad.jsonl"), "--json"});
  EXPECT_EQ(bad.code, 0) << bad.err;
  const auto document = base::read_json(bad.out, "v");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root.find("records")->integer, 2);
  EXPECT_EQ(document->root.find("skipped")->find("line cannot be read")->integer, 1);
  ASSERT_EQ(document->root.find("unreadable")->items.size(), 1u);
  EXPECT_THAT(document->root.find("unreadable")->items[0].find("where")->text, HasSubstr("bad.jsonl:2:"));
  EXPECT_EQ(call({"validate", file("worse.jsonl"), file("good.jsonl")}).code, 0);
  const Ran worse = call({"validate", file("worse.jsonl")});
  EXPECT_EQ(worse.code, 3);
  EXPECT_THAT(worse.err, HasSubstr("worse.jsonl:1:"));
}

TEST_F(Cli, SweepTablesOneOverride) {
  const Ran r = call({"plan", file("job.yaml"), "--sweep", "cluster.nodes=1,2", "--set", "training.tokens=1e9"});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("cluster.nodes"));
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 3);
  EXPECT_TRUE(base::read_json(call({"plan", file("job.yaml"), "--sweep", "cluster.nodes=1,2", "--json"}).out, "s"));
  EXPECT_EQ(call({"plan", file("job.yaml"), "--sweep", "cluster.nodes"}).code, 2);
}

TEST_F(Cli, ExitCodes) {
  EXPECT_EQ(call({}).code, 2);
  EXPECT_EQ(call({"--help"}).code, 0);
  EXPECT_EQ(call({"plan", "--help"}).code, 0);
  EXPECT_EQ(call({"version"}).code, 0);
  EXPECT_EQ(call({"--version"}).code, 0);
  EXPECT_EQ(call({"plam"}).code, 2);
  EXPECT_EQ(call({"plan"}).code, 2);
  EXPECT_EQ(call({"plan", file("job.yaml"), "--threads", "x"}).code, 2);
  EXPECT_EQ(call({"plan", file("job.yaml"), "--set", "nonsense"}).code, 2);
  EXPECT_EQ(call({"plan", file("absent.yaml")}).code, 3);
  EXPECT_EQ(call({"plan", file("job.yaml"), "-o", "/dev/null/x"}).code, 2);
  write("bad.yaml", "model: [\n");
  EXPECT_EQ(call({"plan", file("bad.yaml")}).code, 3);
  EXPECT_EQ(call({"plan", file("job.yaml"), "--set", "cluster.memory_limit=1MiB"}).code, 4);
  EXPECT_EQ(call({"plan", file("job.yaml"), "--no-rule", "no-such-rule"}).code, 2);
  write("plan.json", "{\"schema\": \"espalier.plan/1\"}");
  EXPECT_EQ(call({"check", file("plan.json")}).code, 3);
}

TEST_F(Cli, AMistypedCommandOrFlagGetsASuggestion) {
  EXPECT_THAT(call({"plam", file("job.yaml")}).err, HasSubstr("did you mean \"espalier plan\"?"));
  EXPECT_THAT(call({"inspect", "modle", "x"}).err, HasSubstr("did you mean \"espalier inspect model\"?"));
  EXPECT_THAT(call({file("job.yaml")}).err, HasSubstr("did you mean \"espalier plan " + file("job.yaml") + "\"?"));
  EXPECT_THAT(call({"plan", file("job.yaml"), "--thread", "2"}).err, HasSubstr("did you mean --threads?"));
  EXPECT_THAT(call({"estimate", file("job.yaml"), "-tp", "2"}).err, HasSubstr("did you mean --tp?"));
  EXPECT_THAT(call({"plan", file("job.yaml"), "--tp", "2"}).err, HasSubstr("--tp is a flag of espalier estimate"));
  const Ran json = call({"plan", file("job.yaml"), "--thread", "2", "--json"});
  EXPECT_EQ(json.code, 2);
  const auto document = base::read_json(json.out, "e");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root.find("kind")->text, "usage");
}

TEST_F(Cli, JobsAndPlansComeFromStdinToo) {
  const std::string plan = planned();
  std::istringstream job(read("job.yaml"));
  Surroundings piped;
  piped.width = 0;  // as the other calls here
  piped.input = &job;
  const Ran from_pipe = call({"plan", "-", "--sweep", "training.global_batch=8,16"}, piped);
  EXPECT_EQ(from_pipe.code, 0) << from_pipe.err;
  std::istringstream document(read("out/plan.json"));
  piped.input = &document;
  const Ran simulated = call({"simulate", "-"}, piped);
  EXPECT_EQ(simulated.code, 0) << simulated.err;
  EXPECT_EQ(simulated.out, call({"simulate", plan}).out);
  std::istringstream broken("{");
  piped.input = &broken;
  EXPECT_THAT(call({"check", "-"}, piped).err, HasSubstr("<stdin>:1:"));
  EXPECT_EQ(call({"check", "-"}).code, 2);  // nothing to read from
}

TEST_F(Cli, ErrorsAreJsonWithJson) {
  const Ran r = call({"plan", file("absent.yaml"), "--json"});
  EXPECT_EQ(r.code, 3);
  const auto document = base::read_json(r.out, "e");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root.find("kind")->text, "bad_input");
}

TEST_F(Cli, AnInterruptEndsWithTheBestSoFar) {
  Surroundings interrupted;
  interrupted.interrupted = [] { return true; };
  EXPECT_EQ(call({"plan", file("job.yaml")}, interrupted).code, 130);
}

TEST_F(Cli, ANodeLimitEndsWithTheBestSoFar) {
  const Ran r = call({"plan", file("job.yaml"), "--node-limit", "1"});
  EXPECT_TRUE(r.code == 6 || r.code == 0) << r.code << r.err;  // 0 when the first candidate is proven best
  if (r.code == 6) {
    EXPECT_THAT(r.out, HasSubstr("not proven"));
  }
}

TEST_F(Cli, ProgressOnlyOnATerminalColourOnlyWhereAsked) {
  const Ran plain = call({"plan", file("job.yaml")});
  EXPECT_EQ(plain.err, "");
  EXPECT_EQ(plain.out.find('\033'), std::string::npos);
  Surroundings color;
  color.color = true;
  EXPECT_THAT(call({"plan", file("job.yaml")}, color).out, HasSubstr("\033[1m"));
}

}  // namespace
}  // namespace espalier::cli
