// SPDX-License-Identifier: Apache-2.0
// Reads job files: model, cluster, training, engine, search (docs/file-formats.md), each input inline or a path
// (job/inputs.h).
#include <algorithm>
#include <array>
#include <filesystem>
#include <initializer_list>

#include "base/document.h"
#include "base/document_kind.h"
#include "base/text.h"
#include "espalier/job.h"
#include "job/calibration_file.h"
#include "job/inputs.h"
#include "job/job_invariants.h"
#include "job/overrides.h"
#include "job/search_part.h"
#include "job/space_values.h"
#include "job/training_lengths.h"
#include "job/words.h"
#include "plan/engine.h"
#include "plan/shared_table.h"
#include "plan/structure.h"
#include "plan/training_parts.h"

namespace espalier {
namespace {

using namespace job;

namespace fs = std::filesystem;

// This sequence length is beyond any plausible one, and products stay in 64 bits.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 31;
constexpr std::int64_t kMaxSamples = std::int64_t{1} << 31;  // global batch

/// Lists names of other tools for keys that are written differently here, or for features that are not planned.
struct OtherName {
  const char *key, *expected, *hint;
};
constexpr const char* kOffload = "search: {fix: {offload: optimizer}}";
constexpr const char* kOffloadHint =
    "optimizer state in host memory is a dimension of the search; docs/non-goals.md lists what is not supported";
constexpr const char* kParameters = "search: {fix: {offload: parameters}}";
constexpr const char* kParametersHint =
    "parameters, gradients and states in host memory are a dimension of the search, like activations and the optimizer";
constexpr const char* kAdapter = "training: {adapter: {kind: lora, rank: 16, targets: [q_proj, v_proj]}}";
constexpr const char* kPacking = "training: {lengths: {histogram: …, packing: packed}}";
constexpr const char* kMicroBatch = "search: {fix: {micro_batch: 2}}, or estimate --micro-batch 2";
constexpr const char* kMicroBatchHint =
    "the micro-batch is a dimension of the search: search.fix pins it, search.allow lists values";
constexpr const char* kAccumulationHint = "it follows from the batch: global_batch = micro_batch · dp · steps of accumulation";
constexpr const char* kFixHint = "degrees are dimensions of the search: search.fix pins one; estimate takes all of them as flags";
constexpr std::array kOtherNames = {
    OtherName{"micro_batch", kMicroBatch, kMicroBatchHint},
    OtherName{"micro_batch_size", kMicroBatch, kMicroBatchHint},
    OtherName{"mbs", kMicroBatch, kMicroBatchHint},
    OtherName{"train_micro_batch_size_per_gpu", kMicroBatch, kMicroBatchHint},
    OtherName{"per_device_train_batch_size", kMicroBatch, kMicroBatchHint},
    OtherName{"local_batch_size", kMicroBatch, kMicroBatchHint},
    OtherName{"gradient_accumulation_steps", "global_batch", kAccumulationHint},
    OtherName{"tp", "search: {fix: {tp: 8}}, or estimate --tp 8", kFixHint},
    OtherName{"pp", "search: {fix: {pp: 2}}, or estimate --pp 2", kFixHint},
    OtherName{"zero", "search: {fix: {zero: 3}}, or estimate --zero 3", kFixHint},
    OtherName{"recompute", "search: {fix: {recompute: full}}, or estimate --recompute full", kFixHint},
    OtherName{"offload", kOffload, kOffloadHint},
    OtherName{"cpu_offload", kOffload, kOffloadHint},
    OtherName{"offload_optimizer", kOffload, kOffloadHint},
    OtherName{"offload_param", kParameters, kParametersHint},
    OtherName{"lora", kAdapter, "docs/file-formats.md lists its keys"},
    OtherName{"peft", kAdapter, "docs/file-formats.md lists its keys"},
    OtherName{"packing", kPacking, "docs/file-formats.md lists its keys"},
    OtherName{"packed", kPacking, "docs/file-formats.md lists its keys"},
};

/// Rejects techniques that would change the answer if they were silently ignored.
void refuse_unsupported(base::Reader& reader) {
  for (const auto& [key, expected, hint] : kOtherNames) {
    if (!reader.node().find(key)) continue;
    const Node* node = reader.find(key);  // known from here on, but not listed among the expected keys when absent
    if (node->kind == NodeKind::null || (node->kind == NodeKind::boolean && !node->boolean)) continue;
    reader.fail(key, "\"" + std::string(key) + "\"", expected, hint);
  }
}

bool has_stream(const Model& model, TokenStream stream) {
  for (const LayerKind& kind : model.kinds) {
    if (kind.stream == stream) return true;
  }
  return false;
}

std::string plural_hint(const Model& model) { return model.family + " takes one sequence: sequence_length: 2048"; }

/// Returns how many tokens of a sequence the model merges into one.
std::int64_t merge_of(const Model& model, TokenStream stream) {
  std::int64_t merge = 1;
  for (const LayerKind& kind : model.kinds)
    if (kind.stream == stream) merge = std::max(merge, kind.tokens_divisor);
  return merge;
}

/// Checks that merged patches, and merged frames of a second tower, fit into the tokens of the text.
void check_places(base::Reader& training, const Model& model, const Sequence& sequence) {
  const std::int64_t merge = merge_of(model, TokenStream::encoder), frames = merge_of(model, TokenStream::decoder);
  const std::int64_t each = sequence.encoder / sequence.images, places = sequence.encoder / merge + sequence.decoder / frames;
  if (each % merge != 0)
    training.fail("sequence_length", std::to_string(each) + " patches of an image", "a multiple of " + std::to_string(merge),
                  "the model merges that many adjacent patches into one");
  else if (sequence.decoder % frames != 0)
    training.fail("sequence_length", std::to_string(sequence.decoder) + " tokens of sound",
                  "a multiple of " + std::to_string(frames), "the model merges that many adjacent tokens into one");
  else if (places > sequence.main)
    training.fail("sequence_length", std::to_string(sequence.main) + " tokens of text",
                  "at least " + std::to_string(places) + ", the positions of " + std::to_string(sequence.images) + " images" +
                      (sequence.decoder > 0 ? " and of the recording" : ""),
                  "the text length includes the positions of its images; for fewer images: training.images_per_sample");
}

/// Reads text with the places of its images, and their patches. These are images_per_sample times the patches of one
/// image where the model fixes them. Otherwise they are {main, encoder} of the job.
Sequence read_text_and_images(base::Reader& training, const Model& model) {
  const char* const key = "sequence_length";
  Sequence sequence;
  sequence.images = training.optional_int("images_per_sample", 1, kMaxSamples, 1);
  if (model.encoder_tokens > 0) sequence.encoder = model.encoder_tokens * sequence.images;
  const bool hears = has_stream(model, TokenStream::decoder);
  const Node* node = training.find(key);
  if (node != nullptr && node->kind == NodeKind::mapping) {
    base::Reader both = training.child(key, true);
    sequence.main = both.required_int("main", 1, kMaxTokens);
    sequence.encoder = both.optional_int("encoder", 1, kMaxTokens, sequence.encoder);
    if (hears) sequence.decoder = both.optional_int("sound", 1, kMaxTokens, 0);
    both.finish();
  } else {
    sequence.main = training.required_int(key, 1, kMaxTokens);
  }
  if (!training.sink().ok()) return sequence;
  if (hears && sequence.decoder == 0) {
    training.fail(
        key, "no number of tokens of sound", "{main: …, sound: …}",
        model.family +
            " takes sound in addition to images: sequence_length: {main: 4096, sound: 1500} gives each sample one recording of "
            "1500 tokens, before adjacent tokens are merged. Without audio_config it is planned without that tower");
    return sequence;
  }
  if (sequence.encoder == 0) {
    training.fail(key, "no number of patches", "{main: …, encoder: …}",
                  model.family +
                      " takes images of any size: sequence_length: {main: 4096, encoder: 8192} gives the images of a sample 8192 "
                      "patches in total, before adjacent patches are merged");
  } else if (sequence.encoder % sequence.images != 0 || sequence.encoder > kMaxTokens) {
    training.fail(key, std::to_string(sequence.encoder) + " patches of " + std::to_string(sequence.images) + " images",
                  "a multiple of images_per_sample, at most 2^31", "all images of a sample are assumed to have one size");
  } else {
    check_places(training, model, sequence);
  }
  return sequence;
}

Sequence read_sequence(base::Reader& training, const Model& model) {
  Sequence sequence;
  const char* const key = "sequence_length";
  const Node* node = training.find(key);
  const bool given = node && node->kind != NodeKind::null;
  if (model.vision) {
    if (given)
      training.fail(key, "a sequence length", "none for a vision model",
                    "remove training.sequence_length; the model's image size sets it");
    return sequence;
  }
  if (model.tower) return read_text_and_images(training, model);
  if (training.has("images_per_sample"))
    training.fail("images_per_sample", "", "no images of a model without a tower", model.family + " takes no images in its text");
  if (has_stream(model, TokenStream::encoder)) {
    if (!given || node->kind != NodeKind::mapping) {
      training.fail(key, given ? "one length" : "no sequence_length", "{encoder: …, decoder: …}",
                    model.family + " has two sequences: sequence_length: {encoder: 512, decoder: 128}");
      return sequence;
    }
    base::Reader both = training.child(key, true);
    sequence.encoder = model.encoder_tokens > 0 ? both.optional_int("encoder", 1, kMaxTokens, model.encoder_tokens)
                                                : both.required_int("encoder", 1, kMaxTokens);
    sequence.decoder = both.required_int("decoder", 1, kMaxTokens);
    both.finish();
    const std::int64_t learned = model.encoder_tokens > 0 ? sequence.decoder : std::max(sequence.encoder, sequence.decoder);
    if (model.max_positions > 0 && learned > model.max_positions)
      training.fail(key, std::to_string(learned), "at most " + std::to_string(model.max_positions),
                    "the model has that many learned positions");
    if (model.encoder_tokens > 0 && sequence.encoder != model.encoder_tokens)
      training.fail(key, std::to_string(sequence.encoder) + " tokens of the encoder", std::to_string(model.encoder_tokens),
                    "the model's own file sets them; omit encoder");
    return sequence;
  }
  if (given && node->kind == NodeKind::mapping) {
    training.fail(key, "two lengths", "a number", plural_hint(model));
    return sequence;
  }
  sequence.main = training.required_int(key, 1, kMaxTokens);
  if (model.max_positions > 0 && sequence.main > model.max_positions) {
    training.fail(key, std::to_string(sequence.main), "at most " + std::to_string(model.max_positions),
                  "the model has that many learned positions; to train with more: --set model." +
                      std::string(model.family == "gpt2" ? "n_positions" : "max_position_embeddings") + "=" +
                      std::to_string(sequence.main));
  }
  return sequence;
}

Training read_training(base::Reader& reader, const Model& model, const std::string& base_directory) {
  Training training;
  refuse_unsupported(reader);
  training.sequence = read_sequence(reader, model);
  training.global_batch = reader.required_int("global_batch", 1, kMaxSamples);
  training.precision = read_precision(reader);
  training.optimizer = read_optimizer(reader);
  training.moe_imbalance = reader.optional_real("moe_imbalance", 1.0, 1e6, 1.0);
  if (training.moe_imbalance != 1.0 && !has_experts(model))
    reader.fail("moe_imbalance", base::shortest(training.moe_imbalance), "a model with experts", "this model has none; omit it");
  training.tokens = reader.optional_real("tokens", 0, 1e18, 0);
  training.adapter = read_adapter(reader);
  training.freeze = read_freeze(reader);
  training.lengths = read_lengths(reader, model, training.sequence, base_directory);
  reader.finish();
  return training;
}

void check_precision(base::Reader& training, const Cluster& cluster, Precision precision) {
  for (const NodeGroup& group : cluster.groups) {
    const auto supports = [&](Precision p) { return group.device.peak_of(p).count() > 0; };
    if (supports(precision)) continue;
    std::string supported, instead;
    for (int i = 0; i < kPrecisions; ++i) {
      const auto p = static_cast<Precision>(i);
      if (!supports(p)) continue;
      supported.append(supported.empty() ? "" : ", ").append(to_string(p));
      if (instead.empty() || p == Precision::fp16 || p == Precision::bf16) instead = to_string(p);
    }
    training.fail("precision", std::string(to_string(precision)) + (training.has("precision") ? "" : " (the default)"),
                  "one of " + supported,
                  group.device.name + " does not support " + std::string(to_string(precision)) +
                      "; training.precision: " + instead + " would do");
  }
}

/// Checks the features that the engine needs for this training, whatever is searched.
void check_engine(base::Reader& training, const Job& job) {
  const EngineModel& engine = *find_engine(job.engine);
  const auto engines_with = [](bool EngineRuns::*what) {
    std::string names;
    for (const EngineModel& e : engine_catalogue())
      if (e.runs.*what) names.append(names.empty() ? "engine: " : ", ").append(e.name);
    return names;
  };
  if (freezes_weights(job.training) && !engine.runs.frozen_weights)
    training.fail(job.training.adapter.any() ? "adapter" : "freeze", "frozen weights under engine " + job.engine,
                  "training of all weights", engines_with(&EngineRuns::frozen_weights));
  if (job.training.lengths.any() && job.training.lengths.packing != Packing::none && !engine.runs.packed_sequences)
    training.fail("lengths", "packed sequences under engine " + job.engine, "packing: none",
                  engines_with(&EngineRuns::packed_sequences));
}

/// Checks that layers with shared weights have one layout, which spaces with a strategy per layer do not guarantee.
void check_shared_weights(base::Reader& search, const Job& job) {
  if (job.search.kind == SpaceKind::uniform || std::none_of(job.model.kinds.begin(), job.model.kinds.end(), uses_again)) return;
  search.fail("space", std::string(to_string(job.search.kind)), "uniform",
              "layers of " + job.model.family + " share weights, which can have only one layout");
}

/// Places an error below the training of the job.
Error at_training(const base::Reader& training, Error error) {
  error.where = training.document().where + " (" + training.path() + error.where + ")";
  return error;
}

std::string read_engine(base::Reader& job) {
  std::string engine = job.optional_string("engine", "generic");
  if (find_engine(engine)) return engine;
  std::string list;
  for (const EngineModel& e : engine_catalogue()) list.append(list.empty() ? "" : ", ").append(e.name);
  const std::string close = engine_suggestion(engine);
  job.fail("engine", "\"" + engine + "\"", "one of " + list, close.empty() ? "choose one of these words" : close);
  return engine;
}

/// Reads `calibration: FILE`, `profile: FILE` or the values themselves; null when the job has none.
Result<std::shared_ptr<const Calibration>> read_calibration_key(base::Reader& job, const std::string& base_directory,
                                                                const std::vector<Override>& overrides) {
  const bool profile = job.has("profile");
  if (!profile && !job.has("calibration")) return std::shared_ptr<const Calibration>();
  if (profile && job.has("calibration"))
    job.fail("profile", "a profile and a calibration", "one of them", "a profile is a calibration with measured operators");
  const auto input = open_input(job, profile ? "profile" : "calibration", base_directory, overrides);
  if (!input) return input.error();
  const std::string& text = input->text;
  auto calibration = read_calibration(text.empty() ? base::to_json(input->document.root) : text, input->document.where,
                                      input->name.empty() ? "of the job" : input->name);
  return calibration;
}

/// Reports a file of another kind, given by mistake: a plan or another answer of ours, a model's config.json, a
/// cluster.
Status another_document(const base::Reader& reader) {
  const std::string kind = base::document_kind(reader.node());
  if (kind.empty() || kind == "a job file") return {};
  return base::wrong_kind(kind, reader.document().where, "a job file");
}

Result<Job> read_job(base::Document& document, const std::string& base_directory, const std::vector<Override>& overrides) {
  base::ErrorSink sink;
  base::Reader reader = base::Reader::root(document, sink);
  if (!sink.ok()) return sink.first().error();
  if (Status status = another_document(reader); !status.ok()) return status.error();
  refuse_unsupported(reader);

  Job job;
  auto model_input = open_input(reader, "model", base_directory, overrides);
  if (!model_input) return model_input.error();
  job.model_source = base::to_json(model_input->document.root);
  auto model = read_model_input(*model_input, job.model_source);
  if (!model) return model.error();
  job.model = std::move(model).value();

  auto cluster_input = open_input(reader, "cluster", base_directory, overrides);
  if (!cluster_input) return cluster_input.error();
  auto cluster = read_cluster_input(*cluster_input);
  if (!cluster) return cluster.error();
  job.cluster = std::move(cluster).value();
  job.cluster_source = cluster_source_of(*cluster_input, job.cluster);
  take_what_lasts(job);

  base::Reader training = reader.child("training", true);
  job.training = read_training(training, job.model, base_directory);
  auto calibration = read_calibration_key(reader, base_directory, overrides);
  if (!calibration) return calibration.error();
  job.engine = read_engine(reader);
  if (*calibration && !reader.has("engine") && !(*calibration)->engine.empty()) job.engine = (*calibration)->engine;
  base::Reader search = reader.child("search", false);
  job.objective = read_objective(search);
  job.search = read_search_space(search);
  reader.finish();
  if (sink.ok()) check_precision(training, job.cluster, job.training.precision);
  if (sink.ok()) check_space_values(search, job);
  if (sink.ok()) check_shared_weights(search, job);
  if (sink.ok()) check_engine(training, job);
  if (!sink.ok()) return sink.first().error();
  if (*calibration) {
    if (Status status = use_calibration(job, std::move(*calibration)); !status.ok()) return status.error();
  }
  if (Status status = mean_modules(job); !status.ok()) return status.error();
  if (Status status = mark_trained(job.model, job.training, ""); !status.ok()) return at_training(training, status.error());
  job.notes = notes_of(job);
  check_job(job);
  return job;
}

}  // namespace

Result<Job> load_job(std::string_view text, const std::string& where, const std::string& base_directory,
                     const std::vector<std::string>& overrides) {
  auto document = base::read_yaml(text, where);
  if (!document) return document.error();
  auto changes = parse_overrides(overrides);
  if (!changes) return changes.error();
  for (const Override& change : *changes) {
    // Overrides of model.x and cluster.x apply to a separate file once that file is open.
    const Node* input = change.path.size() > 1 ? document->root.find(change.path.front()) : nullptr;
    const bool elsewhere =
        input && input->kind == NodeKind::string && (change.path.front() == "model" || change.path.front() == "cluster");
    if (elsewhere) continue;
    if (Status status = apply_override(document->root, change); !status.ok()) return status.error();
  }
  auto job = read_job(*document, base_directory, *changes);
  if (!job) return blame_override(job.error(), *changes);
  return job;
}

Result<Job> load_job_file(const std::string& path, const std::vector<std::string>& overrides) {
  auto text = base::read_file(path);
  if (!text) return text.error();
  return load_job(*text, path, fs::path(path).parent_path().string(), overrides);
}

}  // namespace espalier
