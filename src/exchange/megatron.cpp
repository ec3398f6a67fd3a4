// SPDX-License-Identifier: Apache-2.0
#include "exchange/megatron.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"
#include "plan/engine.h"
#include "plan/recompute_modules.h"

namespace espalier::exchange {
namespace {

using Flags = std::vector<LaunchFlag>;

constexpr const char* kMegatron = "megatron-core";
constexpr const char* kMegatronPrefix = "MEG";

/// Reads config.json under the names of transformers. Absent keys get the defaults of its classes.
class Config {
 public:
  explicit Config(const base::Node& root) : root_(root) {}
  [[nodiscard]] std::string text(const char* key, const std::string& otherwise = "") const {
    const base::Node* node = root_.find(key);
    return node == nullptr || node->kind == base::NodeKind::null ? otherwise
           : node->kind == base::NodeKind::boolean               ? (node->boolean ? "true" : "false")
                                                                 : node->text;
  }
  /// Returns θ from its own key, or from the place where transformers 5 keeps it.
  [[nodiscard]] std::string rotary_base() const {
    if (const base::Node* own = root_.find("rope_theta"); own != nullptr && own->kind != base::NodeKind::null)
      return std::to_string(std::llround(own->real));  // Megatron's flag is an integer
    const base::Node* inner = root_.find("rope_parameters");
    return inner != nullptr && inner->kind == base::NodeKind::mapping ? Config(*inner).rotary_base() : "10000";
  }
  [[nodiscard]] bool has(const char* key) const { return !text(key).empty(); }

 private:
  const base::Node& root_;
};

const Operator* operator_of(const LayerKind& kind, OperatorKind wanted) {
  const auto at =
      std::find_if(kind.operators.begin(), kind.operators.end(), [wanted](const Operator& op) { return op.kind == wanted; });
  return at == kind.operators.end() ? nullptr : &*at;
}

// ---- the plan -----------------------------------------------------------------------------------------------------

/// Returns whether a layer is one of those that Megatron numbers: a block and, in a model with encoders of images or
/// sound, one of the text.
bool is_decoder_block(const Model& model, std::int32_t layer) {
  const LayerKind& kind = model.layer(static_cast<std::size_t>(layer));
  return kind.role == LayerRole::block && (!model.tower || kind.stream == TokenStream::main);
}

/// Counts such blocks of a chunk.
std::int64_t blocks_in(const Model& model, std::int32_t first, std::int32_t last) {
  std::int64_t count = 0;
  for (std::int32_t l = first; l <= last; ++l) count += is_decoder_block(model, l) ? 1 : 0;
  return count;
}

/// Returns the first and last layer of each chunk, in pipeline order.
std::vector<std::pair<std::int32_t, std::int32_t>> chunks_of(const Pipeline& pipeline) {
  std::vector<std::pair<std::int32_t, std::int32_t>> out;
  for (std::int32_t v = 0; v < pipeline.schedule.virtual_stages; ++v)
    for (const Stage& stage : pipeline.stages) {
      ESPALIER_CHECK(stage.chunks.size() == static_cast<std::size_t>(pipeline.schedule.virtual_stages));
      const Chunk& chunk = stage.chunks[static_cast<std::size_t>(v)];
      out.emplace_back(chunk.first(), chunk.last());
    }
  return out;
}

Flags parallelism(const WrittenPlan& w) {
  const Model& model = w.job().model;
  const Strategy& s = w.strategy();
  const Schedule& schedule = w.schedule();
  Flags out{{"--tensor-model-parallel-size", std::to_string(s.tp), ""},
            {"--pipeline-model-parallel-size", std::to_string(schedule.stages), ""}};
  if (s.sp == SequenceParallel::megatron) out.push_back({"--sequence-parallel", "", ""});
  if (s.cp > 1) {
    out.push_back({"--context-parallel-size", std::to_string(s.cp), ""});
    out.push_back({"--cp-comm-type", s.cp_kind == ContextParallelKind::ring ? "p2p" : "a2a", ""});
  }
  if (s.ep > 1) out.push_back({"--expert-model-parallel-size", std::to_string(s.ep), ""});
  if (active_parameter_count(model) < parameter_count(model))
    out.push_back({"--expert-tensor-parallel-size", std::to_string(s.etp), "unset would mean the tensor degree"});
  if (!evenly_cut(model, w.pipeline)) {
    out.push_back({"--pipeline-model-parallel-layout", megatron_layout(model, w.pipeline), "stages are cut unevenly"});
  } else if (schedule.virtual_stages > 1) {
    out.push_back({"--num-virtual-stages-per-pipeline-rank", std::to_string(schedule.virtual_stages), ""});
  }
  if (schedule.stages > 1 && !s.overlap.p2p && schedule.virtual_stages > 1)
    out.push_back({"--no-overlap-p2p-communication", "", ""});
  if (s.order == RankOrder::tp_cp_pp_dp) out.push_back({"--use-tp-pp-dp-mapping", "", "replicas are furthest apart"});
  if (offloads_activations(s.offload))
    out.push_back({"--cpu-offloading-num-layers", std::to_string(model.blocks() - 1),
                   "activations of all blocks but one (the maximum) wait in host memory"});
  return out;
}

Flags data_parallelism(const Strategy& s) {
  Flags out;
  if (s.shards_optimizer()) out.push_back({"--use-distributed-optimizer", "", "ZeRO-1"});
  if (s.shards_optimizer() && s.data_ranks() > s.shard)
    out.push_back({"--num-distributed-optimizer-instances", std::to_string(s.data_ranks() / s.shard),
                   cat("states are sharded over ", s.shard, " ranks")});
  if (s.overlap.grad_reduce) out.push_back({"--overlap-grad-reduce", "", ""});
  if (s.overlap.param_gather) out.push_back({"--overlap-param-gather", "", ""});
  if (s.overlap.tp) out.push_back({"--tp-comm-overlap", "", "needs Transformer Engine with userbuffers"});
  if (offloads_optimizer(s.offload)) {
    if (!s.shards_optimizer()) out.push_back({"--use-distributed-optimizer", "", "required by the offload; one data rank"});
    out.push_back({"--optimizer-cpu-offload", "", "master weights and moments in host memory"});
    out.push_back({"--overlap-cpu-optimizer-d2h-h2d", "", ""});
    out.push_back({"--use-precision-aware-optimizer", "", "required by the offload; does not change types"});
  }
  return out;
}

// ---- options of the engine ----------------------------------------------------------------------------------------

/// Returns the options of the plan's engine (data/engines.yaml).
std::vector<EngineOption> plan_options(const Plan& plan) {
  const EngineModel* engine = find_engine(base_engine(plan.engine));
  ESPALIER_CHECK(engine != nullptr);
  std::vector<EngineOption> out;
  for (const EngineOption& option : engine->options)
    if (has_engine_option(plan, option.name)) out.push_back(option);
  return out;
}

/// Converts "--flag value" to a row of the command. Several words are a list.
LaunchFlag row_of(const std::string& flag) {
  ESPALIER_CHECK(flag.starts_with("--"));
  const std::size_t space = flag.find(' ');
  if (space == std::string::npos) return {flag, "", ""};
  const std::string value = flag.substr(space + 1);
  return {flag.substr(0, space), value, "", value.find(' ') != std::string::npos};
}

Flags option_flags(const WrittenPlan& w) {
  Flags out;
  if (w.plan().engine.starts_with("megatron-core-unfused")) out.push_back({"--attention-backend", "unfused", "scores are kept"});
  // Flags that the strategy writes already.
  std::set<std::string_view> written;
  if (offloads_optimizer(w.strategy().offload)) written.insert("--use-precision-aware-optimizer");
  if (w.strategy().shards_optimizer() || offloads_optimizer(w.strategy().offload)) written.insert("--use-distributed-optimizer");
  for (const EngineOption& option : plan_options(w.plan()))
    for (const std::string& flag : option.flags)
      if (written.insert(flag).second) out.push_back(row_of(flag));
  return out;
}

Flags megatron_batch(const WrittenPlan& w) {
  const Training& training = w.plan().training;
  Flags out{{"--micro-batch-size", std::to_string(w.schedule().micro_batch), ""},
            {"--global-batch-size", std::to_string(training.global_batch), cat(w.schedule().microbatches, " micro-batches")},
            {"--seq-length", std::to_string(training.sequence.main), ""}};
  const Lengths& lengths = training.lengths;
  if (lengths.any() && lengths.packing != Packing::none)
    out.push_back({"--sft", "", "its data set packs conversations into samples (megatron/training/datasets/sft_dataset.py)"});
  return out;
}

Flags megatron_recomputation(const WrittenPlan& w) {
  const Recompute r = strategy_of_all(w.pipeline).recompute;
  if (r.kind == RecomputeKind::none) return {};
  if (r.kind == RecomputeKind::selective) {
    std::string modules = to_string(modules_said(w));
    std::replace(modules.begin(), modules.end(), ',', ' ');
    return {{"--recompute-granularity", "selective", ""}, {"--recompute-modules", modules, "", true}};
  }
  if (r.layers >= most_blocks_in_a_chunk(w.job().model, w.pipeline))
    return {{"--recompute-granularity", "full", ""},
            {"--recompute-method", "uniform", ""},
            {"--recompute-num-layers", "1", "every layer separately"}};
  return {{"--recompute-granularity", "full", ""},
          {"--recompute-method", "block", ""},
          {"--recompute-num-layers", std::to_string(r.layers), "the first of every chunk"}};
}

Flags precision(const Training& training) {
  switch (training.precision) {
    case Precision::bf16: return {{"--bf16", "", ""}};
    case Precision::fp16: return {{"--fp16", "", ""}};
    case Precision::fp8: return {{"--bf16", "", ""}, {"--fp8-format", "hybrid", "needs Transformer Engine"}};
    case Precision::mxfp8:
      return {{"--bf16", "", ""}, {"--fp8-format", "e4m3", "needs Transformer Engine"}, {"--fp8-recipe", "mxfp8", ""}};
    case Precision::nvfp4:
      return {{"--bf16", "", ""}, {"--fp4-format", "e2m1", "needs Transformer Engine"}, {"--fp4-recipe", "nvfp4", ""}};
    default: return {};
  }
}

// ---- the model ----------------------------------------------------------------------------------------------------

Flags attention_flags(const LayerKind& block, const Config& config) {
  ESPALIER_CHECK(operator_of(block, OperatorKind::attention) != nullptr);  // holds for the families that are written
  const Operator& core = *operator_of(block, OperatorKind::attention);
  Flags out{{"--num-attention-heads", std::to_string(core.heads), ""}};
  if (core.kv_heads != core.heads) {
    out.push_back({"--group-query-attention", "", ""});
    out.push_back({"--num-query-groups", std::to_string(core.kv_heads), ""});
  }
  if (std::int64_t{core.heads} * core.qk_dim != block.hidden) out.push_back({"--kv-channels", std::to_string(core.qk_dim), ""});
  if (config.has("rope_theta") || config.has("rope_parameters") || config.has("num_key_value_heads")) {
    out.push_back({"--position-embedding-type", "rope", ""});
    out.push_back({"--rotary-base", config.rotary_base(), ""});
  }
  return out;
}

Flags expert_flags(const LayerKind& block, const Config& config, const Plan& plan) {
  const Operator* router = operator_of(block, OperatorKind::router);
  if (router == nullptr) return {};
  Flags out{{"--num-experts", config.text("num_experts", config.text("num_local_experts", std::to_string(router->out))), ""},
            {"--moe-router-topk", config.text("num_experts_per_tok"), ""},
            {"--moe-grouped-gemm", "", ""},
            {"--moe-router-load-balancing-type", "aux_loss", ""}};
  if (!has_engine_option(plan, "flex-dispatcher")) out.push_back({"--moe-token-dispatcher-type", "alltoall", ""});
  if (config.has("moe_intermediate_size")) out.push_back({"--moe-ffn-hidden-size", config.text("moe_intermediate_size"), ""});
  return out;
}

/// Returns whether these flags can express a family's architecture.
bool is_llama_like(const std::string& family) {
  constexpr const char* kFamilies[] = {"llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe"};
  return std::any_of(std::begin(kFamilies), std::end(kFamilies), [&family](const char* f) { return family == f; });
}

std::int64_t decoder_blocks(const Model& model) {
  return blocks_in(model, 0, static_cast<std::int32_t>(model.layers.size()) - 1);
}

/// Returns the flags that remain where the user writes the other flags of the model.
Flags sizes_alone(const Model& model) { return {{"--num-layers", std::to_string(decoder_blocks(model)), ""}}; }

Flags architecture(const Job& job, const Plan& plan, const Config& config) {
  const Model& model = job.model;
  const LayerKind& block = model.layer(1);
  Flags out{{"--num-layers", std::to_string(model.blocks()), ""}, {"--hidden-size", std::to_string(block.hidden), ""}};
  for (LaunchFlag& flag : attention_flags(block, config)) out.push_back(std::move(flag));
  const std::int64_t positions = std::max<std::int64_t>(plan.training.sequence.main, model.context_length);
  if (model.family == "gpt2") {
    out.push_back({"--ffn-hidden-size", config.text("n_inner", std::to_string(4 * block.hidden)), ""});
    out.push_back({"--max-position-embeddings", config.text("n_positions", "1024"), ""});
  } else {
    out.push_back({"--ffn-hidden-size", config.text("intermediate_size"), ""});
    out.push_back({"--max-position-embeddings", std::to_string(positions), ""});
    out.push_back({"--swiglu", "", ""});
    out.push_back({"--normalization", "RMSNorm", ""});
    out.push_back({"--norm-epsilon", config.text("rms_norm_eps", "1e-6"), ""});
    out.push_back({"--disable-bias-linear", "", ""});
    if (model.family == "qwen2") out.push_back({"--add-qkv-bias", "", ""});
    if (model.family == "qwen3" || model.family == "qwen3_moe") out.push_back({"--qk-layernorm", "", ""});
    out.push_back({"--attention-dropout", "0", ""});
    out.push_back({"--hidden-dropout", "0", ""});
  }
  if (!model.tied_embeddings) out.push_back({"--untie-embeddings-and-output-weights", "", ""});
  out.push_back({"--vocab-size", std::to_string(model.vocabulary), ""});
  for (LaunchFlag& flag : expert_flags(block, config, plan)) out.push_back(std::move(flag));
  return out;
}

// ---- the script ---------------------------------------------------------------------------------------------------

/// Returns whether known flags describe the whole architecture: the blocks are alike, of a family whose flags are
/// known.
bool known_architecture(const Model& model) {
  if (!is_llama_like(model.family) && model.family != "gpt2") return false;
  for (std::size_t l = 2; l + 1 < model.layers.size(); ++l)
    if (model.layers[l] != model.layers[1]) return false;
  return true;
}

std::string unknown_option(const Job&, const Plan& plan, const Pipeline&) {
  for (const EngineOption& option : plan_options(plan))
    if (option.flags.empty() && option.name != "recompute-modules") return cat("option ", option.name, " of the engine");
  return "";
}

constexpr std::array kMegatronOnly = {
    FormatRow{"OPTIONS", "flags can say the options of the engine", unknown_option, "options whose flags data/engines.yaml names",
              "set it in the training script; a plan of the engine without it can be written"},
};

constexpr FormatRows kMegatronRows = {kMegatron, kMegatron, kMegatronPrefix, kMegatronOnly};

std::vector<FormatRule> megatron_rules() { return rules_of(kMegatronRows); }
std::optional<FormatFault> megatron_fault(const Job& job, const Plan& plan) { return fault_of(kMegatronRows, job, plan); }

Result<std::string> megatron_script(const WrittenPlan& w) {
  const Job& job = w.job();
  const Plan& plan = w.plan();
  const auto document = base::read_json(plan.model_source, "plan: $.model.source");
  if (!document) return document.error();
  const Config config(document->root);
  LaunchScript script;
  script.engine = "Megatron-LM core 0.19 and 0.20";
  const bool known = known_architecture(job.model);
  script.program = known ? "pretrain_gpt.py" : "pretrain_gpt.py ${MODEL_FLAGS:?}";
  if (!known) script.in_image = "pretrain_gpt.py";
  script.environment = {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}};
  script.environment_reasons = {
      "communication is issued in the order of compute: tensor and context parallelism overlap as planned"};
  script.groups = {{"model", known ? architecture(job, plan, config) : sizes_alone(job.model)},
                   {"parallelism", parallelism(w)},
                   {"data parallelism", data_parallelism(w.strategy())},
                   {"batch", megatron_batch(w)},
                   {"recomputation", megatron_recomputation(w)},
                   {"options of the engine", option_flags(w)},
                   {"precision", precision(plan.training)}};
  return to_text(script, w.request);
}

Result<std::string> write_megatron(const ExportRequest& request) { return written(megatron_core(), request, megatron_script); }

}  // namespace

std::vector<LaunchFlag> megatron_plan_flags(const WrittenPlan& w) {
  Flags out = parallelism(w);
  for (const Flags& more : {data_parallelism(w.strategy()), megatron_batch(w), megatron_recomputation(w), option_flags(w)})
    out.insert(out.end(), more.begin(), more.end());
  return out;
}

/// Returns the modules that selective recomputation of the plan's first layers names, or the engine's default
/// modules.
RecomputeModules modules_said(const WrittenPlan& w) {
  const Recompute r = strategy_of_all(w.pipeline).recompute;
  const EngineModel* engine = find_engine(w.plan().engine);
  return r.modules.any() || engine == nullptr ? r.modules : selective_modules(*engine, w.job().model);
}

bool evenly_cut(const Model& model, const Pipeline& pipeline) {
  const auto chunks = chunks_of(pipeline);
  return std::all_of(chunks.begin(), chunks.end(), [&](const auto& c) {
    return blocks_in(model, c.first, c.second) == blocks_in(model, chunks.front().first, chunks.front().second);
  });
}

std::int64_t most_blocks_in_a_chunk(const Model& model, const Pipeline& pipeline) {
  std::int64_t most = 0;
  for (const auto& [first, last] : chunks_of(pipeline)) most = std::max(most, blocks_in(model, first, last));
  return most;
}

std::string megatron_layout(const Model& model, const Pipeline& pipeline) {
  std::string out;
  const auto last = static_cast<std::int32_t>(model.layers.size()) - 1;
  for (const auto& [first, end] : chunks_of(pipeline)) {
    if (!out.empty()) out += '|';
    if (first == 0) out += 'E';
    const std::int64_t blocks = blocks_in(model, first, end);
    if (blocks == 1) out += 't';
    if (blocks > 1) out += cat("t*", blocks);
    if (end == last) out += 'L';
  }
  return out;
}

Exporter megatron_core() {
  return {kMegatron,       "a script that launches the plan with Megatron-LM (core 0.19, 0.20)",
          "launch.sh",     write_megatron,
          "megatron-core", all_launchers(),
          megatron_rules,  megatron_fault};
}

}  // namespace espalier::exchange
