// SPDX-License-Identifier: Apache-2.0
#include "runs/mapping.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>

#include "base/era.h"
#include "base/facts.h"
#include "base/format.h"
#include "base/invariant.h"
#include "job/configuration.h"
#include "plan/engine.h"
#include "plan/rules.h"
#include "runs/mapper.h"
#include "runs/record_facts.h"
#include "runs/record_words.h"

namespace espalier::runs {

namespace {

bool is_recipe_of(const job::FrameworkDefault::Recipe& recipe, const RunRecord& record) {
  const auto holds = [](const std::string& text, const std::vector<std::string>& words) {
    return words.empty() || job::mentions(text, words);
  };
  return holds(record.model.name, recipe.model) && holds(record.gpu.type, recipe.gpu) && holds(record.table, recipe.table) &&
         holds(record.precision, recipe.precision);
}

constexpr std::int64_t kMostRank = 1 << 16;  // as of a job

/// Returns the recipe of a record, among those that satisfy `states`: the newest at or below its release. A record
/// without a release has the recipes of any release. Null where there is none.
template <class States>
const job::FrameworkDefault::Recipe* recipe_of(const job::FrameworkDefault& framework, const RunRecord& record,
                                               const States& states) {
  struct Row {
    base::Era era;
    const job::FrameworkDefault::Recipe* recipe;
  };
  const auto release = base::Version::parse(record.release);
  std::vector<Row> rows;
  for (const auto& recipe : framework.recipes)
    if (states(recipe) && is_recipe_of(recipe, record) && (release || !recipe.era.since)) rows.push_back({recipe.era, &recipe});
  const Row* newest = base::row_at(std::span<const Row>(rows), release);
  return newest == nullptr ? nullptr : newest->recipe;
}

/// Returns the published recipe whose options apply to a record that does not state its own; null where there is
/// none.
const job::FrameworkDefault::Recipe* published_options(const job::FrameworkDefault* framework, const RunRecord& record) {
  if (framework == nullptr || record.recipe_stated) return nullptr;
  return recipe_of(*framework, record, [](const auto& recipe) { return recipe.states_options; });
}

}  // namespace

RunMapping Mapper::map() {
  check_status();
  choose_framework();
  if (!skip_) map_cluster();
  if (!skip_) map_model();
  if (!skip_) map_training();
  if (!skip_) map_degrees();
  if (!skip_) map_zero();
  if (!skip_) map_recompute();
  if (!skip_) map_overlap();
  if (!skip_) map_state();
  if (!skip_) map_memory();
  if (!skip_) finish();
  if (skip_) return *skip_;
  return std::move(run_);
}

void Mapper::skip(std::string reason, std::string detail) {
  if (!skip_) skip_ = RunSkip{std::move(reason), std::move(detail)};
}

void Mapper::used(const char* field, std::string value, std::string source) {
  run_.defaults.push_back({field, std::move(value), std::move(source)});
}

const job::FrameworkDefault::Value* Mapper::framework_default(const char* field) {
  if (!framework_) return nullptr;
  const auto* recipe = recipe_of(*framework_, r_, [&](const auto& r) { return r.defaults.contains(field); });
  const auto* table = recipe != nullptr ? &recipe->defaults : &framework_->defaults;
  const auto it = table->find(field);
  if (it == table->end()) return nullptr;
  used(field, it->second.value, it->second.source);
  return &it->second;
}

std::int64_t Mapper::parse_count(const std::string& s) {
  std::int64_t value = 0;
  std::from_chars(s.data(), s.data() + s.size(), value);
  return value;
}

std::int64_t Mapper::count(const std::optional<std::int64_t>& value, const char* field) {
  if (!value) {
    if (const auto* d = framework_default(field)) return parse_count(d->value);
    skip(cat(field, " missing"));
    return 1;
  }
  if (*value < 1 || *value > (1 << 20)) skip(cat(field, " out of range"), std::to_string(*value));
  return std::max<std::int64_t>(1, *value);
}

std::int32_t Mapper::degree(const std::optional<std::int64_t>& value, const char* field) {
  return static_cast<std::int32_t>(count(value, field));
}

std::int32_t Mapper::unused_degree(const std::optional<std::int64_t>& value, const char* field) {
  if (value) return degree(value, field);
  used(field, "1", "not named in the record: not used");
  return 1;
}

void Mapper::check_status() {
  const std::string status = base::lower(r_.status);
  if (status.empty())
    used("status", "ok", "a record with a measurement and no status");
  else if (status != "ok" && status != "oom" && status != "crashed_or_oom")
    skip(cat("status ", status));
  if (job::mentions(r_.framework, {"hivemind", "asynchronous", "delayed averaging"}))
    skip("asynchronous training", "replicas average when a target batch is reached: there is no common step");
  // Several kinds of devices on one usual network would be another run.
  const RunMixture& mixture = r_.mixture;
  if (!mixture.groups.empty() && !mixture.network.stated() && (mixture.groups.size() > 1 || mixture.network.given))
    skip("device groups on an unknown network", "network has neither inter_gbps (or gbps) nor matrix");
  if (!r_.irregular.empty()) skip("not uniform", cat(r_.irregular, " has several values"));
  if (arguments_ && !arguments_->unsupported.empty()) skip("outside the uniform space", arguments_->unsupported);
  if (!r_.techniques.unknown.empty()) skip("technique unknown", r_.techniques.unknown);
  if (!r_.release.empty() && !base::Version::parse(r_.release)) skip("release unknown", r_.release);
  // Master weights in host memory change only the update (map_bytes.cpp).
  const bool update_alone = r_.mixture.network.stated() && job::mentions(r_.framework, {"dt-fm"});
  if (r_.techniques.offload && !update_alone && !r_.offloaded_blocks)
    skip("outside the uniform space", "activations or states are kept in host memory");
}

void Mapper::choose_framework() {
  const std::string details = cat(r_.framework, " ", r_.precision, r_.techniques.compile ? " torch.compile" : "");
  for (const job::FrameworkDefault& f : all_.frameworks) {
    if (!job::mentions(r_.framework, f.match) || (!f.gpu.empty() && !job::mentions(r_.gpu.type, f.gpu))) continue;
    if (!f.with.empty() && !says(details, f.with, record_dictionary().denied)) continue;
    framework_ = &f;
    break;
  }
  run_.job.engine = framework_ ? framework_->engine : "generic";
  choose_memory();
  if (!framework_) {
    used("engine", "generic", r_.framework.empty() ? "no framework named" : cat("no engine modelled for ", r_.framework));
    return;
  }
  const bool unfused = choose_attention();
  switch_options_on();
  if (!arguments_) return;
  auto engine = std::make_shared<EngineModel>(*find_engine(run_.job.engine));
  apply_memory_flags(r_, unfused, *engine);
  run_.job.engine_model = std::move(engine);
  used("engine flags", run_.job.engine, "flags of the record: attention, gradients, vocabulary padding, workspaces");
}

bool Mapper::choose_attention() {
  if (!arguments_ || run_.job.engine != "megatron-core" || r_.cp.value_or(1) > 1) return false;
  if (arguments_->unfused_attention) {
    run_.job.engine = "megatron-core-unfused";
    used("engine", run_.job.engine, "--attention-backend unfused or local stores the scores");
    return true;
  }
  if (!arguments_->deterministic) return false;
  const auto* found = framework_default("attention_if_deterministic");
  if (found == nullptr || found->value != "unfused") return false;
  run_.job.engine = "megatron-core-unfused";
  return true;
}

void Mapper::switch_options_on() {
  std::vector<std::string> on = r_.techniques.options;
  std::string source = "switches of the record's recipe";
  if (const auto* recipe = published_options(framework_, r_); recipe != nullptr && !recipe->options.empty()) {
    on.insert(on.end(), recipe->options.begin(), recipe->options.end());
    source = recipe->source;
  }
  std::string name = run_.job.engine;
  const EngineModel& engine = *find_engine(name);
  for (const EngineOption& option : engine.options)
    if (std::find(on.begin(), on.end(), option.name) != on.end()) name.append("+").append(option.name);
  if (name == run_.job.engine) return;
  ESPALIER_CHECK(find_engine(name) != nullptr);  // options in the order of the catalogue name one of its engines
  run_.job.engine = name;
  used("engine", name, source);
}

bool Mapper::holds(const job::FrameworkDefault::State& state) const {
  const Strategy& s = run_.strategy;
  const std::int64_t stages = run_.schedule.stages;
  const std::int64_t micro_batches =
      run_.job.training.global_batch / std::max<std::int64_t>(1, std::int64_t{run_.schedule.micro_batch} * s.dp);
  const auto at_most = [](std::int64_t value, std::int64_t bound) { return bound == 0 || value <= bound; };
  return job::mentions(r_.source, state.sources) && run_.job.cluster.devices() >= state.devices_from && s.tp >= state.tp_from &&
         at_most(s.tp, state.tp_to) && stages >= state.stages_from && at_most(stages, state.stages_to) &&
         s.dp >= state.replicas_from && micro_batches >= state.microbatches_from &&
         (state.zero < 0 || static_cast<std::int64_t>(s.zero) == state.zero);
}

void Mapper::map_state() {
  if (framework_ == nullptr) return;
  for (const job::FrameworkDefault::State& state : framework_->states) {
    if (run_.job.engine.find("+" + state.option) != std::string::npos || !holds(state)) continue;
    run_.job.engine.append("+").append(state.option);
    if (find_engine(run_.job.engine) == nullptr) return skip("engine without the state of these runs", run_.job.engine);
    used("engine", run_.job.engine, state.source);
  }
}

void Mapper::map_memory() {
  const auto bytes_of = [this](const char* field) {
    const auto* d = framework_default(field);
    return d ? std::optional(static_cast<std::int32_t>(parse_count(d->value))) : std::nullopt;
  };
  if (const auto bytes = bytes_of("optimizer_bytes")) own_engine().memory.states.optimizer = *bytes;
  if (const auto bytes = bytes_of("master_bytes")) own_engine().memory.states.master = *bytes;
  std::optional<std::int64_t> blocks = r_.offloaded_blocks;
  if (blocks) used("activations", cat("of ", *blocks, " blocks in host memory"), "extra.recipe.cpu_offloading_num_layers");
  if (!blocks && r_.fsdp.value_or(false) && !r_.recipe_stated) blocks = bytes_of("offloaded_blocks");
  if (!blocks) return;
  const auto all = static_cast<double>(std::max<std::int64_t>(1, run_.job.model.blocks()));
  EngineModel& engine = own_engine();
  engine.memory.offloaded_activations = std::min(1.0, static_cast<double>(*blocks) / all);
  engine.memory.blocks_on_device = 0;
  engine.runs.offload_activations = ActivationOffload::any;
  Offload& offload = run_.strategy.offload;
  offload = offloads_optimizer(offload) ? Offload::optimizer_activations : Offload::activations;
  for (NodeGroup& group : run_.job.cluster.groups) {
    if (group.host.known()) continue;
    const auto devices = static_cast<double>(group.devices_per_node);
    const base::Facts& facts = base::shipped_facts();
    group.host.memory = Bytes(static_cast<std::int64_t>(facts.value("grace_memory") * devices));
    group.host.memory_bandwidth = BytesPerSecond(facts.value("grace_memory_bandwidth") * devices);
    group.host.link = BytesPerSecond(facts.value("grace_link"));
    used("host", "half a Grace per device: 240 GB, 256 GB/s, 225 GB/s each way",
         "the catalogue has no host for this device; NVLink-C2C of GB200 has 900 GB/s in both directions for two devices");
  }
}

void Mapper::choose_memory() {
  if (framework_) {
    run_.memory_rank = framework_->memory_rank;
    run_.memory_kind = framework_->memory_kind;
    run_.memory_unit_bytes = framework_->memory_unit_bytes;
  }
  if (!r_.measured.memory_rank.empty()) run_.memory_rank = base::lower(r_.measured.memory_rank);
  const std::string& words = r_.measured.memory_kind;
  if (const auto kind = read_memory_words(words, record_dictionary()))
    run_.memory_kind = to_string(*kind);
  else if (!words.empty())
    unknown_memory("memory kind", words);
  if (run_.memory_rank != "fullest" && run_.memory_rank != "first" && run_.memory_rank != "last")
    unknown_memory("memory rank", run_.memory_rank);
  if (r_.measured.memory_unit == "GiB") run_.memory_unit_bytes = 1073741824.0;
  if (r_.measured.memory_unit == "GB") run_.memory_unit_bytes = 1e9;
}

void Mapper::unknown_memory(const char* what, const std::string& words) {
  run_.peak_comparable = false;
  used("peak memory", "not compared", cat(what, " not known: ", words));
}

void Mapper::map_packed() {
  if (!r_.techniques.packed) return;
  if (framework_ == nullptr || framework_->packed_tokens == 0)
    return used("packed sequences", "as one long sequence", "their length is unknown for this framework");
  run_.job.training.lengths = {{{framework_->packed_tokens, 1}}, Packing::packed};
  used("packed sequences", cat(framework_->packed_tokens, " tokens each"), framework_->packed_source);
}

void Mapper::map_masked_tokens() {
  if (framework_ == nullptr || framework_->masked_share <= 0 || run_.job.model.family != "encoder") return;
  const double tokens = std::ceil(framework_->masked_share * static_cast<double>(run_.job.training.sequence.main));
  for (LayerKind& kind : run_.job.model.kinds) {
    if (kind.role != LayerRole::head) continue;
    kind.stream = TokenStream::fixed;
    kind.fixed_tokens = kind.boundary_tokens_fixed = static_cast<std::int64_t>(tokens);
  }
  used("tokens of the head", base::fixed(tokens, 0), framework_->masked_source);
}

void Mapper::map_training() {
  Training& t = run_.job.training;
  t.sequence.main = count(r_.seq, "seq");
  if (framework_ && t.sequence.main == framework_->binned_from) {
    t.sequence.main = framework_->binned_to;
    used("seq", std::to_string(framework_->binned_to), framework_->binned_source);
  }
  map_masked_tokens();
  map_packed();
  t.global_batch = count(r_.global_batch, "global_batch");
  const FrozenReading weights = read_frozen_words(r_.precision, record_dictionary());
  if (r_.techniques.lora) map_adapters();
  if (skip_) return;
  if (!weights.unknown.empty())
    return skip("type of frozen weights unknown", cat(weights.unknown, ": training.adapter.quantize_base has nf4 and int8"));
  if (weights.type != FrozenType::compute && !t.adapter.any()) return skip("frozen weights without adapters", r_.precision);
  t.adapter.base = weights.type;
  if (!weights.note.empty()) used("frozen weights", std::string(to_string(weights.type)), weights.note);
  map_precision(weights.precision);
}

void Mapper::map_adapters() {
  Training& t = run_.job.training;
  if (r_.adapter.targets.empty()) return skip("adapter missing", "LoRA without the rank and the targets of its adapters");
  const std::int64_t rank = count(r_.adapter.rank, "adapter.rank");
  if (skip_) return;
  if (rank > kMostRank) return skip("unknown adapters", "a rank above 65536");
  t.adapter.rank = static_cast<std::int32_t>(rank);
  t.adapter.targets = r_.adapter.targets;
  if (!r_.adapter.source.empty())
    used("trained weights", cat("adapters of rank ", rank, " on ", t.adapter.targets.front()), r_.adapter.source);
  if (Status status = mark_trained(run_.job.model, t, "training"); !status.ok()) skip("unknown adapters", status.error().found);
}

void Mapper::map_precision(std::string precision) {
  Training& t = run_.job.training;
  if (precision.empty()) {
    const auto* d = framework_default("precision");
    if (!d) return skip("precision missing");
    precision = d->value;
  }
  const PrecisionReading words = read_precision_words(precision);
  if (!words.unknown.empty()) return skip("precision unknown", words.unknown);
  t.precision = *words.precision;
  if (run_.job.cluster.groups.front().device.peak_of(t.precision).count() <= 0) {
    skip("precision not supported by the device",
         cat(to_string(t.precision), " on ", run_.job.cluster.groups.front().device.name));
  }
}

void Mapper::finish() {
  map_tensor_groups();
  if (r_.techniques.offload && !r_.offloaded_blocks) map_update_in_host_memory();
  complete_configuration(run_.job, run_.strategy, run_.schedule);
  check_bytes_of_zero3();
  if (skip_) return;
  run_.job.model_source = cat("{\"record\": \"", content_name(), "\"}");
  run_.job.cluster.name = r_.gpu.type;
  const auto broken = violations(run_.job.model, run_.job.cluster, run_.job.training, run_.strategy, run_.schedule,
                                 find_engine(run_.job.engine)->split);
  if (!broken.empty()) return skip(cat("rule ", broken.front().rule), job::joined_violations(broken));
  place_run();
}

std::string Mapper::content_name() const {
  std::string out;
  for (char c : r_.id) {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.') out += c;
  }
  return out;
}

RunMapping map_run(const RunRecord& record, const job::RunDefaults& defaults) { return Mapper(record, defaults).map(); }

}  // namespace espalier::runs
