// SPDX-License-Identifier: Apache-2.0
#include "plan/engine_reader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "plan/engine.h"

namespace espalier {
namespace {

using Words = std::vector<std::string_view>;

constexpr std::int32_t kMany = 1 << 20;

/// Returns the texts of a list; an error and nothing if the key holds something else.
std::vector<std::string> texts(Reader& r, std::string_view key) {
  std::vector<std::string> out;
  const Node* node = r.find(key);
  if (node == nullptr) return out;
  if (node->kind != NodeKind::sequence) r.fail(key, "", "a list");
  for (const Node& item : node->items) {
    if (item.kind != NodeKind::string && item.kind != NodeKind::integer) r.fail(key, "", "a list of words or numbers");
    out.push_back(item.text);
  }
  return out;
}

/// Returns the value with this name; an error and 0 if there is none.
std::int64_t value_named(Reader& r, std::string_view key, Dimension d, const std::string& word) {
  std::vector<std::string> known;
  for (std::int64_t v = 0; v < value_count(d); ++v) known.push_back(value_text(d, v));
  const auto at = std::find(known.begin(), known.end(), word);
  if (at != known.end()) return at - known.begin();
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  r.fail(key, word, cat("one of ", list));
  return 0;
}

template <class T>
void read_list(Reader& r, std::string_view key, Dimension d, std::vector<T>& out) {
  if (!r.has(key)) return;
  out.clear();
  for (const std::string& word : texts(r, key)) out.push_back(static_cast<T>(value_named(r, key, d, word)));
}

template <class T>
void read_word(Reader& r, std::string_view key, const Words& words, T& out) {
  out = static_cast<T>(r.optional_choice(key, words, static_cast<std::size_t>(out)));
}

void read_flag(Reader& r, std::string_view key, bool& out) { out = r.optional_bool(key, out); }
void read_count(Reader& r, std::string_view key, std::int32_t& out) {
  out = static_cast<std::int32_t>(r.optional_int(key, 0, kMany, out));
}
void read_real(Reader& r, std::string_view key, double high, double& out) { out = r.optional_real(key, 0, high, out); }

void read_precisions(Reader& r, std::vector<Precision>& out) {
  if (!r.has("precisions")) return;
  out.clear();
  for (const std::string& word : texts(r, "precisions")) {
    const auto precision = parse_precision(word);
    if (!precision)
      r.fail("precisions", word, "fp32, tf32, fp16, bf16, fp8, mxfp8 or nvfp4");
    else
      out.push_back(*precision);
  }
}

void read_modules(Reader& r, std::string_view key, RecomputeModules& out) {
  if (!r.has(key)) return;
  out = {};
  for (const std::string& word : texts(r, key)) {
    const auto module = parse_recompute_module(word);
    if (!module) r.fail(key, word, "names of modules of a block: core_attn, layernorm, act, mlp, moe, moe_act, …");
    if (module) out.add(*module);
  }
}

void read_runs(Reader& r, EngineRuns& e) {
  read_list(r, "schedules", Dimension::schedule, e.schedules);
  read_list(r, "zero", Dimension::zero, e.zero);
  read_list(r, "orders", Dimension::order, e.orders);
  read_list(r, "cp_kinds", Dimension::cp_kind, e.cp_kinds);
  for (const auto& [key, flag] :
       std::initializer_list<std::pair<std::string_view, bool*>>{{"hybrid_shard", &e.hybrid_shard},
                                                                 {"zero_with_pipeline", &e.zero_with_pipeline},
                                                                 {"ulysses", &e.ulysses},
                                                                 {"context_parallel", &e.context_parallel},
                                                                 {"tensor_parallel", &e.tensor_parallel},
                                                                 {"pipeline", &e.pipeline},
                                                                 {"expert_parallel", &e.expert_parallel},
                                                                 {"uneven_stages", &e.uneven_stages},
                                                                 {"selective_recompute", &e.selective_recompute},
                                                                 {"partial_recompute", &e.partial_recompute},
                                                                 {"operator_partitions", &e.operator_partitions},
                                                                 {"listed_devices", &e.listed_devices},
                                                                 {"fused_bucket_overlap", &e.fused_bucket_overlap},
                                                                 {"zero_grad_overlap", &e.zero_grad_overlap},
                                                                 {"overlap_param_gather", &e.overlap_param_gather},
                                                                 {"overlap_p2p", &e.overlap_p2p},
                                                                 {"overlap_tp", &e.overlap_tp},
                                                                 {"frozen_weights", &e.frozen_weights},
                                                                 {"packed_sequences", &e.packed_sequences},
                                                                 {"offload_optimizer", &e.offload_optimizer},
                                                                 {"offload_parameters", &e.offload_parameters},
                                                                 {"expert_tensor_parallel", &e.expert_tensor_parallel},
                                                                 {"megatron_sequence", &e.megatron_sequence},
                                                                 {"copies_kv_heads", &e.copies_kv_heads},
                                                                 {"beyond_context", &e.beyond_context},
                                                                 {"chooses_overlap", &e.chooses_overlap}})
    read_flag(r, key, *flag);
  read_precisions(r, e.precisions);
  read_modules(r, "recompute_modules", e.recompute_modules);
  read_word(r, "offload_activations", {"none", "any", "checkpoints", "one-pipeline"}, e.offload_activations);
}

void read_states(Reader r, StatePolicy& s) {
  read_count(r, "parameter", s.parameter);
  read_count(r, "gradient", s.gradient);
  read_count(r, "master", s.master);
  read_count(r, "optimizer", s.optimizer);
  read_count(r, "reduce", s.reduce);
  read_count(r, "gather", s.gather);
  read_flag(r, "frees_reduced", s.frees_reduced);
  read_count(r, "autograd", s.autograd);
  read_count(r, "host_gradient", s.host_gradient);
  r.finish();
}

/// Reads four numbers, one for each ZeRO stage.
void read_stages(Reader& r, std::string_view key, ByStage& out) {
  const Node* node = r.find(key);
  if (node == nullptr) return;
  if (node->kind != NodeKind::sequence || node->items.size() != out.size())
    return r.fail(key, "", "a list of four numbers, one for each ZeRO stage");
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Node& item = node->items[i];
    if (item.kind != NodeKind::integer || item.integer < 0 || item.integer > kMany)
      return r.fail(key, item.text, "whole numbers from 0 on");
    out[i] = static_cast<std::int32_t>(item.integer);
  }
}

void read_zero(Reader r, ZeroPolicy& z) {
  z.bucket = r.optional_int("bucket", 0, kMostElements, z.bucket);
  read_stages(r, "buckets", z.buckets);
  read_stages(r, "overlapped_buckets", z.overlapped_buckets);
  read_stages(r, "bucket_copies", z.bucket_copies);
  read_stages(r, "whole", z.whole);
  read_stages(r, "update", z.update);
  read_stages(r, "norm", z.norm);
  z.update_elements = r.optional_int("update_elements", 0, kMostElements, z.update_elements);
  z.live = r.optional_int("live", -1, kMostElements, z.live);
  z.reuse = r.optional_int("reuse", 0, kMostElements, z.reuse);
  r.finish();
}

void read_loss(Reader r, LossPolicy& l) {
  read_count(r, "saved", l.saved);
  read_count(r, "forward", l.forward);
  read_count(r, "backward", l.backward);
  read_count(r, "deferred", l.deferred);
  read_count(r, "chunk", l.chunk);
  read_count(r, "chunks", l.chunks);
  if (l.chunks < 1) r.fail("chunks", std::to_string(l.chunks), "at least 1");
  r.finish();
}

void read_workspace(Reader r, WorkspacePolicy& w) {
  read_count(r, "cublas", w.cublas);
  read_flag(r, "deterministic", w.deterministic);
  read_count(r, "transformer_engine", w.transformer_engine);
  r.finish();
}

void read_memory(Reader& r, EngineMemory& e) {
  read_word(r, "activations", {"megatron-2022-unfused", "fused-attention"}, e.activations);
  if (r.has("states")) read_states(r.child("states", true), e.states);
  if (r.has("zero")) read_zero(r.child("zero", true), e.zero);
  if (r.has("loss")) read_loss(r.child("loss", true), e.loss);
  if (r.has("workspace")) read_workspace(r.child("workspace", true), e.workspace);
  read_flag(r, "copies_attention_output", e.copies_attention_output);
  read_real(r, "offloaded_activations", 1, e.offloaded_activations);
  read_count(r, "blocks_on_device", e.blocks_on_device);
  read_flag(r, "eager_gate", e.eager_gate);
  read_flag(r, "splits_adapters", e.splits_adapters);
  read_flag(r, "weighs_inside_experts", e.weighs_inside_experts);
  read_flag(r, "keeps_score_buffer", e.keeps_score_buffer);
  read_flag(r, "eight_bit_activations", e.eight_bit_activations);
  read_modules(r, "selective", e.selective);
  read_flag(r, "fuses_norms", e.fuses_norms);
  read_real(r, "allocator_reserve", 1, e.allocator_reserve);
  e.vocabulary_multiple = static_cast<std::int32_t>(r.optional_int("vocabulary_multiple", 1, kMany, e.vocabulary_multiple));
}

void read_kernels(Reader& r, EngineKernels& e) {
  read_word(r, "attention_kernel", {"vendor", "flash2", "flash1", "sdpa"}, e.attention_kernel);
  read_real(r, "host_launches", 1000, e.host_launches);
  read_real(r, "graphed_launches", 1, e.graphed_launches);
  read_flag(r, "looped_experts", e.looped_experts);
  read_flag(r, "fused_experts", e.fused_experts);
  read_real(r, "elementwise_traffic", 100, e.elementwise_traffic);
  read_real(r, "loss_forward_bytes", 1000, e.loss_forward_bytes);
  read_real(r, "loss_backward_bytes", 1000, e.loss_backward_bytes);
  read_real(r, "gather_copy_bytes", 1000, e.gather_copy_bytes);
  read_real(r, "reduce_copy_bytes", 1000, e.reduce_copy_bytes);
  read_real(r, "update_copy_bytes", 1000, e.update_copy_bytes);
}

void read_communication(Reader& r, EngineCommunication& e) {
  read_flag(r, "scattered_messages", e.scattered_messages);
  read_flag(r, "deduplicates_dispatch", e.deduplicates_dispatch);
  read_flag(r, "overlaps_experts", e.overlaps_experts);
  read_flag(r, "blocking_tensor", e.blocking_tensor);
  read_flag(r, "weights_stay", e.weights_stay);
  read_flag(r, "overlaps_offload", e.overlaps_offload);
}

void read_eager(Reader& r, EngineEager& e) {
  read_flag(r, "copies_rotated", e.copies_rotated);
  read_count(r, "queued_blocks", e.queued_blocks);
  read_real(r, "eager_launches", 1000, e.eager_launches);
  read_flag(r, "fused_gradient_accumulation", e.fused_gradient_accumulation);
  read_real(r, "whole_gradient_bytes", 1000, e.whole_gradient_bytes);
  read_flag(r, "zero1_all_reduces", e.zero1_all_reduces);
  read_real(r, "reduce_bucket_bytes", 1e12, e.reduce_bucket_bytes);
  read_count(r, "message_host_calls", e.message_host_calls);
  read_real(r, "message_block_s", 60, e.message_block_s);
}

/// Holds the statements of one part in the order of their eras, which is that of the file within an era.
struct Statements {
  std::vector<std::pair<base::Era, Reader>> rows;

  /// Adds a statement. Nothing may be stated twice in one era.
  void add(Reader& r) {
    base::Era era = base::read_era(r);
    auto at = rows.end();
    while (at != rows.begin() && base::begins_before(era, std::prev(at)->first)) --at;
    for (const auto& [other, row] : rows)
      for (const auto& [name, value] : r.node().members)
        if (!is_about(name) && row.node().find(name) != nullptr && base::overlap(other, era))
          r.fail(name, cat(name, " a second time"), "one statement per field and era");
    rows.emplace(at, std::move(era), r);
  }
  static bool is_about(std::string_view key) { return key == "source" || key == "since" || key == "until"; }
};

/// Reads the statements of one part that hold at a version, each with its source. Later ones are read as well, for
/// their errors.
template <class Part>
void read_part(Reader& engine, std::string_view key, const std::optional<base::Version>& version, Part& part,
               void (*read)(Reader&, Part&)) {
  Statements statements;
  engine.each(key, false, [&](Reader& r) {
    (void)r.required_string("source");
    statements.add(r);
  });
  for (auto& [era, r] : statements.rows) {
    Part later = part;
    read(r, base::begins_by(era, version) ? part : later);
    r.finish();
  }
}

std::vector<std::vector<std::int64_t>> read_sets(Reader& r, std::string_view key, Dimension d) {
  std::vector<std::vector<std::int64_t>> out;
  const Node* node = r.find(key);
  if (node == nullptr) return out;
  if (node->kind != NodeKind::sequence) r.fail(key, "", "a list of lists of values");
  for (const Node& set : node->items) {
    if (set.kind != NodeKind::sequence || set.items.empty()) r.fail(key, "", "a list of lists of values");
    out.emplace_back();
    for (const Node& item : set.items) out.back().push_back(value_named(r, key, d, item.text));
  }
  return out;
}

void read_per_layer(Reader r, LayerFreedom& f) {
  (void)r.required_string("source");
  const std::vector<Dimension> known = layer_dimensions();
  for (const std::string& word : texts(r, "differ_in")) {
    const auto d = parse_dimension(word);
    if (word == "partition")
      f.partition = true;
    else if (d && std::find(known.begin(), known.end(), *d) != known.end())
      f.differ_in |= bit(*d);
    else
      r.fail("differ_in", word,
             "dimensions in which layers can differ: tp, sp, cp, cp_kind, ep, etp, zero, shard, order, recompute, partition");
  }
  Reader together = r.child("together", false);
  f.zero_together = read_sets(together, "zero", Dimension::zero);
  f.sp_together = read_sets(together, "sp", Dimension::sp);
  together.finish();
  read_flag(r, "embedding_as_head", f.embedding_as_head);
  r.finish();
}

void read_per_stage(Reader r, LayerFreedom& f) {
  (void)r.required_string("source");
  for (const std::string& word : texts(r, "differ_in")) {
    if (word != "layers") r.fail("differ_in", word, "layers");
    f.any_stage = true;
  }
  read_flag(r, "blocks_everywhere", f.blocks_everywhere);
  r.finish();
}

/// Reads the freedom of an engine's layers and stages, which replaces that of the engine that it is `like`.
void read_freedom(Reader& r, EngineModel& e) {
  if (r.has("per_layer")) {
    LayerFreedom own;
    own.any_stage = e.layers.any_stage;
    own.blocks_everywhere = e.layers.blocks_everywhere;
    e.layers = std::move(own);
    read_per_layer(r.child("per_layer", true), e.layers);
  }
  if (r.has("per_stage")) {
    e.layers.any_stage = e.layers.blocks_everywhere = false;
    read_per_stage(r.child("per_stage", true), e.layers);
  }
  const bool layers = e.layers.differ_in != 0 || e.layers.partition;
  if (layers && e.runs.pipeline && !e.layers.any_stage)
    r.fail("per_layer", "layers that may differ in a pipeline whose stages may not",
           "per_stage: {differ_in: [layers]}, or pipeline: false");
}

/// Reads the models that it trains, and the formats that write its plans.
void read_reach(Reader& r, EngineModel& e) {
  if (r.has("models")) {
    Reader models = r.child("models", true);
    (void)models.required_string("source");
    e.model_types = texts(models, "types");
    const std::vector<std::string> known = known_model_families();
    for (const std::string& type : e.model_types)
      if (std::find(known.begin(), known.end(), type) == known.end()) models.fail("types", type, "known model types");
    models.finish();
  }
  if (r.has("formats")) e.formats = texts(r, "formats");
  if (r.has("unwritten")) e.unwritten = r.required_string("unwritten");
}

/// Holds an engine, and the nodes of its options in the order of EngineModel::options.
struct Entry {
  EngineModel model;
  std::vector<Node> options;
};

/// Applies the statements of an engine or option that hold at a version. They replace earlier ones.
void read_parts(Reader& r, const std::optional<base::Version>& version, EngineModel& e) {
  read_part(r, "runs", version, e.runs, read_runs);
  read_part(r, "memory", version, e.memory, read_memory);
  read_part(r, "kernels", version, e.kernels, read_kernels);
  read_part(r, "communication", version, e.communication, read_communication);
  read_part(r, "eager", version, e.eager, read_eager);
  e.runs.chooses_modules = e.memory.selective != e.runs.recompute_modules && e.memory.selective != kPerOperator;
}

/// Returns the number of an engine that the value of an option sets; null if there is none of this name.
std::int64_t* number_of(EngineModel& e, std::string_view name) {
  ZeroPolicy& z = e.memory.zero;
  for (const auto& [known, number] :
       std::initializer_list<std::pair<std::string_view, std::int64_t*>>{{"zero.bucket", &z.bucket},
                                                                         {"zero.update_elements", &z.update_elements},
                                                                         {"zero.live", &z.live},
                                                                         {"zero.reuse", &z.reuse}})
    if (known == name) return number;
  return nullptr;
}

/// Reads the options. An option inherited from another engine (`like`) is replaced by one of the same name.
void read_options(Reader& engine, Entry& entry) {
  std::set<std::string> own;
  engine.each("options", false, [&](Reader& r) {
    EngineOption option{r.required_string("name"), r.required_string("note")};
    read_flag(r, "numerics", option.numerics);
    read_flag(r, "script", option.script);
    option.flags = texts(r, "flags");
    option.sets = r.optional_string("sets", "");
    if (option.name.empty() || option.name.find_first_of("+=") != std::string::npos)
      r.fail("name", option.name, "a word without + and =");
    if (!option.sets.empty() && number_of(entry.model, option.sets) == nullptr)
      r.fail("sets", option.sets, "zero.bucket, zero.update_elements, zero.live or zero.reuse");
    if (!own.insert(option.name).second) r.fail("name", cat(option.name, " a second time"), "one entry per option");
    std::size_t at = 0;
    while (at < entry.model.options.size() && entry.model.options[at].name != option.name) ++at;
    EngineModel tried = entry.model;
    read_parts(r, std::nullopt, tried);
    r.finish();
    if (at == entry.model.options.size()) {
      entry.model.options.emplace_back();
      entry.options.emplace_back();
    }
    entry.model.options[at] = option;
    entry.options[at] = r.node();
  });
}

/// Holds a version at which statements of an engine begin, and the first of them by its path; without a version: the
/// time before all of them.
struct Boundary {
  std::optional<base::Version> version;
  std::string statement;
};

/// Returns the boundaries between the eras of an engine's own statements, in the order of the file.
std::vector<Boundary> boundaries(const Node& engine) {
  std::vector<Boundary> out;
  for (const char* part : {"runs", "memory", "kernels", "communication", "eager"}) {
    const Node* statements = engine.find(part);
    if (statements == nullptr) continue;
    for (std::size_t i = 0; i < statements->items.size(); ++i) {
      const Node* since = statements->items[i].find("since");
      if (since == nullptr) continue;
      if (out.empty()) out.push_back({std::nullopt, cat(part, "[", i, "]")});
      out.push_back({base::Version::parse(since->text), cat(part, "[", i, "]")});
    }
  }
  return out;
}

/// Returns the versions at which an engine's own statements begin, rising.
std::vector<base::Version> eras_of(const Node& engine) {
  std::vector<base::Version> out;
  for (const Boundary& at : boundaries(engine))
    if (at.version) out.push_back(*at.version);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Entry read_engine(Reader& r, const std::vector<Entry>& before, const std::optional<base::Version>& version) {
  Entry entry;
  EngineModel& e = entry.model;
  const std::string name = r.required_string("name");
  const auto known = [&](const std::string& other) {
    return std::find_if(before.begin(), before.end(), [&](const Entry& b) { return b.model.name == other; });
  };
  if (known(name) != before.end()) r.fail("name", cat(name, " a second time"), "one entry per engine");
  if (name.find_first_of("+@") != std::string::npos)
    r.fail("name", name, "a word without + and @, which join options and versions to engines");
  if (r.has("like")) {
    const std::string like = r.required_string("like");
    if (known(like) == before.end())
      r.fail("like", like, "the name of an earlier engine");
    else
      entry = *known(like);
    e.planned = false;
    e.fitted_as.clear();
    e.like = like;
  }
  e.name = e.base = name;
  e.version = version;
  e.eras = eras_of(r.node());
  e.facts = engine_facts(base::shipped_facts(), {name, version});
  e.note = r.required_string("note");
  e.also = r.has("also") ? texts(r, "also") : std::vector<std::string>{};
  read_word(r, "family",
            {"generic", "megatron", "megatron-deepspeed", "deepspeed", "fsdp", "torchtitan", "nanotron", "galvatron", "espalier"},
            e.family);
  read_flag(r, "planned", e.planned);
  if (r.has("fitted_as")) e.fitted_as = r.required_string("fitted_as");
  if (r.has("split")) {
    Reader split = r.child("split", true);
    (void)split.required_string("source");
    read_word(split, "policy", {"balanced", "even-blocks", "cumulative"}, e.split);
    split.finish();
  }
  read_parts(r, version, e);
  read_freedom(r, e);
  read_reach(r, e);
  read_options(r, entry);
  if (e.runs.schedules.empty()) r.fail("runs", "no schedules", "at least one, like schedules: [1f1b]");
  if (e.runs.zero.empty()) r.fail("runs", "no ZeRO stages", "at least one, like zero: [0]");
  r.finish();
  return entry;
}

}  // namespace

namespace {

/// Returns an engine of the file at a version, without options.
EngineModel engine_at(const EngineFile& file, std::size_t place, const base::Version& version) {
  std::vector<Entry> before;
  for (std::size_t i = 0; i < place; ++i) before.push_back({file.engines[i], file.options[i]});
  base::ErrorSink sink;
  Reader r(*file.document, file.entries[place], cat("$.engines.", file.engines[place].base), sink);
  EngineModel out = read_engine(r, before, version).model;
  ESPALIER_CHECK(sink.ok());  // checked_eras has read it
  out.name.append("@").append(version.text());
  return out;
}

/// Returns whether an engine states an option itself; else it has inherited it.
bool states_option(const Node& engine, std::string_view name) {
  const Node* options = engine.find("options");
  if (options == nullptr) return false;
  return std::any_of(options->items.begin(), options->items.end(), [&](const Node& option) {
    const Node* own = option.find("name");
    return own != nullptr && own->text == name;
  });
}

/// Reads an engine in each of its eras; an error where one contradicts itself, though the newest does not.
Status checked_eras(const EngineFile& file, std::size_t place) {
  std::vector<Entry> before;
  for (std::size_t i = 0; i < place; ++i) before.push_back({file.engines[i], file.options[i]});
  for (const Boundary& at : boundaries(file.entries[place])) {
    base::ErrorSink sink;
    Reader r(*file.document, file.entries[place], cat("$.engines.", file.engines[place].base), sink);
    (void)read_engine(r, before, at.version ? at.version : base::Version::parse("0"));
    if (sink.ok()) continue;
    Error error = sink.first().error();
    error.found += at.version ? cat(" at version ", at.version->text(), ", where ", at.statement, " begins")
                              : cat(" before the version at which ", at.statement, " begins");
    return error;
  }
  return {};
}

}  // namespace

Result<EngineFile> read_engines(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader root = Reader::root(*document, sink);
  const std::string schema = root.required_string("schema");
  if (schema != "espalier.engines/1") root.fail("schema", schema, "espalier.engines/1");
  std::vector<Entry> entries;
  EngineFile out;
  root.each("engines", true, [&](Reader& r) {
    entries.push_back(read_engine(r, entries, std::nullopt));
    out.entries.push_back(r.node());
  });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  for (Entry& entry : entries) {
    out.engines.push_back(std::move(entry.model));
    out.options.push_back(std::move(entry.options));
  }
  out.document = std::make_shared<const base::Document>(std::move(*document));
  for (std::size_t place = 0; place < out.engines.size(); ++place)
    if (Status eras = checked_eras(out, place); !eras.ok()) return eras.error();
  return out;
}

EngineModel with_options(const EngineFile& file, const EngineModel& engine, const std::vector<ChosenOption>& options,
                         const std::optional<base::Version>& version) {
  const auto at =
      std::find_if(file.engines.begin(), file.engines.end(), [&](const EngineModel& e) { return e.name == engine.base; });
  ESPALIER_CHECK(at != file.engines.end());
  const auto place = static_cast<std::size_t>(at - file.engines.begin());
  EngineModel out = version ? engine_at(file, place, *version) : *at;
  base::ErrorSink sink;
  for (const ChosenOption& chosen : options) {
    const EngineOption& option = out.options[chosen.place];
    Reader r(*file.document, file.options[place][chosen.place], cat("$.engines.", out.base), sink);
    const bool own = states_option(file.entries[place], option.name);
    read_parts(r, own ? version : std::nullopt, out);
    out.name.append("+").append(option.name);
    if (option.sets.empty()) continue;
    *number_of(out, option.sets) = chosen.value;
    out.name.append("=").append(std::to_string(chosen.value));
  }
  ESPALIER_CHECK(sink.ok());  // each option was read once before
  return out;
}

}  // namespace espalier
