// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/format.h"
#include "base/toml.h"
#include "exchange/assertions.h"
#include "exchange/configuration_readers.h"
#include "exchange/flag_lines.h"

namespace espalier::exchange {
namespace {

constexpr const char* kTorchtitanFormat = "torchtitan";
constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

// ---- the file -----------------------------------------------------------------------------------------------------

/// Returns whether some line is a TOML table.
bool is_toml(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::size_t first = text.find_first_not_of(" \t\r", at);
    if (first < end && text[first] == '[') return true;
    at = end + 1;
  }
  return false;
}

/// Converts "compile.no_enable" to "compile.enable" off.
Setting as_field(Setting setting) {
  const std::size_t dot = setting.key.rfind('.');
  const std::size_t name = dot == std::string::npos ? 0 : dot + 1;
  if (setting.value == "True" && setting.key.compare(name, 3, "no_") == 0) {
    setting.key.erase(name, 3);
    setting.value = "False";
  }
  return setting;
}

/// Reads the assignments of a recipe (exchange/torchtitan.cpp): "    config.parallelism.tensor_parallel_degree = 2  #
/// why".
std::vector<Setting> read_recipe(std::string_view text) {
  constexpr std::string_view kObject = "    config.";
  std::vector<Setting> out;
  std::int64_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string row(text.substr(at, end - at));
    at = end + 1;
    ++line;
    const std::size_t equals = row.find(" = ");
    if (!row.starts_with(kObject) || equals == std::string::npos) continue;
    Setting setting{row.substr(kObject.size(), equals - kObject.size()), row.substr(equals + 3), line};
    setting.value = setting.value.substr(0, setting.value.find("  #"));
    if (setting.key == "activation_checkpoint") {
      setting.key += ".mode";
      setting.value = setting.value.starts_with("Full") ? "full" : setting.value.starts_with("Selective") ? "selective" : "none";
    }
    const bool text_value = setting.value.size() > 1 && setting.value.front() == '\'' && setting.value.back() == '\'';
    if (text_value) setting.value = setting.value.substr(1, setting.value.size() - 2);
    out.push_back(std::move(setting));
  }
  return out;
}

struct TorchtitanFile {
  std::vector<Setting> settings;
  std::vector<ImportedKey> variables;
  bool toml = false;
};

Result<TorchtitanFile> read_torchtitan_file(const ConfigurationRequest& request) {
  TorchtitanFile out;
  out.toml = is_toml(request.text);
  if (out.toml) {
    const auto document = base::read_toml(request.text, request.name);
    if (!document) return document.error();
    out.settings = settings_of(document->root);
    return out;
  }
  if (request.text.find("\ndef planned():\n") != std::string::npos) {
    out.settings = read_recipe(request.text);
    return out;
  }
  auto lines = read_flag_lines(request.text, request.name, shell_context(request));
  if (!lines) return lines.error();
  for (Setting& flag : lines->flags) out.settings.push_back(as_field(std::move(flag)));
  out.variables = std::move(lines->variables);
  return out;
}

// ---- the plan -----------------------------------------------------------------------------------------------------

struct ScheduleName {
  const char* name;
  ScheduleKind kind;
  std::int32_t chunks;  ///< chunks per rank
};
constexpr std::array kSchedules = {
    ScheduleName{"1F1B", ScheduleKind::one_f_one_b, 1}, ScheduleName{"GPipe", ScheduleKind::gpipe, 1},
    ScheduleName{"Interleaved1F1B", ScheduleKind::interleaved, 2}, ScheduleName{"ZBVZeroBubble", ScheduleKind::zb_v, 2}};

class TitanReader {
 public:
  TitanReader(const ConfigurationRequest& request, TorchtitanFile file)
      : request_(request), toml_(file.toml), in_(request, std::move(file.settings), key_table(kTorchtitanFormat)) {
    for (ImportedKey& variable : file.variables) in_.list(std::move(variable));
  }

  Result<ImportedConfiguration> run() {
    out_.name = request_.name;
    out_.why_no_model = "torchtitan's configuration names the model but does not hold its sizes";
    model();
    degrees();
    pipeline();
    batch();
    recomputation();
    precision();
    auto keys = in_.finish();
    if (!keys) return keys.error();
    out_.keys = std::move(*keys);
    return std::move(out_);
  }

 private:
  std::int32_t degree(const char* key, std::string_view meaning) {
    return static_cast<std::int32_t>(in_.integer(cat("parallelism.", key), 1, kMostDegree, 1, meaning));
  }

  void model() {
    for (const char* key : {"model.name", "model.flavor"})
      if (in_.has(key)) in_.pass_over(key, "the model comes from --model");
    const bool older = in_.flag("training.compile", false, "compiled"), newer = in_.flag("compile.enable", false, "compiled");
    out_.engine = older ? "torchtitan-compile" : newer ? compiled() : "torchtitan";
    chunks_of_loss();
    if (in_.word("training.dtype", {"float32", "bfloat16"}, "float32", "type of states") == "bfloat16")
      out_.engine += "+bf16-states";
  }

  /// Reads the chunks of the loss. ChunkedLossWrapper is in the configurations of all models of text since 0.3; the
  /// TOML of 0.2 had none.
  void chunks_of_loss() {
    const char* key = "loss.num_chunks";
    if (toml_ && !in_.has(key)) return;
    const std::int64_t chunks = in_.integer(key, 1, kMostDegree, 8, "parts of the sequence that the loss processes one by one");
    if (chunks == 8) out_.engine += "+chunked-loss";
    if (chunks != 1 && chunks != 8) in_.fail(key, std::to_string(chunks), "1 or 8: no engine here models other numbers of parts");
  }

  /// Returns the engine option of the compiled parts: "model" holds the layers, "loss" only the loss
  /// (torchtitan/config/configs.py, CompileConfig.components).
  std::string compiled() {
    const char* key = "compile.components";
    const std::string parts = in_.text(key, "[model, loss]", "compiled parts");
    const bool loss = parts.find("loss") != std::string::npos;
    if (parts.find("model") == std::string::npos) return loss ? "torchtitan+compiled-loss" : "torchtitan";
    if (!loss) out_.notes.push_back(cat(in_.spelled(key), " = ", parts, ": the loss is predicted as compiled"));
    return "torchtitan-compile";
  }

  void degrees() {
    Strategy& s = out_.strategy;
    s.tp = degree("tensor_parallel_degree", "tp");
    s.cp = degree("context_parallel_degree", "cp");
    out_.schedule.stages = degree("pipeline_parallel_degree", "pp");
    s.ep = degree("expert_parallel_degree", "ep");
    s.etp = degree("expert_tensor_parallel_degree", "etp");
    const bool sharded_sequence = in_.flag("parallelism.enable_sequence_parallel", true, "sp megatron, with tp");
    if (s.tp > 1 && sharded_sequence) s.sp = SequenceParallel::megatron;
    const bool newer = in_.has("compile.enable_async_tensor_parallel");
    s.overlap.tp = in_.flag(newer ? "compile.enable_async_tensor_parallel" : "parallelism.enable_async_tensor_parallel", false,
                            "overlap tp");
    out_.usual_overlap = true;
    const std::int64_t replicas = degree("data_parallel_replicate_degree", "replicas of the shards");
    const std::int64_t inner = capped_product({s.tp, s.cp, out_.schedule.stages});
    const std::int64_t rest = std::max<std::int64_t>(1, request_.devices / capped_product({inner, replicas}));
    const std::int64_t said =
        in_.integer("parallelism.data_parallel_shard_degree", -1, kMostDegree, -1, "shards (-1: the rest of the devices)");
    shards(replicas, said > 0 ? said : rest);
    check_world(capped_product({inner, s.dp}));
  }

  void shards(std::int64_t replicas, std::int64_t shard) {
    Strategy& s = out_.strategy;
    s.dp = static_cast<std::int32_t>(std::min<std::int64_t>(replicas * shard, kMostRanks));
    s.shard = static_cast<std::int32_t>(std::min<std::int64_t>(shard * s.cp, kMostRanks));
    const std::string policy = in_.word("parallelism.fsdp_reshard_after_forward", {"default", "always", "never"}, "default",
                                        "parameters after the forward pass");
    const bool keeps = policy == "never" || (policy == "default" && out_.schedule.stages > 1);
    if (s.shard > 1)
      s.zero = keeps ? ZeroStage::gradients : ZeroStage::parameters;
    else
      s.shard = 1;
    const char* offload = "training.enable_cpu_offload";
    if (!in_.has(offload) || !in_.flag(offload, false, "offload of parameters, gradients and states")) return;
    if (!s.shards_parameters()) in_.fail(offload, "True", "False: parameters on the host can be priced only under ZeRO 3");
    s.offload = Offload::parameters;
  }

  void check_world(std::int64_t world) {
    if (world == request_.devices || !in_.ok()) return;
    in_.fail("parallelism.data_parallel_shard_degree", cat(world, " devices according to its degrees"),
             cat(request_.devices, ", those of the cluster (rule TT-WORLD)"),
             "give the cluster on which it runs: --set cluster.nodes=N");
  }

  void pipeline() {
    std::vector<std::string> names;
    for (const ScheduleName& row : kSchedules) names.emplace_back(row.name);
    const std::string name = in_.word("parallelism.pipeline_parallel_schedule", names, "1F1B", "schedule");
    if (out_.schedule.stages == 1) return split(false);
    const auto row = std::find_if(kSchedules.begin(), kSchedules.end(), [&](const ScheduleName& s) { return s.name == name; });
    out_.schedule.kind = row->kind;
    out_.schedule.virtual_stages = row->chunks;
    out_.strategy.overlap.p2p = true;
    split(true);
  }

  /// Reads the modules of each part, where layers.N are blocks.
  void split(bool counts) {
    for (const char* key :
         {"parallelism.module_fqns_per_model_part", "parallelism.pipeline_parallel_module_fqns_per_model_part"}) {
      const Setting* parts = in_.find(key);
      if (parts == nullptr) continue;
      in_.list({ImportedKey::Kind::read, key, parts->value, "blocks of each stage", parts->line, parts->written});
      if (counts) of_parts(*parts);
    }
    if (const Setting* points = in_.find("parallelism.pipeline_parallel_split_points");
        points != nullptr && !switched_off(points->value)) {
      in_.list({ImportedKey::Kind::read, points->key, points->value, "blocks of each stage", points->line, points->written});
      if (counts) in_.fail(points->key, points->value, "module_fqns_per_model_part, which places every layer");
    }
    by_weights(counts && out_.blocks.empty());
  }
  /// Reads how many layers first and last stage have less. The default is one each, which is how the engine splits
  /// (exchange/torchtitan.h).
  void by_weights(bool counts) {
    const std::string first = "parallelism.pipeline_parallel_first_stage_less_layers",
                      last = "parallelism.pipeline_parallel_last_stage_less_layers",
                      each = "parallelism.pipeline_parallel_layers_per_stage";
    if (!counts) {
      for (const std::string& key : {first, last, each})
        in_.pass_over(key, out_.schedule.stages == 1 ? "there is one stage" : "every stage has its modules");
      return;
    }
    if (!in_.has(first) && !in_.has(last) && !in_.has(each)) return;
    out_.end_weights = {in_.integer(first, 0, kMostDegree, 1, "layers by which the first stage is smaller:"),
                        in_.integer(last, 0, kMostDegree, 1, "layers by which the last stage is smaller:"), std::nullopt};
    const std::int64_t layers =
        in_.integer(each, 0, kMostDegree, 0, "layers per stage (0: two stages per rank if the schedule has several)");
    if (layers > 0) out_.end_weights->layers_per_stage = layers;
  }
  void of_parts(const Setting& parts) {
    std::int32_t depth = 0;
    for (std::size_t i = 0; i < parts.value.size(); ++i) {
      if (parts.value[i] == '[' && ++depth == 2) out_.blocks.push_back(0);
      if (parts.value[i] == ']') --depth;
      if (depth == 2 && parts.value.compare(i, 7, "layers.") == 0) ++out_.blocks.back();
    }
    const auto chunks = static_cast<std::int64_t>(out_.blocks.size());
    if (chunks == 0 || chunks % out_.schedule.stages != 0)
      return in_.fail(parts.key, cat(chunks, " parts"), cat("a multiple of pp ", out_.schedule.stages));
    out_.schedule.virtual_stages = static_cast<std::int32_t>(chunks / out_.schedule.stages);
  }

  void batch() {
    if (in_.has("training.num_tokens_per_microbatch_per_dp_rank") || in_.has("training.max_context_length")) return by_tokens();
    const std::int64_t older = in_.integer("training.batch_size", 0, kMostDegree, 0, "samples per rank (older name)");
    const std::int64_t local = in_.integer("training.local_batch_size", 1, kMostDegree,
                                           std::max<std::int64_t>(1, older > 0 ? older : 8), "samples per rank");
    const std::int64_t global =
        in_.integer("training.global_batch_size", -1, kMostTokens, -1, "global batch (-1: samples of all ranks)");
    const std::int64_t length = in_.integer("training.seq_len", 1, kMostTokens, 2048, "sequence length");
    out_.sequence_length = said_or(in_, "training.seq_len", length, request_.sequence_length, "--sequence-length");
    const std::int64_t part =
        in_.integer("parallelism.pipeline_parallel_microbatch_size", 1, kMostDegree, 1, "micro-batch of the pipeline");
    const std::int64_t all = global > 0 ? global : local * out_.strategy.dp;
    const bool staged = out_.schedule.stages > 1;
    if (staged && all > local * out_.strategy.dp)
      in_.list({ImportedKey::Kind::read, "training.global_batch_size", std::to_string(all),
                "the pipeline drains between accumulated batches; predicted without draining", 0});
    take_batch(in_, request_, staged ? part : local, all, out_.strategy.dp, out_);
  }
  /// Reads the batch of newer configurations, which count tokens.
  void by_tokens() {
    const std::int64_t length = in_.integer("training.max_context_length", 1, kMostTokens, 2048, "sequence length");
    const std::int64_t tokens =
        in_.integer("training.num_tokens_per_microbatch_per_dp_rank", 1, kMostTokens, 16384, "tokens per micro-batch");
    const std::int64_t parts = in_.integer("parallelism.num_pp_microbatches", 1, kMostDegree, 1, "micro-batches of the pipeline");
    const std::int64_t step =
        in_.integer("training.num_tokens_per_train_step", -1, kMostTokens, -1, "tokens per step (-1: one pass)");
    out_.sequence_length = said_or(in_, "training.max_context_length", length, request_.sequence_length, "--sequence-length");
    if (tokens % length != 0)
      in_.fail("training.num_tokens_per_microbatch_per_dp_rank", std::to_string(tokens),
               cat("a multiple of the ", length, " tokens of a sample"));
    const std::int64_t micro = std::max<std::int64_t>(1, tokens / length);
    const std::int64_t pass = capped_product({micro, out_.schedule.stages > 1 ? parts : 1, out_.strategy.dp});
    if (step > 0 && step % length != 0)
      in_.fail("training.num_tokens_per_train_step", std::to_string(step),
               cat("a multiple of the ", length, " tokens of a sample"));
    take_batch(in_, request_, micro, step > 0 ? step / length : pass, out_.strategy.dp, out_);
  }

  void recomputation() {
    const std::string mode =
        in_.word("activation_checkpoint.mode", {"none", "selective", "full", "memory_budget"}, "selective", "recompute");
    // The option selects every n-th layer, or single operators. Its default is "2" in the TOML of 0.2.1
    // (config/job_config.py, 6404b93), and "op" since.
    const std::string option = in_.text("activation_checkpoint.selective_ac_option", toml_ ? "2" : "op",
                                        "selective recomputation: by operator, or every n-th layer");
    if (mode == "memory_budget")
      in_.fail("activation_checkpoint.mode", mode, "none, selective or full: the compiler's own choice cannot be priced");
    if (mode == "full") out_.strategy.recompute.kind = RecomputeKind::full;
    if (mode == "selective" && option == "op") out_.strategy.recompute = {RecomputeKind::selective, 0, kPerOperator};
    if (mode == "selective" && option != "op") every(option);
    if (!request_.recompute.empty()) take_recompute(in_, request_, out_);
  }
  void every(const std::string& option) {
    std::int32_t n = 0;
    const auto [end, code] = std::from_chars(option.data(), option.data() + option.size(), n);
    if (code != std::errc() || end != option.data() + option.size() || n < 1)
      return in_.fail("activation_checkpoint.selective_ac_option", option, "op, or a number of layers");
    out_.strategy.recompute.kind = RecomputeKind::full;
    if (n > 1) out_.recompute_every = n;
  }

  void precision() {
    const std::string type = in_.word("training.mixed_precision_param", {"bfloat16", "float32"}, "bfloat16", "precision");
    out_.precision = type == "float32" ? Precision::fp32 : Precision::bf16;
    const std::string converters = in_.text("model.converters", "[]", "converters of the model");
    if (converters.find("float8") != std::string::npos) out_.precision = Precision::fp8;
    const bool experts = converters.find("grouped_mm.mx") != std::string::npos;
    if (converters.find("linear.mx") != std::string::npos || (converters.find("mx") != std::string::npos && !experts))
      out_.precision = Precision::mxfp8;
    // A converter in the configuration that the command names would set these.
    if ((request_.precision == Precision::fp8 || request_.precision == Precision::mxfp8) && out_.precision == Precision::bf16) {
      out_.precision = *request_.precision;
      in_.list({ImportedKey::Kind::read, "training.precision", std::string(to_string(*request_.precision)),
                "set on the command line", 0});
    }
    in_.word("optimizer.name", {"Adam", "AdamW"}, "AdamW", "optimizer");
    out_.optimizer = Optimizer::adam;
  }

  const ConfigurationRequest& request_;
  bool toml_;
  SettingReader in_;
  ImportedConfiguration out_;
};

Result<ImportedConfiguration> read_torchtitan(const ConfigurationRequest& request) {
  auto file = read_torchtitan_file(request);
  if (!file) return file.error();
  const Status broken = broken_assertions(assertion_table(kTorchtitanFormat), request, file->settings);
  return with_assertions(TitanReader(request, std::move(*file)).run(), broken);
}

}  // namespace

ConfigurationFormat torchtitan_configuration() {
  return {kTorchtitanFormat,
          "torchtitan: TOML (up to 0.2.1), the command line of newer versions (--parallelism.tensor_parallel_degree 2 …), or a "
          "recipe written by export",
          read_torchtitan};
}

}  // namespace espalier::exchange
