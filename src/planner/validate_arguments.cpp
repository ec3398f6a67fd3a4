// SPDX-License-Identifier: Apache-2.0
#include "planner/validate_arguments.h"

#include <charconv>

namespace espalier::planner {
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

/// Layers or updates that a uniform decoder does not have.
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
  return s;
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
  m.recompute_layers = number(a, "--recompute-num-layers");
  m.vocabulary = number(a, "--vocab-size");
  m.expert_tp = number(a, "--expert-tensor-parallel-size");
  m.unsupported = unsupported_flag(a);
  return m;
}

}  // namespace espalier::planner
