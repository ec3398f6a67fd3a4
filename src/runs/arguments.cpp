// SPDX-License-Identifier: Apache-2.0
#include "runs/arguments.h"
#include "plan/engine.h"

#include <charconv>

namespace espalier::runs {
namespace {

using Arguments = std::map<std::string, std::string>;

bool given(const Arguments& a, const char* name) {
  const auto it = a.find(name);
  return it != a.end() && it->second != "false";
}

std::string text(const Arguments& a, const char* name, const char* fallback) {
  const auto it = a.find(name);
  return it == a.end() ? fallback : it->second;
}

std::optional<std::int64_t> number(const Arguments& a, const char* name) {
  const auto it = a.find(name);
  std::int64_t value = 0;
  if (it == a.end()) return std::nullopt;
  const std::string& s = it->second;
  const auto [end, code] = std::from_chars(s.data(), s.data() + s.size(), value);
  return code == std::errc{} && end == s.data() + s.size() ? std::optional(value) : std::nullopt;
}

bool is_zero(const Arguments& a, const char* name) {
  const std::string s = text(a, name, "0.1");  // arguments.py: both dropouts default to 0.1
  return s.find_first_not_of("0.") == std::string::npos;
}

/// Returns a flag for layers or updates that a uniform decoder does not have; empty without one.
std::string unsupported_flag(const Arguments& a) {
  for (const char* flag :
       {"--multi-latent-attention", "--moe-layer-freq", "--moe-shared-expert-intermediate-size", "--mtp-num-layers",
        "--hybrid-layer-pattern", "--hybrid-override-pattern", "--is-hybrid-model", "--spec", "--pipeline-model-parallel-layout",
        "--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers", "--encoder-num-layers",
        "--use-megatron-fsdp", "--perform-rl-step", "--step-batch-size-schedule"}) {
    if (given(a, flag)) return flag;
  }
  const std::string optimizer = text(a, "--optimizer", "adam");
  return optimizer == "adam" ? "" : "--optimizer " + optimizer;
}

DecoderShape shape_flags(const Arguments& a) {
  DecoderShape s;
  s.gated = given(a, "--swiglu");
  s.rms_norm = text(a, "--normalization", "LayerNorm") == "RMSNorm";
  s.biases = !given(a, "--disable-bias-linear");
  s.tied = !given(a, "--untie-embeddings-and-output-weights");
  const std::string positions = text(a, "--position-embedding-type", "learned_absolute");
  s.learned_positions = positions == "learned_absolute";
  s.rotary = positions == "rope";
  s.dropout = !is_zero(a, "--attention-dropout") || !is_zero(a, "--hidden-dropout");
  s.max_positions = number(a, "--max-position-embeddings").value_or(0);
  s.head_dim = number(a, "--kv-channels").value_or(0);
  s.qk_norm = given(a, "--qk-layernorm");
  return s;
}

/// Returns the vocabulary of a tokenizer (megatron/training/tokenizer/tokenizer.py and the vocabulary files that its
/// examples name). Sizes that depend on a model file are not included.
std::optional<std::int64_t> tokenizer_words(const Arguments& a, const std::string& recorded, bool encoder) {
  const std::string type = text(a, "--tokenizer-type", recorded.c_str());
  const std::int64_t extra = number(a, "--vocab-extra-ids").value_or(0);
  // This is the size of bert-large-uncased-vocab.txt.
  if (type == "BertWordPieceLowerCase" || (type.empty() && encoder)) return 30522 + extra;
  // This is the size of bert-large-cased-vocab.txt.
  if (type == "BertWordPieceCase") return 28996 + extra;
  if (type == "GPT2BPETokenizer") return 50257 + extra;  // gpt2-vocab.json
  if (type == "Llama2Tokenizer") return 32000;           // Llama 2's tokenizer.model
  return std::nullopt;
}

}  // namespace

std::optional<MegatronArguments> megatron_arguments(const RunRecord& record) {
  const Arguments& a = record.arguments;
  if (!a.count("--micro-batch-size") && !a.count("--num-layers")) return std::nullopt;
  MegatronArguments m;
  m.flags = shape_flags(a);
  m.distributed_optimizer = given(a, "--use-distributed-optimizer");
  m.overlap_grad = given(a, "--overlap-grad-reduce");
  m.overlap_param = given(a, "--overlap-param-gather");
  const std::string attention = text(a, "--attention-backend", "auto");
  m.unfused_attention = attention == "unfused" || attention == "local";
  m.deterministic = given(a, "--deterministic-mode") && attention == "auto";
  m.recompute_layers = number(a, "--recompute-num-layers");
  m.vocabulary = number(a, "--vocab-size");
  if (m.vocabulary && text(a, "--tokenizer-type", "") == "NullTokenizer") ++*m.vocabulary;  // its end-of-document token
  const bool encoder = record.model.name.find("bert") != std::string::npos;
  if (!m.vocabulary) m.vocabulary = tokenizer_words(a, record.tokenizer, encoder);
  m.optimizer_instances = number(a, "--num-distributed-optimizer-instances").value_or(1);
  m.expert_tp = number(a, "--expert-tensor-parallel-size");
  m.expert_ffn = number(a, "--moe-ffn-hidden-size");
  m.unsupported = unsupported_flag(a);
  return m;
}

void apply_memory_flags(const RunRecord& record, bool unfused, EngineModel& engine) {
  const Arguments& a = record.arguments;
  const std::string backend = text(a, "--attention-backend", "auto");
  // The default of --transformer-impl is transformer_engine (megatron/training/arguments.py). Megatron's own layers
  // (local) keep the scores.
  const bool local = text(a, "--transformer-impl", "transformer_engine") == "local" || backend == "local";
  engine.memory.activations =
      unfused || local || backend == "unfused" ? ActivationPolicy::megatron_2022_unfused : ActivationPolicy::fused_attention;
  // The local layers keep the scores (core/transformer/dot_product_attention.py); Transformer Engine's own attention
  // frees them.
  engine.memory.keeps_score_buffer = local;
  engine.memory.workspace.transformer_engine = local ? 0 : given(a, "--moe-grouped-gemm") ? 5 : 1;
  if (given(a, "--cross-entropy-loss-fusion")) {
    // With native, compiled pieces pass on an fp32 copy and also write the exponential
    // (megatron/core/fusions/fused_cross_entropy.py). With te, one kernel turns the logits into their gradient in
    // place.
    engine.memory.loss =
        text(a, "--cross-entropy-fusion-impl", "native") == "te" ? LossPolicy{2, 0, 0, 0} : LossPolicy{4, 6, 2, 0};
  }
  if (given(a, "--defer-embedding-wgrad-compute")) {
    const std::int64_t limit = number(a, "--wgrad-deferral-limit").value_or(0);
    engine.memory.loss.deferred = limit > 0 && limit < INT32_MAX ? static_cast<std::int32_t>(limit) : INT32_MAX;
  }
  engine.memory.workspace.deterministic = given(a, "--deterministic-mode");
  // Without a named backend, Transformer Engine takes cuDNN or FlashAttention-3 on Hopper and FlashAttention-2
  // elsewhere.
  const bool hopper = record.gpu.type.find("H100") != std::string::npos || record.gpu.type.find("H200") != std::string::npos;
  engine.memory.copies_attention_output = backend != "fused" && !hopper;
  if (const auto multiple = number(a, "--make-vocab-size-divisible-by"))
    engine.memory.vocabulary_multiple = static_cast<std::int32_t>(*multiple);
  // fp16 gradients stay in fp16. bf16 gradients are accumulated in fp32 unless a flag changes that.
  if (given(a, "--grad-reduce-in-bf16") || (given(a, "--fp16") && !given(a, "--accumulate-allreduce-grads-in-fp32")))
    engine.memory.states.gradient = engine.memory.states.reduce = 2;
  const auto bytes = [&](const char* flag, std::int32_t otherwise) {
    const std::string type = text(a, flag, "fp32");
    return type == "fp32" ? otherwise : type == "fp8" ? 1 : 2;
  };
  if (!given(a, "--use-precision-aware-optimizer")) return;
  engine.memory.states.master = bytes("--main-params-dtype", 4);
  engine.memory.states.optimizer = bytes("--exp-avg-dtype", 4) + bytes("--exp-avg-sq-dtype", 4);
  if (text(a, "--main-grads-dtype", "fp32") == "bf16") engine.memory.states.gradient = 2;
}

}  // namespace espalier::runs
