// SPDX-License-Identifier: Apache-2.0
#include "job/inputs.h"

#include <filesystem>

#include "base/format.h"
#include "cluster/cluster_reader.h"
#include "espalier/cluster_change.h"
#include "job/input_files.h"
#include "plan/sequence_lengths.h"
#include "plan/structure.h"

namespace espalier::job {
namespace {

namespace fs = std::filesystem;

std::string readable_name(const fs::path& path) {
  if (path.filename() == "config.json" && path.has_parent_path()) return path.parent_path().filename().string();
  return path.stem().string();
}

/// Applies overrides below `key` to the file that `key` names.
Status apply_below(Node& root, const std::string& key, const std::vector<Override>& overrides) {
  for (const Override& change : overrides) {
    if (change.path.size() < 2 || change.path.front() != key) continue;
    if (Status status = apply_override(root, change, 1); !status.ok()) return status;
  }
  return {};
}

bool touches(const std::string& key, const std::vector<Override>& overrides) {
  for (const Override& change : overrides) {
    if (change.path.size() > 1 && change.path.front() == key) return true;
  }
  return false;
}

Result<Input> open_file_input(const std::string& path, const std::string& key, const std::vector<Override>& overrides) {
  auto text = base::read_file(path);
  if (!text) return text.error();
  const bool json = fs::path(path).extension() == ".json";
  auto document = json ? base::read_json(*text, path) : base::read_yaml(*text, path);
  if (!document) return document.error();
  const std::string folder = fs::path(path).parent_path().string();
  Input input{std::move(document).value(), {}, readable_name(path), folder.empty() ? "." : folder};
  if (!touches(key, overrides) && (json || key != "model")) input.text = std::move(text).value();
  if (Status status = apply_below(input.document.root, key, overrides); !status.ok()) return status.error();
  return input;
}

}  // namespace

Result<Input> open_input(base::Reader& job, const std::string& key, const std::string& base_directory,
                         const std::vector<Override>& overrides) {
  const Node* node = job.find(key);
  const std::string& file = job.document().where;
  if (!node || node->kind == NodeKind::null) {
    return Error{ErrorKind::bad_input, job.where(job.node(), key), "no \"" + key + "\"", "a path or a mapping",
                 "docs/file-formats.md shows a job file"};
  }
  if (node->kind == NodeKind::mapping)
    return Input{base::Document{file, *node}, {}, {}, base_directory.empty() ? "." : base_directory};
  if (node->kind != NodeKind::string) {
    return Error{ErrorKind::bad_input, job.where(*node, key), std::string(to_string(node->kind)), "a path or a mapping",
                 "docs/file-formats.md shows a job file"};
  }
  auto path = find_input_file(node->text, key, base_directory, job.where(*node, key));
  if (!path) return path.error();
  return open_file_input(*path, key, overrides);
}

Result<Model> read_model_input(const Input& input, const std::string& source) {
  const std::string where = input.name.empty() ? input.document.where + " ($.model)" : input.document.where;
  auto model = load_model(input.text.empty() ? source : input.text, where);
  if (model) model->name = input.name.empty() ? model->family : input.name;
  return model;
}

Result<Cluster> read_cluster_input(Input& input) {
  const auto files = cluster::open_files(input.document, input.folder);
  if (!files) return files.error();
  base::ErrorSink sink;
  // For an inline cluster the reader's path starts at $.cluster; in a separate file at $.
  base::Reader reader(input.document, input.document.root, input.name.empty() ? "$.cluster" : "$", sink);
  Cluster cluster = cluster::read_cluster(reader, *files);
  if (!sink.ok()) return sink.first().error();
  if (cluster.name.empty()) cluster.name = input.name;
  cluster::embed(input.document.root, *files);
  return cluster;
}

std::string cluster_source_of(const Input& input, const Cluster& cluster) {
  const NodeGroup& group = cluster.groups.front();
  if (!cluster.homogeneous() || group.segment == 0 || group.segment >= group.nodes || input.document.root.find("segment"))
    return base::to_json(input.document.root);
  Node root = input.document.root;
  Node segment;
  segment.kind = NodeKind::integer;
  segment.integer = group.segment;
  segment.real = static_cast<double>(group.segment);
  segment.text = std::to_string(group.segment);
  root.members.emplace_back("segment", std::move(segment));
  return base::to_json(root);
}

void take_what_lasts(Job& job) {
  if (job.cluster.token_buckets.empty()) return;
  job.with_buckets = std::move(job.cluster);
  job.cluster = at_bucket_rates(*job.with_buckets, 0.0);
}

std::vector<std::string> notes_of(const Job& job) {
  std::vector<std::string> out;
  if (job.with_buckets)
    out.emplace_back("token buckets: times are those at the sustained rates, an upper bound on step times in the long run");
  for (const std::string& note : job.cluster.notes)
    if (note.find("memory_limit") != std::string::npos) out.push_back(note);
  for (const std::string& part : unplanned_parts(job.model)) out.push_back("model: " + part);
  if (job.model.context_length > 0 && job.training.sequence.main > job.model.context_length) {
    out.push_back("training.sequence_length " + std::to_string(job.training.sequence.main) +
                  " is beyond the model's max_position_embeddings " + std::to_string(job.model.context_length) +
                  ": the plan uses it as requested, but the published weights were not trained on such positions");
  }
  if (freezes_weights(job.training)) {
    const std::int64_t trained = trained_parameter_count(job.model), all = parameter_count(job.model);
    const std::string share = base::fixed(100.0 * static_cast<double>(trained) / static_cast<double>(all), 2);
    out.push_back(base::cat("training: ", base::grouped(trained), " parameters are trained; the model has ", base::grouped(all),
                            " (", share, " %)"));
  }
  if (job.training.adapter.any() && has_experts(job.model))
    out.emplace_back(
        "training.adapter: routed experts get no adapters; transformers 5 holds them as one tensor, which targets do not match "
        "(4 did "
        "not)");
  if (job.training.lengths.any()) {
    const LengthFacts facts = length_facts(job.training);
    out.push_back(
        base::cat("training.lengths: ", base::fixed(100 * facts.real_tokens, 1), " % of the tokens of samples are real",
                  facts.packed ? base::cat(", ", base::fixed(facts.sequences, 1), " sequences per sample") : std::string()));
  }
  return out;
}

}  // namespace espalier::job
