// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/assertions.h"
#include "exchange/configuration_readers.h"
#include "plan/engine.h"
#include "plan/engine_reader.h"

namespace espalier::exchange {
namespace {

class DeepSpeedReader {
 public:
  DeepSpeedReader(const ConfigurationRequest& request, const base::Node& root)
      : request_(request), in_(request, settings_of(root), key_table("deepspeed")) {}

  Result<ImportedConfiguration> run() {
    out_.name = request_.name;
    out_.engine = "deepspeed";
    out_.why_no_model = "DeepSpeed's JSON does not hold the model";
    degrees();
    zero();
    batch();
    precision();
    sizes();
    auto keys = in_.finish();
    if (!keys) return keys.error();
    out_.keys = std::move(*keys);
    return std::move(out_);
  }

 private:
  void degrees() {
    Strategy& s = out_.strategy;
    const std::int64_t tp = in_.integer("tensor_parallel.autotp_size", 0, kMostDegree, 0, "tp (0: none)");
    const std::int64_t ulysses = in_.integer("sequence_parallel_size", 1, kMostDegree, 1, "sp ulysses over");
    if (tp > 1 && ulysses > 1)
      in_.fail("sequence_parallel_size", std::to_string(ulysses),
               "1 with tensor parallelism: a group of ranks does one or the other");
    s.tp = static_cast<std::int32_t>(std::max<std::int64_t>({1, tp, ulysses}));
    if (ulysses > 1) s.sp = SequenceParallel::ulysses;
    s.dp = static_cast<std::int32_t>(std::max<std::int64_t>(1, request_.devices / s.tp));
    s.shard = 0;
  }

  void zero() {
    Strategy& s = out_.strategy;
    if (in_.is_auto("zero_optimization.stage")) in_.fail("zero_optimization.stage", "auto", "0, 1, 2 or 3");
    const std::int64_t stage = in_.integer("zero_optimization.stage", 0, 3, 0, "zero");
    s.zero = static_cast<ZeroStage>(stage);
    stage_ = stage;
    const bool overlap = in_.flag("zero_optimization.overlap_comm", stage == 3, "overlap of ZeRO's communication");
    s.overlap.grad_reduce = overlap && s.data_ranks() > 1;
    s.overlap.param_gather = overlap && s.shards_parameters() && s.data_ranks() > 1;
    if (s.data_ranks() == 1) s.zero = ZeroStage::none;
    offload(stage > 0);
  }

  /// Reads whether ZeRO's optimizer is on the host. Without ZeRO the section has no effect (runtime/engine.py).
  void offload(bool zero) {
    const char* key = "zero_optimization.offload_optimizer.device";
    const std::string device = in_.word(key, {"none", "cpu", "nvme"}, "none", "offload of the optimizer");
    const bool older = in_.has("zero_optimization.cpu_offload") &&
                       in_.flag("zero_optimization.cpu_offload", false, "offload of the optimizer (older key)");
    if (device == "nvme") in_.fail(key, device, "none or cpu: states on disk cannot be priced");
    const bool optimizer = zero && (device == "cpu" || older), parameters = offloaded_parameters(optimizer);
    const bool activations = offloaded_checkpoints();
    Offload& o = out_.strategy.offload;
    if (parameters)
      o = activations ? Offload::parameters_activations : Offload::parameters;
    else if (optimizer)
      o = activations ? Offload::optimizer_activations : Offload::optimizer;
    else if (activations)
      o = Offload::activations;
  }

  /// Reads whether parameters are offloaded, which needs stage 3. The host updates them there (runtime/zero/stage3.py
  /// requires both).
  bool offloaded_parameters(bool optimizer) {
    const char* key = "zero_optimization.offload_param.device";
    const std::string device =
        in_.has(key) ? in_.word(key, {"none", "cpu", "nvme"}, "none", "offload of the parameters") : "none";
    if (device == "nvme") in_.fail(key, device, "none or cpu: parameters on disk cannot be priced");
    if (device != "cpu") return false;
    if (stage_ != 3) in_.fail(key, device, "none: it requires stage 3");
    if (!optimizer)
      in_.fail(key, device,
               "none, or offload_optimizer as well: parameters in host memory without the optimizer cannot be priced");
    return true;
  }

  /// Reads CPU_CHECKPOINT of runtime/activation_checkpointing/checkpointing.py.
  bool offloaded_checkpoints() {
    const char* key = "activation_checkpointing.cpu_checkpointing";
    return in_.has(key) && in_.flag(key, false, "offload of the inputs of recomputed blocks");
  }

  void batch() {
    const std::int64_t global = in_.integer("train_batch_size", 0, kMostSamples, 0, "global batch (0: from the others)");
    const std::int64_t micro =
        in_.integer("train_micro_batch_size_per_gpu", 0, kMostDegree, 0, "micro-batch (0: from the others)");
    const std::int64_t steps =
        in_.integer("gradient_accumulation_steps", 0, kMostSamples, 0, "micro-batches per step (0: from the others)");
    const std::int64_t dp = out_.strategy.dp;
    // The file counts every rank of a tensor group as one with separate samples (deepspeed/runtime/config.py:471,
    // :602).
    const std::int64_t same = out_.strategy.sp == SequenceParallel::ulysses ? 1 : out_.strategy.tp, ranks = dp * same;
    const std::int64_t own = micro > 0 ? micro : global > 0 ? global / (ranks * std::max<std::int64_t>(1, steps)) : 0;
    const std::int64_t all = global > 0             ? global / same
                             : own > 0 && steps > 0 ? capped_product({own, std::max<std::int64_t>(1, steps), dp})
                                                    : 0;
    if (global > 0 && own > 0 && (global % (own * ranks) != 0 || (steps > 0 && capped_product({own, steps, ranks}) != global)))
      in_.fail("train_batch_size", std::to_string(global),
               cat("micro-batch ", own, steps > 0 ? cat(" · ", steps, " steps") : "", " · ", ranks,
                   " ranks, or a multiple (rule DS-BATCH)"),
               "the ranks are the devices / sequence_parallel_size; each rank of a tensor group counts");
    if (global > 0 && micro == 0 && own == 0)
      in_.fail("train_batch_size", std::to_string(global), cat("at least one sample for each of ", ranks, " ranks"));
    const std::int64_t length = in_.integer("sequence_length", 0, kMostSamples, 0, "sequence length");
    out_.sequence_length = said_or(in_, "sequence_length", length, request_.sequence_length, "--sequence-length");
    take_batch(in_, request_, own, all, dp, out_);
    if (in_.flag("espalier.gradient_checkpointing", false, "recompute full")) out_.strategy.recompute.kind = RecomputeKind::full;
    take_recompute(in_, request_, out_);
  }

  void precision() {
    const bool bf16 = in_.flag("bf16.enabled", in_.flag("bfloat16.enabled", false, "precision bf16"), "precision bf16");
    const bool fp16 = in_.flag("fp16.enabled", false, "precision fp16");
    if (bf16 && fp16) in_.fail("fp16.enabled", "true together with bf16", "one of them");
    in_.word("optimizer.type", {"Adam", "AdamW", "FusedAdam", "DeepSpeedCPUAdam"}, "Adam", "optimizer");
    out_.optimizer = Optimizer::adam;
    out_.precision = bf16 ? Precision::bf16 : fp16 ? Precision::fp16 : Precision::fp32;
    if (in_.has("espalier.precision") && in_.word("espalier.precision", {"none", "fp8"}, "none", "products in") == "fp8")
      out_.precision = Precision::fp8;
    for (const char* key : {"bf16.enabled", "bfloat16.enabled", "fp16.enabled"})
      if (in_.is_auto(key) && !bf16 && !fp16) {
        filled(key);
        break;
      }
    states();
  }

  /// Reads the types of states in the section of bf16.
  void states() {
    const char *weights = "bf16.bf16_master_weights_and_grads", *moments = "bf16.bf16_optimizer_states";
    const bool two_bytes = in_.flag(weights, false, "master weights and gradients in bf16");
    const bool all = in_.flag(moments, false, "moments of Adam in bf16") && two_bytes;
    if (two_bytes && !all)
      in_.fail(weights, "true", cat("false, or ", moments, " as well: fp32 moments of bf16 weights cannot be priced"));
    if (all && out_.precision != Precision::fp32 && out_.precision != Precision::fp16)
      out_.engine += "+bf16-states";
    else
      sums();
  }

  /// Reads the type in which gradients are added up. Without ZeRO it is the optimizer's own matter.
  void sums() {
    const char* key = "data_types.grad_accum_dtype";
    if (stage_ == 0 || out_.precision == Precision::fp32 || !in_.has(key)) return;
    if (in_.word(key, {"None", "fp32", "float32", "bf16", "bfloat16", "fp16", "float16"}, "None", "gradients added up in")
            .ends_with("32"))
      out_.engine += "+fp32-gradients";
  }

  /// Reads the sizes of ZeRO's buffers and of what stays gathered, as options of the engine.
  void sizes() {
    const ZeroPolicy usual = find_engine("deepspeed")->memory.zero;
    if (stage_ > 0) size("zero_optimization.reduce_bucket_size", "reduce-bucket", usual.bucket, "elements in a bucket");
    if (stage_ != 3) return;
    size("zero_optimization.sub_group_size", "sub-group", usual.update_elements, "elements updated at a time");
    const bool ahead = prefetches();
    const char* live = "zero_optimization.stage3_max_live_parameters";
    if (ahead)
      size(live, "live-parameters", usual.live, "elements gathered ahead and kept");
    else
      out_.engine += "+live-parameters=0";
    size("zero_optimization.stage3_max_reuse_distance", "reuse-distance", usual.reuse, "elements between two uses that keep one");
  }

  /// Returns whether parameters are gathered ahead of their use (partitioned_param_coordinator.py: with a bucket of 0
  /// none are).
  bool prefetches() {
    const auto bucket = elements("zero_optimization.stage3_prefetch_bucket_size", "elements gathered ahead at a time");
    if (!bucket || *bucket > 0) return true;
    out_.strategy.overlap.param_gather = false;
    return false;
  }

  void size(const char* key, const char* option, std::int64_t usual, std::string_view meaning) {
    ESPALIER_CHECK(usual >= 0);
    const auto value = elements(key, meaning);
    if (value && *value != usual) out_.engine += cat("+", option, "=", *value);
  }

  /// Returns a number of elements, which files write as 500000000 or 5e8; nothing where the file leaves it open. The
  /// Trainer fills in "auto" of a bucket with the square of the hidden size (transformers, integrations/deepspeed.py).
  std::optional<std::int64_t> elements(const char* key, std::string_view meaning) {
    if (!in_.has(key)) return std::nullopt;
    const bool open = in_.is_auto(key);
    const Setting* setting = in_.find(key);
    if (open && std::string_view(key).ends_with("reduce_bucket_size")) return square_of_hidden(key, meaning);
    if (setting == nullptr) return std::nullopt;
    double number = -1;
    const char* const end = setting->value.data() + setting->value.size();
    const auto [next, fault] = std::from_chars(setting->value.data(), end, number);
    if (fault != std::errc() || next != end || !(number >= 0) || number != std::floor(number)) {
      in_.fail(key, setting->value, "a number of elements, like 500000000 or 5e8");
      return std::nullopt;
    }
    const auto value = static_cast<std::int64_t>(std::min(number, static_cast<double>(kMostElements)));
    in_.list({ImportedKey::Kind::read, setting->key, setting->value, cat(meaning, " ", value), setting->line});
    return value;
  }

  std::optional<std::int64_t> square_of_hidden(const char* key, std::string_view meaning) {
    for (const auto& [field, text] : request_.model_fields) {
      std::int64_t hidden = 0;
      if (field != "hidden_size" && field != "text_config.hidden_size") continue;
      std::from_chars(text.data(), text.data() + text.size(), hidden);
      if (hidden < 1 || hidden > kMostDegree) continue;
      in_.list({ImportedKey::Kind::defaulted, key, std::to_string(hidden * hidden),
                cat(meaning, " ", hidden * hidden, ": the Trainer's, hidden_size squared"), 0});
      return hidden * hidden;
    }
    return std::nullopt;
  }

  /// Handles "auto", which the Trainer's arguments or Accelerate's mixed_precision fill in.
  void filled(const char* key) {
    if (!request_.precision)
      in_.fail(key, "auto", "bf16, fp16 or fp32: the training script sets it, this file does not",
               "--set training.precision=bf16");
    out_.precision = request_.precision.value_or(Precision::fp32);
    in_.list({ImportedKey::Kind::read, "training.precision", std::string(to_string(out_.precision)), "fills in what is auto", 0});
  }

  const ConfigurationRequest& request_;
  SettingReader in_;
  ImportedConfiguration out_;
  std::int64_t stage_ = 0;
};

}  // namespace

Result<ImportedConfiguration> read_deepspeed(const ConfigurationRequest& request) {
  const auto document = base::read_json(request.text, request.name);
  if (!document) return document.error();
  if (document->root.kind != base::NodeKind::mapping)
    return Error{ErrorKind::bad_input, request.name, std::string("a ") + std::string(to_string(document->root.kind)),
                 "an object of settings", ""};
  const Status broken = broken_assertions(assertion_table("deepspeed"), request, settings_of(document->root));
  return with_assertions(DeepSpeedReader(request, document->root).run(), broken);
}

ConfigurationFormat deepspeed_configuration() { return {"deepspeed", "DeepSpeed's JSON (0.19)", read_deepspeed}; }

void take_batch(SettingReader& reader, const ConfigurationRequest& request, std::int64_t micro, std::int64_t global,
                std::int64_t replicas, ImportedConfiguration& out) {
  micro = said_or(reader, "micro-batch", micro, request.micro_batch, "--micro-batch");
  global = said_or(reader, "global batch", global, request.global_batch, "--global-batch");
  if (micro == 0) reader.lacks("no micro-batch", "the samples per device and pass", "--micro-batch N");
  if (global == 0 && micro > 0) {
    global = micro * replicas;
    reader.list({ImportedKey::Kind::defaulted, "--global-batch", std::to_string(global), "one micro-batch per replica", 0});
  }
  if (out.sequence_length == 0) reader.lacks("no sequence length", "the tokens per sample", "--sequence-length N");
  out.global_batch = global;
  out.schedule.micro_batch = static_cast<std::int32_t>(std::clamp<std::int64_t>(micro, 1, kMostDegree));
  out.schedule.microbatches = 0;
  ESPALIER_CHECK(out.schedule.micro_batch >= 1);
}

void take_recompute(SettingReader& reader, const ConfigurationRequest& request, ImportedConfiguration& out) {
  Recompute& r = out.strategy.recompute;
  if (request.recompute.empty()) {
    if (r.kind == RecomputeKind::none)
      reader.list({ImportedKey::Kind::defaulted, "--recompute", "none", "recomputation, which the training script sets", 0});
    return;
  }
  r = {request.recompute == "full"   ? RecomputeKind::full
       : request.recompute == "none" ? RecomputeKind::none
                                     : RecomputeKind::selective};
  if (r.kind == RecomputeKind::selective && request.recompute != "selective") {
    const auto modules = parse_recompute_modules(request.recompute);
    if (!modules)
      return reader.fail("--recompute", request.recompute,
                         cat("none, selective, full, or some of ", listed(RecomputeModules::all())));
    r.modules = *modules;
  }
  reader.list({ImportedKey::Kind::read, "--recompute", request.recompute, "set on the command line", 0});
}

}  // namespace espalier::exchange
