// SPDX-License-Identifier: Apache-2.0
// Derives the job, and the plan that it runs, from a configuration.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "espalier/configuration.h"
#include "exchange/configuration_readers.h"
#include "exchange/megatron.h"
#include "exchange/megatron_import.h"
#include "exchange/request.h"
#include "exchange/torchtitan.h"
#include "job/engine_defaults.h"
#include "job/input_files.h"
#include "job/overrides.h"
#include "plan/engine.h"
#include "plan/rules.h"
#include "planner/legality.h"

namespace espalier::exchange {
namespace {

// ---- the job ------------------------------------------------------------------------------------------------------

std::string job_text(const ImportedConfiguration& c, const ConfigurationInputs& inputs) {
  base::JsonWriter w;
  w.begin_object();
  if (inputs.model.empty())
    w.key("model").raw(c.model);
  else
    w.key("model").value(inputs.model);
  w.key("cluster").value(inputs.cluster);
  w.key("training").begin_object();
  w.key("sequence_length").value(c.sequence_length).key("global_batch").value(c.global_batch);
  w.key("precision").value(to_string(c.precision)).key("optimizer").value(to_string(c.optimizer));
  w.end_object();
  w.key("engine").value(c.engine);
  w.end_object();
  return w.text();
}

std::int64_t heads_of(const Model& model) {
  for (const Operator& op : model.layer(1).operators)
    if (op.kind == OperatorKind::attention) return op.heads;
  return 0;
}

/// Rejects a model whose sizes differ from those that the flags state.
Status other_sizes(const ImportedConfiguration& c, const Model& model) {
  for (const auto& [key, value] : c.sizes) {
    const std::int64_t own = key == "num_layers"    ? model.blocks()
                             : key == "hidden_size" ? model.layer(1).hidden
                                                    : heads_of(model);
    if (own != value)
      return Error{ErrorKind::bad_input, c.name, cat(key, " ", value), cat(own, ", as in --model"),
                   "give the model for which the file was written"};
  }
  return {};
}

// ---- the plan -----------------------------------------------------------------------------------------------------

bool has_experts(const Model& model) { return active_parameter_count(model) < parameter_count(model); }

/// Returns the stages per rank: ⌈weighted layers / layers per stage⌉ over the ranks (torchtitan,
/// distributed/pipeline_parallel.py), rounded down. cut() reports a remainder.
std::int32_t virtual_stages(const Job& job, const ImportedConfiguration& c) {
  if (!c.end_weights || !c.end_weights->layers_per_stage) return c.schedule.virtual_stages;
  const std::int64_t weighted = job.model.blocks() + c.end_weights->first + c.end_weights->last;
  const std::int64_t each = *c.end_weights->layers_per_stage, stages = (weighted + each - 1) / each;
  return static_cast<std::int32_t>(std::max<std::int64_t>(1, stages / c.schedule.stages));
}

/// Returns the blocks of each chunk that the configuration states, in the order of the pipeline. The result is empty
/// where the engine splits the layers, or where the stated split is invalid.
std::vector<std::int32_t> stated_blocks(const Job& job, const ImportedConfiguration& c) {
  if (!c.end_weights) return c.blocks;
  const std::int64_t chunks = std::int64_t{c.schedule.stages} * virtual_stages(job, c);
  const auto blocks = titan_blocks(job.model.blocks(), chunks, c.end_weights->first, c.end_weights->last);
  return {blocks.begin(), blocks.end()};
}

/// Returns the blocks of the fullest chunk where the engine splits.
std::int32_t fullest_of_engine(const Job& job, const ImportedConfiguration& c, const Schedule& schedule) {
  Strategy probe = c.strategy;
  probe.recompute = {RecomputeKind::full, 0};
  Schedule same = schedule;
  complete_configuration(job, probe, same);
  return probe.recompute.layers;
}

std::int32_t fullest_chunk(const Job& job, const ImportedConfiguration& c, const Schedule& schedule) {
  const std::vector<std::int32_t> blocks = stated_blocks(job, c);
  return blocks.empty() ? fullest_of_engine(job, c, schedule) : *std::max_element(blocks.begin(), blocks.end());
}

/// Returns the strategy as rules of the space judge it; they only cover the engine's own split.
Strategy for_rules(const Job& job, const ImportedConfiguration& c, Strategy strategy, const Schedule& schedule) {
  Recompute& r = strategy.recompute;
  const std::int32_t all = r.kind == RecomputeKind::full ? fullest_of_engine(job, c, schedule) : 0;
  // Only torchtitan up to 0.2.1 recomputes every n-th block (selective_ac_option). The rules describe newer versions,
  // which have all or none.
  if (r.kind == RecomputeKind::full) r.layers = c.recompute_every ? all : std::min(r.layers, all);
  return strategy;
}

const EngineModel* engine_of(const Job& job) { return job.engine_model ? job.engine_model.get() : find_engine(job.engine); }

/// Sets the first and the last layer of every chunk from its blocks. The embedding joins the first chunk, the head
/// the last.
Status cut(const Job& job, const ImportedConfiguration& c, Pipeline& pipeline) {
  const std::vector<std::int32_t> blocks = stated_blocks(job, c);
  if (c.end_weights && blocks.empty())
    return Error{ErrorKind::bad_input, c.name,
                 cat("first and last stage with ", c.end_weights->first, " and ", c.end_weights->last, " fewer layers"),
                 cat("weights that leave each of the stages some of the ", job.model.blocks(), " layers"), ""};
  if (blocks.empty()) return {};
  const auto chunks =
      static_cast<std::size_t>(pipeline.schedule.stages) * static_cast<std::size_t>(pipeline.schedule.virtual_stages);
  const std::int64_t all = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
  const auto layers = static_cast<std::int32_t>(job.model.layers.size());
  if (blocks.size() != chunks || all != job.model.blocks() || layers != job.model.blocks() + 2)
    return Error{ErrorKind::bad_input, c.name, cat(all, " layers in ", static_cast<std::int64_t>(blocks.size()), " stages"),
                 cat(job.model.blocks(), " in ", static_cast<std::int64_t>(chunks), ", as the model and the degrees require"),
                 ""};
  const std::int32_t most = fullest_of_engine(job, c, pipeline.schedule);
  std::int32_t next = 0;
  for (std::size_t k = 0; k < chunks; ++k) {
    const ChunkPlace place = place_of_chunk(pipeline.schedule, static_cast<std::int32_t>(k));
    LayerRange& range =
        pipeline.stages[static_cast<std::size_t>(place.stage)].chunks[static_cast<std::size_t>(place.local_chunk)].ranges.front();
    const std::int32_t count = blocks[k] + (k == 0 ? 1 : 0) + (k + 1 == chunks ? 1 : 0);
    if (count == 0)
      return Error{ErrorKind::bad_input, c.name, cat("stage ", static_cast<std::int64_t>(k), " without a layer"),
                   "at least one in each", ""};
    range.first = next;
    range.last = next + count - 1;
    Recompute& r = range.strategy.recompute;
    if (c.recompute_every && blocks[k] <= r.layers)
      return Error{ErrorKind::bad_input, c.name,
                   cat("every ", *c.recompute_every, ". block recomputed, ", r.layers, " in the fullest stage, and a stage of ",
                       blocks[k]),
                   "stages of nearly equal size, or all or no blocks recomputed", "--recompute full or none"};
    // A shorter stage recomputes all of its blocks. One number for all stages is then enough, where the engine's own
    // split has that many in one stage.
    if (r.kind == RecomputeKind::full && r.layers > most) r.layers = std::min(r.layers, blocks[k]);
    if (r.kind == RecomputeKind::full && r.layers == 0) r = {};
    ESPALIER_CHECK(range.first <= range.last);
    next = range.last + 1;
  }
  ESPALIER_CHECK(next == layers);  // every layer is on one stage
  return {};
}

/// Rejects uneven stages. Megatron-LM cuts stages evenly unless the file sets the cut
/// (megatron/training/arguments.py:963, core 0.19.2), and asserts that it can.
Status uneven_layers(const Job& job, const ImportedConfiguration& c, const EngineModel& engine, const Pipeline& pipeline) {
  const std::int64_t chunks = pipeline.schedule.chunks();
  const bool core = engine.family == EngineFamily::megatron && engine.formats == std::vector<std::string>{"megatron-core"};
  if (!core || !c.blocks.empty() || job.model.blocks() % chunks == 0) return {};
  const std::string layout = megatron_layout(job.model, pipeline);
  return Error{
      ErrorKind::check_failed, c.name, cat("MEG-PP-LAYERS: ", job.model.blocks(), " layers in ", chunks, " equal stages"),
      "layers that divide evenly into the stages, as Megatron-LM asserts (megatron/training/arguments.py:963, core 0.19.2)",
      cat("--pipeline-model-parallel-layout '", layout,
          "' sets uneven stages, as do --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers")};
}

}  // namespace

std::string_view to_string(ImportedKey::Kind kind) {
  switch (kind) {
    case ImportedKey::Kind::read: return "read";
    case ImportedKey::Kind::defaulted: return "defaulted";
    case ImportedKey::Kind::without_effect: return "without effect";
    case ImportedKey::Kind::not_understood: return "not understood";
    case ImportedKey::Kind::not_modelled: return "known, not modelled";
  }
  return "";
}

const std::vector<ConfigurationFormat>& configuration_formats() {
  static const std::vector<ConfigurationFormat> rows{megatron_arguments(), torchtitan_configuration(), deepspeed_configuration(),
                                                     accelerate_configuration()};
  return rows;
}

const ConfigurationFormat* find_configuration_format(std::string_view name) {
  const auto& rows = configuration_formats();
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const ConfigurationFormat& row) { return row.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

namespace {

/// Returns the text of an input with the overrides for it applied.
Result<std::string> input_text(const std::string& file, const char* key, const std::vector<job::Override>& overrides,
                               std::string& path) {
  const auto found = job::find_input_file(file, key, "", cat("--", key));
  if (!found) return found.error();
  path = *found;
  auto text = base::read_file(path);
  if (!text || overrides.empty()) return text;
  auto document = base::read_yaml(*text, path);
  if (!document) return document.error();
  for (const job::Override& change : overrides) {
    if (change.path.size() < 2 || change.path.front() != key) continue;
    if (Status status = job::apply_override(document->root, change, 1); !status.ok()) return status.error();
  }
  return base::to_json(document->root);
}

Result<Cluster> cluster_of(const ConfigurationInputs& inputs) {
  const auto overrides = job::parse_overrides(inputs.overrides);
  if (!overrides) return overrides.error();
  std::string path;
  const auto text = input_text(inputs.cluster, "cluster", *overrides, path);
  if (!text) return text.error();
  auto cluster = load_cluster(*text, path, std::filesystem::path(path).parent_path().string());
  if (!cluster) return job::blame_override(cluster.error(), *overrides);
  return cluster;
}

/// Reads layers and fields of the model. For a model that cannot be read, job_of reports the error.
void take_model(const ConfigurationInputs& inputs, ConfigurationRequest& request) {
  request.model_state = ConfigurationRequest::ModelState::given;
  const auto overrides = job::parse_overrides(inputs.overrides);
  if (!overrides) return;
  std::string path;
  const auto text = input_text(inputs.model, "model", *overrides, path);
  if (!text) return;
  const auto document = base::read_json(*text, path);
  if (!document) return;
  for (Setting& field : settings_of(document->root))
    request.model_fields.emplace_back(std::move(field.key), std::move(field.value));
  if (const auto model = load_model(*text, path)) request.model_layers = model->blocks();
}

}  // namespace

Result<std::int64_t> devices_of(const ConfigurationInputs& inputs) {
  const auto cluster = cluster_of(inputs);
  if (!cluster) return cluster.error();
  return cluster->devices();
}

Status take_inputs(const ConfigurationInputs& inputs, ConfigurationRequest& request) {
  const auto cluster = cluster_of(inputs);
  if (!cluster) return cluster.error();
  request.devices = cluster->devices();
  const std::int64_t nodes = cluster->nodes();
  request.nodes = nodes;
  if (nodes > 0 && request.devices % nodes == 0) request.devices_per_node = request.devices / nodes;
  if (inputs.model.empty())
    request.model_state = ConfigurationRequest::ModelState::absent;
  else
    take_model(inputs, request);
  return {};
}

Result<Job> job_of(const ImportedConfiguration& c, const ConfigurationInputs& inputs) {
  if (inputs.model.empty() && c.model.empty())
    return Error{ErrorKind::bad_input, c.name, c.why_no_model, "a model", "--model config.json"};
  auto job = load_job(job_text(c, inputs), c.name, "", inputs.overrides);
  if (!job) {
    Error error = job.error();
    if (!c.why_no_model.empty() && inputs.model.empty()) error.hint = cat(c.why_no_model, "; --set model.vocab_size=N sets it");
    return error;
  }
  if (!inputs.model.empty())
    if (Status status = other_sizes(c, job->model); !status.ok()) return status.error();
  return job;
}

Strategy asked_strategy(const Job& job, const ImportedConfiguration& c) {
  Strategy s = c.strategy;
  if (!c.usual_overlap) return s;
  const Overlap usual = job::engine_defaults(job.engine).overlap;
  s.overlap.grad_reduce = usual.grad_reduce;
  s.overlap.param_gather = usual.param_gather;
  return s;
}

std::pair<Strategy, Schedule> completed_configuration(const Job& job, const ImportedConfiguration& c) {
  Strategy s = c.strategy;
  Schedule schedule = c.schedule;
  schedule.virtual_stages = virtual_stages(job, c);
  if (!has_experts(job.model)) s.etp = 1;
  if (s.etp == 0) s.etp = s.tp;
  if (s.recompute.kind == RecomputeKind::full && s.recompute.layers == 0) {
    const std::int32_t all = fullest_chunk(job, c, schedule);
    s.recompute.layers = c.recompute_every ? std::max(1, all / *c.recompute_every) : all;
  }
  complete_configuration(job, s, schedule);
  ESPALIER_CHECK(s.etp >= 1);
  if (s.data_ranks() == 1) {
    s.zero = ZeroStage::none;
    s.shard = 1;
    s.overlap.param_gather = false;
    if (!replicates_weights(has_experts(job.model), s)) s.overlap.grad_reduce = false;
  }
  if (!s.shards_optimizer()) s.overlap.param_gather = false;
  if (const EngineModel* engine = c.usual_overlap ? engine_of(job) : nullptr)
    s.overlap = job::usable_overlap(asked_strategy(job, c).overlap, *engine, job, s, schedule);
  return {s, schedule};
}

Result<Plan> plan_of(const Job& job, const ImportedConfiguration& c) {
  const EngineModel* engine = engine_of(job);
  if (engine == nullptr) return Error{ErrorKind::bad_input, c.name, cat("the engine ", job.engine), "a known engine", ""};
  const auto [strategy, schedule] = completed_configuration(job, c);
  if (Status status = planner::illegal(job, *engine, for_rules(job, c, strategy, schedule), schedule); !status.ok()) {
    Error error = status.error();
    error.kind = ErrorKind::check_failed;
    error.where = c.name;
    return error;
  }
  Plan plan = make_uniform_plan(job.model, job.cluster, job.training, engine->name, strategy, schedule, engine->split);
  Pipeline& pipeline = plan.only_pipeline();
  if (Status status = uneven_layers(job, c, *engine, pipeline); !status.ok()) return status.error();
  if (Status status = cut(job, c, pipeline); !status.ok()) return status.error();
  if (Status status = embed_job(job, plan); !status.ok()) return status.error();
  if (Status status = validate(plan); !status.ok()) return status.error();
  return plan;
}

}  // namespace espalier::exchange
