// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/document.h"
#include "data/source_dir.h"
#include "espalier/job.h"
#include "job/configuration.h"
#include "job/overrides.h"
#include "job/search_part.h"

namespace espalier::job::job_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Holds GPT-2 with 2 blocks, inline, with everything that a job needs and nothing else.
const char* const kModel = R"(  model_type: gpt2
  n_layer: 2
  n_embd: 64
  n_head: 4
  n_positions: 128
  vocab_size: 256
)";
std::string job_text(const std::string& rest = "", const std::string& training = "{sequence_length: 128, global_batch: 8}") {
  return std::string("model:\n") + kModel +
         "cluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}\ntraining: " + training + "\n" + rest;
}
Result<Job> load(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return load_job(text, "job.yaml", ".", overrides);
}

TEST(Job, SmallestJobTakesDefaults) {
  const auto job = load(job_text());
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_EQ(job->model.blocks(), 2);
  EXPECT_EQ(job->cluster.devices(), 8);
  EXPECT_EQ(job->training.sequence.main, 128);
  EXPECT_EQ(job->training.precision, Precision::bf16);
  EXPECT_EQ(job->training.optimizer, Optimizer::adam);
  EXPECT_EQ(job->engine, "generic");
  EXPECT_EQ(job->search, SearchSpace{});
  EXPECT_THAT(job->model_source, HasSubstr("\"n_embd\": 64"));
}

/// Returns a small LLaVA with images of 16 patches, or a small Qwen2.5-VL with images of any size, where four patches
/// become one.
std::string image_job(const std::string& training, bool fixed = true) {
  const std::string text =
      "hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, num_attention_heads: 2, num_key_value_heads: 1, vocab_size: "
      "32";
  const std::string model = fixed
                                ? "{model_type: llava, text_config: {model_type: llama, " + text +
                                      "}, vision_config: {model_type: clip_vision_model, hidden_size: 8, intermediate_size: 16, "
                                      "num_hidden_layers: 2, num_attention_heads: 2, image_size: 8, patch_size: 2}}"
                                : "{model_type: qwen2_5_vl, " + text +
                                      ", vision_config: {depth: 2, hidden_size: 8, intermediate_size: 10, num_heads: 2, "
                                      "patch_size: 2, out_hidden_size: 16}}";
  return "model: " + model + "\ncluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}\ntraining: " + training + "\n";
}

TEST(Job, ImagesHaveASequenceOfTheirOwn) {
  const auto job = load(image_job("{sequence_length: 64, images_per_sample: 3, global_batch: 8}"));
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_EQ(job->training.sequence, (Sequence{.main = 64, .encoder = 48, .decoder = 0, .images = 3}));
  const auto any = load(image_job("{sequence_length: {main: 64, encoder: 128}, images_per_sample: 2, global_batch: 8}", false));
  ASSERT_TRUE(any) << any.error().message();
  EXPECT_EQ(any->training.sequence, (Sequence{.main = 64, .encoder = 128, .decoder = 0, .images = 2}));
}

TEST(Job, ImagesThatDoNotFitAreRefused) {
  const auto refused = [](const std::string& training, bool fixed) {
    const auto job = load(image_job(training, fixed));
    return job ? "" : job.error().message();
  };
  EXPECT_THAT(refused("{sequence_length: 64, global_batch: 8}", false), HasSubstr("no number of patches"));
  EXPECT_THAT(refused("{sequence_length: {main: 64, encoder: 30}, images_per_sample: 4, global_batch: 8}", false),
              HasSubstr("a multiple of images_per_sample"));
  EXPECT_THAT(refused("{sequence_length: {main: 64, encoder: 6}, global_batch: 8}", false), HasSubstr("a multiple of 4"));
  EXPECT_THAT(refused("{sequence_length: 16, images_per_sample: 2, global_batch: 8}", true), HasSubstr("at least 32"));
}

/// Returns a small thinker of Qwen2.5-Omni, where two tokens of sound become one.
std::string sound_job(const std::string& sequence) {
  return "model: {model_type: qwen2_5_omni_thinker, text_config: {hidden_size: 16, intermediate_size: 24, num_hidden_layers: 1, "
         "num_attention_heads: 2, num_key_value_heads: 1, vocab_size: 32}, vision_config: {depth: 1, hidden_size: 8, "
         "intermediate_size: 10, num_heads: 2, patch_size: 2, out_hidden_size: 16}, audio_config: {d_model: 8, encoder_layers: "
         "1, "
         "encoder_ffn_dim: 12, encoder_attention_heads: 2, output_dim: 16}}\ncluster: {nodes: 1, devices_per_node: 8, device: "
         "h100-sxm-80gb}\ntraining: {global_batch: 8, sequence_length: " +
         sequence + "}\n";
}

TEST(Job, SoundBesideImagesHasASequenceOfItsOwn) {
  const auto job = load(sound_job("{main: 64, encoder: 128, sound: 20}"));
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_EQ(job->training.sequence, (Sequence{.main = 64, .encoder = 128, .decoder = 20, .images = 1}));
  const auto refused = [](const std::string& sequence) {
    const auto bad = load(sound_job(sequence));
    return bad ? "" : bad.error().message();
  };
  EXPECT_THAT(refused("{main: 64, encoder: 128}"), HasSubstr("no number of tokens of sound"));
  EXPECT_THAT(refused("{main: 64, encoder: 128, sound: 21}"), HasSubstr("a multiple of 2"));
  EXPECT_THAT(refused("{main: 40, encoder: 128, sound: 20}"), HasSubstr("at least 42"));  // 128 / 4 + 20 / 2
}

TEST(Job, SharedWeightsWantOneLayout) {
  const std::string text =
      "model: {model_type: albert, hidden_size: 16, embedding_size: 4, num_hidden_layers: 4, num_attention_heads: 2, "
      "intermediate_size: 24, vocab_size: 32}\ncluster: {nodes: 1, devices_per_node: 8, device: h100-sxm-80gb}\n"
      "training: {global_batch: 8, sequence_length: 64}\nsearch: {space: ";
  EXPECT_TRUE(load(text + "uniform}\n"));
  EXPECT_THAT(load(text + "layerwise}\n").error().message(), HasSubstr("layers of albert share weights"));
}

TEST(Job, SearchNamesBecomeOrdinals) {
  const auto job =
      load(job_text("search: {fix: {tp: 8, sp: megatron}, allow: {schedule: [1f1b, interleaved], overlap_grad: true}, "
                    "forbid: {zero: 3, recompute: full}, limits: {pp: 16}}\n"));
  ASSERT_TRUE(job) << job.error().message();
  const SearchSpace& s = job->search;
  EXPECT_THAT(s.allowed.at(Dimension::tp), ElementsAre(8));
  EXPECT_THAT(s.allowed.at(Dimension::sp), ElementsAre(1));
  EXPECT_THAT(s.allowed.at(Dimension::schedule), ElementsAre(1, 2));
  EXPECT_THAT(s.allowed.at(Dimension::overlap_grad), ElementsAre(1));
  EXPECT_THAT(s.forbidden.at(Dimension::recompute), ElementsAre(2));
  EXPECT_EQ(s.limits.at(Dimension::pp), 16);
  EXPECT_TRUE(s.admits(Dimension::pp, 16));
  EXPECT_FALSE(s.admits(Dimension::pp, 17));
  EXPECT_FALSE(s.admits(Dimension::zero, 3));
  EXPECT_FALSE(s.admits(Dimension::tp, 4));
}

struct BadJob {
  const char* name;
  std::string text;
  const char* where;
  const char* says;
};
void PrintTo(const BadJob& bad, std::ostream* out) { *out << bad.name; }

class BadJobs : public testing::TestWithParam<BadJob> {};
TEST_P(BadJobs, AreRefusedWithPlaceAndHint) {
  const auto job = load(GetParam().text);
  ASSERT_FALSE(job);
  EXPECT_EQ(job.error().kind, ErrorKind::bad_input);
  EXPECT_THAT(job.error().where, HasSubstr(GetParam().where));
  EXPECT_THAT(job.error().message(), HasSubstr(GetParam().says));
}
INSTANTIATE_TEST_SUITE_P(
    Job, BadJobs,
    testing::Values(
        BadJob{"unknown_key", job_text("enginee: generic\n"), "$", "did you mean"},
        BadJob{"unknown_dimension", job_text("search: {fix: {schedul: 1f1b}}\n"), "$.search.fix", "did you mean \"schedule\""},
        BadJob{"unknown_value", job_text("search: {fix: {sp: megatrn}}\n"), "$.search.fix", "megatron"},
        BadJob{"fix_and_allow", job_text("search: {fix: {tp: 2}, allow: {tp: [2, 4]}}\n"), "tp", "both fix and allow"},
        BadJob{"limit_on_enum", job_text("search: {limits: {sp: 1}}\n"), "sp", "counts"},
        BadJob{"other_space", job_text("search: {space: spatial-temporal}\n"), "space", "did you mean \"spatial_temporal\""},
        BadJob{"unknown_engine", job_text("engine: megatron-cor\n"), "engine", "did you mean \"megatron-core\""},
        BadJob{"offload", job_text("offload: true\n"), "offload", "docs/non-goals.md"},
        BadJob{"lora", job_text("", "{sequence_length: 128, global_batch: 8, lora: {r: 8}}"), "lora", "docs/file-formats.md"},
        BadJob{"packing", job_text("", "{sequence_length: 128, global_batch: 8, packing: true}"), "packing",
               "docs/file-formats.md"},
        BadJob{"no_sequence", job_text("", "{global_batch: 8}"), "training", "sequence_length"},
        BadJob{"too_long", job_text("", "{sequence_length: 256, global_batch: 8}"), "sequence_length", "at most 128"},
        BadJob{"two_sequences", job_text("", "{sequence_length: {encoder: 1, decoder: 1}, global_batch: 8}"), "sequence_length",
               "a number"},
        BadJob{"negative_batch", job_text("", "{sequence_length: 128, global_batch: -8}"), "global_batch", "-8"},
        BadJob{"precision", job_text("", "{sequence_length: 128, global_batch: 8, precision: bf17}"), "precision", "bf16"},
        BadJob{"no_model", "cluster: {nodes: 1, device: l4}\ntraining: {global_batch: 1}\n", "$.model", "no \"model\""},
        BadJob{"missing_file", "model: nowhere/config.json\ncluster: {nodes: 1, device: l4}\ntraining: {global_batch: 1}\n",
               "$.model", "no file"},
        BadJob{"list", "- 1\n- 2\n", "job.yaml", "mapping"}),
    [](const auto& bad) { return std::string(bad.param.name); });

TEST(Job, DeviceMustSupportThePrecision) {
  const auto job =
      load(job_text("", "{sequence_length: 128, global_batch: 8, precision: bf16}"), {"cluster.device=v100-sxm-32gb"});
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().message(), HasSubstr("v100-sxm-32gb does not support bf16"));
}

// A cluster file names tables. The job's cluster source holds their rows, so that a plan needs no other file. Tables
// in the job's own mapping are searched for in the job's folder.
TEST(Job, TablesOfAClusterAreEmbedded) {
  const std::string clusters = ESPALIER_SOURCE_DIR "/examples/clusters";
  const std::string rest = "training: {sequence_length: 128, global_batch: 8, precision: fp16}\n";
  const auto job = load_job("model:\n" + std::string(kModel) + "cluster: two-sites.yaml\n" + rest, "job.yaml", clusters, {});
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_THAT(job->cluster_source, testing::Not(HasSubstr(".csv")));
  // One of its links has a token bucket. The source keeps it as given, and the job is planned at the sustained rate.
  ASSERT_TRUE(job->with_buckets);
  const auto again = load_cluster(job->cluster_source, "plan");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->capacity, job->with_buckets->capacity);
  EXPECT_EQ(again->events, job->with_buckets->events);
  EXPECT_EQ(again->events.size(), 5u);
  EXPECT_EQ(again->links, job->with_buckets->links);
  EXPECT_NE(again->links, job->cluster.links);

  const std::string inline_cluster =
      "cluster: {nodes: 8, devices_per_node: 8, device: h100-sxm-80gb, events: two-sites/events.csv}\n";
  const auto beside = load_job("model:\n" + std::string(kModel) + inline_cluster + rest, "job.yaml", clusters, {});
  ASSERT_TRUE(beside) << beside.error().message();
  EXPECT_EQ(beside->cluster.events.size(), 5u);
  EXPECT_THAT(beside->cluster_source, HasSubstr("node:7"));
}

TEST(Job, SetChangesAnyValueAndIsBlamedForIt) {
  const auto job = load(
      job_text(), {"training.global_batch=128", "cluster.nodes=4", "model.n_layer=6", "search.fix.tp=2", "engine=megatron-core"});
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_EQ(job->training.global_batch, 128);
  EXPECT_EQ(job->cluster.devices(), 32);
  EXPECT_EQ(job->model.blocks(), 6);
  EXPECT_EQ(job->search.allowed.at(Dimension::tp).front(), 2);
  EXPECT_EQ(job->engine, "megatron-core");
  const auto bad = load(job_text(), {"training.global_batch=lots"});
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().where, "--set training.global_batch=lots");
}

// The chosen segment is stored with the plan: 64 trays in racks of 18 are 16 per rack, whatever a later version would
// choose.
TEST(Job, ChosenSegmentIsPartOfTheClusterSource) {
  const auto job = load(job_text(), {"cluster={nodes: 64, device: gb200-nvl72}"});
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_THAT(job->cluster_source, HasSubstr("\"segment\": 16"));
  const auto again = load_cluster(job->cluster_source, "again");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->levels(), job->cluster.levels());
  const auto stated = load(job_text(), {"cluster={nodes: 64, segment: 8, device: gb200-nvl72}"});
  ASSERT_TRUE(stated) << stated.error().message();
  EXPECT_THAT(stated->cluster_source, HasSubstr("\"segment\": 8"));
  EXPECT_THAT(load(job_text(), {"cluster={nodes: 16, device: gb200-nvl72}"})->cluster_source, testing::Not(HasSubstr("segment")));
}

TEST(Job, SetReachesListsRemovesKeysAndRefusesNonsense) {
  auto tree = base::read_yaml("groups: [{nodes: 1}, {nodes: 2}]\nlimit: 3\n", "t");
  ASSERT_TRUE(tree);
  const auto apply = [&](const char* text) {
    auto change = parse_override(text);
    return change ? apply_override(tree->root, *change) : Status(change.error());
  };
  EXPECT_TRUE(apply("groups.1.nodes=8").ok());
  EXPECT_TRUE(apply("limit=").ok());
  EXPECT_TRUE(apply("a.b={c: [1, 2]}").ok());
  EXPECT_EQ(base::to_json(tree->root), R"({"groups": [{"nodes": 1}, {"nodes": 8}], "a": {"b": {"c": [1, 2]}}})");
  for (const char* bad : {"groups.2.nodes=1", "groups.x=1", "nothing", ".a=1", "a..b=1", "groups.0.nodes.deep=1", "a={"}) {
    EXPECT_FALSE(apply(bad).ok()) << bad;
  }
}

TEST(Job, PathsAreFoundBesideTheJobAndAboveIt) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "espalier_job_paths";
  fs::remove_all(root);
  fs::create_directories(root / ".git");
  fs::create_directories(root / "models/tiny");
  fs::create_directories(root / "examples");
  std::ofstream(root / "models/tiny/config.json")
      << R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 128, "vocab_size": 256})";
  std::ofstream(root / "examples/cluster.yaml") << "{nodes: 2, devices_per_node: 8, device: h100-sxm-80gb}\n";
  std::ofstream(root / "examples/job.yaml")
      << "model: models/tiny/config.json\ncluster: cluster.yaml\ntraining: {sequence_length: 64, global_batch: 8}\n";
  const auto job = load_job_file((root / "examples/job.yaml").string(), {"cluster.nodes=4", "model.n_layer=3"});
  ASSERT_TRUE(job) << job.error().message();
  EXPECT_EQ(job->model.name, "tiny");
  EXPECT_EQ(job->model.blocks(), 3);  // --set changes the file that the job names
  EXPECT_EQ(job->cluster.devices(), 32);
  EXPECT_EQ(job->cluster.name, "cluster");
  EXPECT_FALSE(load_job_file((root / "examples/absent.yaml").string(), {}));
  fs::remove_all(root);
}

TEST(Job, ExamplesLoad) {
  for (const auto& entry : std::filesystem::directory_iterator(ESPALIER_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    const auto job = load_job_file(entry.path().string(), {});
    EXPECT_TRUE(job) << entry.path() << ": " << (job ? "" : job.error().message());
  }
}

TEST(Job, OpenFieldsOfAConfigurationAreCompleted) {
  auto job = load(job_text());  // 8 devices, global batch 8, 2 blocks
  ASSERT_TRUE(job);
  Strategy s;
  s.tp = 2;
  s.dp = 0;
  s.zero = ZeroStage::optimizer;
  s.shard = 0;
  s.recompute.kind = RecomputeKind::full;
  Schedule c;
  c.stages = 2;
  c.micro_batch = 2;
  c.microbatches = 0;
  complete_configuration(*job, s, c);
  EXPECT_EQ(s.dp, 2);                // 8 / (2 · 2)
  EXPECT_EQ(s.shard, 2);             // the whole data group
  EXPECT_EQ(c.microbatches, 2);      // 8 / (2 · 2)
  EXPECT_EQ(s.recompute.layers, 1);  // one of two blocks per stage
}

TEST(Job, ValuesOfDimensionsHaveNames) {
  EXPECT_EQ(value_name("schedule", 1), "1f1b");
  EXPECT_EQ(value_name("tp", 8), "8");
  EXPECT_EQ(value_of_name("schedule", "zb-v"), 4);
  EXPECT_EQ(value_of_name("tp", "16"), 16);
  EXPECT_FALSE(value_of_name("tp", "x"));
  EXPECT_FALSE(value_of_name("sp", "x"));
}

}  // namespace
}  // namespace espalier::job::job_test
