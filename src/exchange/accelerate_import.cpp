// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/format.h"
#include "exchange/configuration_readers.h"

namespace espalier::exchange {
namespace {

class AccelerateReader {
 public:
  AccelerateReader(const ConfigurationRequest& request, const base::Node& root)
      : request_(request), in_(request, settings_of(root), key_table("accelerate")) {}

  Result<ImportedConfiguration> run() {
    out_.name = request_.name;
    out_.why_no_model = "Accelerate's file does not hold the model";
    const std::string type =
        in_.word("distributed_type", {"FSDP", "DEEPSPEED", "MULTI_GPU", "NO", "MEGATRON_LM"}, "NO", "kind of data parallelism");
    world();
    out_.precision = precision();
    if (type == "MEGATRON_LM")
      in_.fail("distributed_type", type, "FSDP, DEEPSPEED or MULTI_GPU",
               "import Megatron-LM's arguments themselves: --from megatron-args");
    else if (type == "DEEPSPEED")
      return deepspeed();
    else if (type == "FSDP")
      fsdp();
    else
      plain();
    return finish();
  }

 private:
  Result<ImportedConfiguration> finish() {
    auto keys = in_.finish();
    if (!keys) return keys.error();
    out_.keys.insert(out_.keys.begin(), keys->begin(), keys->end());
    return std::move(out_);
  }

  void world() {
    const std::int64_t processes = in_.integer("num_processes", 0, kMostDegree, 0, "devices (0: those of the cluster)");
    machines_ = in_.integer("num_machines", 1, kMostDegree, 1, "nodes");
    if (processes > 0 && processes != request_.devices)
      in_.fail("num_processes", std::to_string(processes), cat(request_.devices, ", the devices of the cluster (rule ACC-PROD)"),
               "give the cluster on which it runs: --set cluster.nodes=N");
  }

  Precision precision() {
    const std::string word = in_.word("mixed_precision", {"no", "bf16", "fp16", "fp8"}, "no", "precision");
    if (word == "fp8" && in_.has("fp8_config.fp8_backend"))
      in_.word("fp8_config.fp8_backend", {"AO", "TE", "MSAMP"}, "AO", "fp8 products by");
    return parse_precision(word).value_or(Precision::fp32);  // "no"
  }

  void batch() {
    const std::int64_t steps = in_.integer("gradient_accumulation_steps", 1, kMostDegree, 1, "micro-batches per step");
    out_.sequence_length = request_.sequence_length.value_or(0);
    const std::int64_t global =
        request_.micro_batch && !request_.global_batch ? capped_product({*request_.micro_batch, steps, out_.strategy.dp}) : 0;
    take_batch(in_, request_, 0, global, out_.strategy.dp, out_);
  }

  void plain() {
    out_.engine = "ddp";
    out_.strategy.dp = static_cast<std::int32_t>(request_.devices);
    out_.usual_overlap = true;
    batch();
    take_recompute(in_, request_, out_);
  }

  // ---- FSDP -------------------------------------------------------------------------------------------------------

  void fsdp() {
    const std::int64_t version = in_.integer("fsdp_config.fsdp_version", 1, 2, 1, "version of FSDP");
    const std::string dynamo = in_.text("dynamo_config.dynamo_backend", "NO", "compiler");
    out_.usual_overlap = true;
    units();
    degrees(version);
    if (version == 2)
      second();
    else
      first(dynamo != "NO" && dynamo != "no");
    if (out_.strategy.data_ranks() == 1) {
      out_.strategy.zero = ZeroStage::none;
      out_.strategy.shard = 1;
    }
    batch();
    offload();
    if (in_.flag("fsdp_config.fsdp_activation_checkpointing", false, "recompute full"))
      out_.strategy.recompute.kind = RecomputeKind::full;
    take_recompute(in_, request_, out_);
  }

  /// Reads whether blocks are separate units, or the whole model is one (accelerate/utils/dataclasses.py,
  /// set_auto_wrap_policy).
  void units() {
    const char* key = "fsdp_config.fsdp_auto_wrap_policy";
    const std::string policy =
        in_.word(key, {"TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"}, "TRANSFORMER_BASED_WRAP", "units of FSDP");
    if (policy == "NO_WRAP")
      in_.fail(
          key, policy,
          "TRANSFORMER_BASED_WRAP: without a wrap policy the whole model is one unit. Every device then gathers all parameters "
          "and holds all gradients at once, as if nothing were sharded, and a model that needs sharding runs out of memory",
          cat("--ignore ", key, " predicts one unit per block"));
    if (policy == "SIZE_BASED_WRAP")
      out_.notes.push_back(
          cat(key, " = ", policy, ": units of --fsdp_min_num_params parameters are predicted as one unit per block"));
    if (policy != "NO_WRAP" && !in_.has(key))
      out_.notes.push_back(cat("no ", key, ": one unit per block is predicted; with NO_WRAP the whole model would be one unit"));
  }

  void offload() {
    bool offloads = false;
    for (const char* key : {"fsdp_config.fsdp_offload_params", "fsdp_config.fsdp_cpu_offload"}) {
      if (!in_.has(key) || !in_.flag(key, false, "offload of parameters, gradients and states")) continue;
      offloads = true;
      const Strategy& s = out_.strategy;
      if (!s.shards_parameters() && s.data_ranks() > 1)
        in_.fail(key, "True", "False: parameters on the host can be priced only under ZeRO 3");
    }
    if (offloads) out_.strategy.offload = Offload::parameters;
  }

  void degrees(std::int64_t version) {
    const auto size = [&](const char* name, std::string_view meaning) {
      return in_.integer(cat("parallelism_config.parallelism_config_", name, "_size"), 1, kMostDegree, 1, meaning);
    };
    Strategy& s = out_.strategy;
    const bool any = in_.has("parallelism_config.parallelism_config_dp_shard_size") ||
                     in_.has("parallelism_config.parallelism_config_tp_size") ||
                     in_.has("parallelism_config.parallelism_config_cp_size") ||
                     in_.has("parallelism_config.parallelism_config_dp_replicate_size");
    const std::int64_t replicas = size("dp_replicate", "replicas of the shards"), shard = size("dp_shard", "shards");
    const std::int64_t tp = size("tp", "tp"), cp = size("cp", "cp"), sp = size("sp", "sequence parallelism");
    if (sp > 1)
      in_.fail("parallelism_config.parallelism_config_sp_size", std::to_string(sp),
               "1: ALST's sequence parallelism is not part of fsdp2 here");
    if (any && version == 1) in_.fail("fsdp_config.fsdp_version", "1", "2, which parallelism_config needs (rule ACC-FSDP2)");
    if (any && capped_product({replicas, shard, tp, cp}) != request_.devices)
      in_.fail("parallelism_config.parallelism_config_dp_shard_size",
               cat(replicas, " · ", shard, " · ", tp, " · ", cp, " processes"),
               cat(request_.devices, ", the devices of the cluster (rule ACC-PROD)"));
    s.tp = static_cast<std::int32_t>(tp);
    s.cp = static_cast<std::int32_t>(cp);
    s.dp = any ? static_cast<std::int32_t>(std::min(replicas * shard, kMostRanks)) : static_cast<std::int32_t>(request_.devices);
    s.shard = any ? static_cast<std::int32_t>(std::min(shard * cp, kMostRanks)) : s.dp;
  }

  void second() {
    out_.engine = "accelerate-fsdp";
    const bool reshards =
        in_.flag("fsdp_config.fsdp_reshard_after_forward", true, "gather parameters again for the backward pass");
    out_.strategy.zero = reshards ? ZeroStage::parameters : ZeroStage::gradients;
  }

  void first(bool compiled) {
    out_.engine = compiled ? "fsdp1-compile" : "fsdp1";
    const char* key = in_.has("fsdp_config.fsdp_sharding_strategy") ? "fsdp_config.fsdp_sharding_strategy"
                                                                    : "fsdp_config.fsdp_reshard_after_forward";
    std::string word =
        in_.word(key, {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2", "1", "2", "3", "4", "5"},
                 "FULL_SHARD", "sharding");
    constexpr const char* kNumbered[] = {"FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2"};
    if (word.size() == 1) word = kNumbered[word.front() - '1'];
    Strategy& s = out_.strategy;
    s.zero = word == "NO_SHARD"                               ? ZeroStage::none
             : word.ends_with("2") || word == "SHARD_GRAD_OP" ? ZeroStage::gradients
                                                              : ZeroStage::parameters;
    if (word.starts_with("HYBRID")) s.shard = static_cast<std::int32_t>(std::max<std::int64_t>(1, request_.devices / machines_));
    if (word == "NO_SHARD") s.shard = 1;
  }

  // ---- DeepSpeed --------------------------------------------------------------------------------------------------

  /// Reads the JSON that the file names, or one made of the file's own keys.
  Result<ImportedConfiguration> deepspeed() {
    const Setting* path = in_.find("deepspeed_config.deepspeed_config_file");
    ConfigurationRequest inner = request_;
    inner.ignored.clear();
    if (path != nullptr) {
      in_.list({ImportedKey::Kind::read, path->key, path->value, "its settings are in that file", path->line});
      auto text =
          request_.file
              ? request_.file(path->value)
              : Result<std::string>(Error{ErrorKind::bad_input, request_.name, "a file named in it", "a readable file", ""});
      if (!text) return text.error();
      inner.name = path->value;
      inner.text = std::move(*text);
    } else {
      inner.text = own_json();
    }
    if (!in_.ok()) return finish();
    const Precision precision = out_.precision;
    const bool said = in_.has("mixed_precision");
    if (said && !inner.precision) inner.precision = precision;
    auto named = read_deepspeed(inner);
    if (!named) return named;
    out_ = std::move(*named);
    out_.name = request_.name;
    if (path == nullptr)
      out_.precision = precision;
    else if (said)
      merge(precision);
    return finish();
  }

  /// Merges as DeepSpeedPlugin.set_mixed_precision does (utils/dataclasses.py): settings of the JSON stay, a missing
  /// section is added, "auto" is filled. The other half precision switched on in the JSON is an error.
  void merge(Precision stated) {
    if (stated == Precision::fp32) return;
    const Precision section = stated == Precision::fp8 ? Precision::bf16 : stated;
    const auto says = [&](const std::string& key) {
      return std::any_of(out_.keys.begin(), out_.keys.end(),
                         [&](const ImportedKey& k) { return k.key == key && k.kind == ImportedKey::Kind::read; });
    };
    if (out_.precision == Precision::fp32 && !says(cat(to_string(section), ".enabled"))) out_.precision = stated;
    if (out_.precision == section) out_.precision = stated;
    if (out_.precision != stated && out_.precision != Precision::fp32)
      in_.fail("mixed_precision", std::string(to_string(stated)), cat(to_string(out_.precision), ", as in the JSON"),
               "Accelerate rejects two different values");
  }

  std::string own_json() {
    base::JsonWriter w;
    w.begin_object();
    if (in_.has("deepspeed_config.gradient_accumulation_steps"))
      w.key("gradient_accumulation_steps")
          .value(in_.integer("deepspeed_config.gradient_accumulation_steps", 1, kMostDegree, 1, "micro-batches per step"));
    w.key("zero_optimization").begin_object().key("stage").value(in_.integer("deepspeed_config.zero_stage", 0, 3, 2, "zero"));
    if (in_.has("deepspeed_config.offload_optimizer_device"))
      w.key("offload_optimizer")
          .begin_object()
          .key("device")
          .value(
              in_.word("deepspeed_config.offload_optimizer_device", {"none", "cpu", "nvme"}, "none", "offload of the optimizer"))
          .end_object();
    if (in_.has("deepspeed_config.offload_param_device"))
      w.key("offload_param")
          .begin_object()
          .key("device")
          .value(in_.word("deepspeed_config.offload_param_device", {"none", "cpu", "nvme"}, "none", "offload of the parameters"))
          .end_object();
    w.end_object();
    if (request_.micro_batch) w.key("train_micro_batch_size_per_gpu").value(*request_.micro_batch);
    w.end_object();
    return w.text();
  }

  const ConfigurationRequest& request_;
  SettingReader in_;
  ImportedConfiguration out_;
  std::int64_t machines_ = 1;
};

Result<ImportedConfiguration> read_accelerate(const ConfigurationRequest& request) {
  const auto document = base::read_yaml(request.text, request.name);
  if (!document) return document.error();
  if (document->root.kind != base::NodeKind::mapping)
    return Error{ErrorKind::bad_input, request.name, std::string("a ") + std::string(to_string(document->root.kind)),
                 "a mapping of settings", ""};
  return AccelerateReader(request, document->root).run();
}

}  // namespace

ConfigurationFormat accelerate_configuration() {
  return {"accelerate", "Hugging Face Accelerate's YAML (1.15): FSDP, DeepSpeed, or plain data parallelism", read_accelerate};
}

}  // namespace espalier::exchange
