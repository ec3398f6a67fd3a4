// SPDX-License-Identifier: Apache-2.0
// Lists families of decoders that differ in switches, one row each, by type. Facts: the configuration and modelling
// classes of Hugging Face transformers 5.23 (src/transformers/models/<type>). For internlm2, kimi_k2 and other types
// on the hub, their own files.
#include <algorithm>
#include <array>
#include <span>

#include "model/decoder_traits.h"

namespace espalier::model {
namespace {

constexpr Switch kAttentionBias{"attention_bias", false}, kUseBias{"use_bias", false};

constexpr Traits gemma(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim, std::int64_t vocabulary) {
  Traits t{.kv_heads = kv_heads, .head_dim = head_dim, .heads = heads, .vocabulary = vocabulary, .tied = true};
  t.qkv_bias = t.out_bias = kAttentionBias;
  return t;
}
constexpr Traits gemma2() {
  Traits t = gemma(8, 4, 256, 256000);
  t.norms = NormPlace::sandwich;
  t.softcap = true;
  t.windows = Windows::alternate;
  return t;
}
constexpr Traits gemma3() {
  Traits t = gemma(8, 4, 256, 262208);
  t.norms = NormPlace::sandwich;
  t.head_norm = HeadNorm::each;
  t.windows = Windows::alternate;
  t.pattern = 6;
  return t;
}
constexpr Traits vaultgemma() {
  Traits t = gemma2();
  t.norms = NormPlace::before;
  return t;
}

constexpr Traits kLlama{.qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .mlp_bias = {"mlp_bias"}};
constexpr Traits kMistral{.kv_heads = 8, .windows = Windows::all};
constexpr Traits kMinistral{.kv_heads = 8, .windows = Windows::listed, .pattern = 4096};
constexpr Traits kMinistral3{.kv_heads = 8, .head_dim = 128, .windows = Windows::all, .window = 0};
constexpr Traits kMixtral{
    .kv_heads = 8, .windows = Windows::all, .window = 0, .experts_key = "num_local_experts", .experts = 8, .top_k = 2};
constexpr Traits kPhi3{.dropout = "resid_pdrop", .windows = Windows::all, .window = 0};
constexpr Traits kQwen2{.kv_heads = 32, .qkv_bias = kAlways, .windows = Windows::qwen};
constexpr Traits kQwen3{.kv_heads = 32,
                        .head_dim = 128,
                        .qkv_bias = kAttentionBias,
                        .out_bias = kAttentionBias,
                        .head_norm = HeadNorm::each,
                        .windows = Windows::qwen};
constexpr Traits kQwen3Moe{.kv_heads = 4,
                           .qkv_bias = kAttentionBias,
                           .out_bias = kAttentionBias,
                           .head_norm = HeadNorm::each,
                           .windows = Windows::qwen,
                           .experts_key = "num_experts",
                           .experts = 128,
                           .top_k = 8,
                           .expert_width = "moe_intermediate_size"};
constexpr Traits kQwen2Moe{.kv_heads = 16,
                           .qkv_bias = {"qkv_bias", true},
                           .windows = Windows::qwen,
                           .experts_key = "num_experts",
                           .experts = 60,
                           .top_k = 4,
                           .expert_width = "moe_intermediate_size",
                           .shared_absent = 5632,
                           .shared_width = "shared_expert_intermediate_size",
                           .shared_gate = true};
constexpr Traits kGptOss{.kv_heads = 8,
                         .head_dim = 64,
                         .qkv_bias = {"attention_bias", true},
                         .out_bias = {"attention_bias", true},
                         .sinks = true,
                         .windows = Windows::listed,
                         .window = 128,
                         .pattern = 2,
                         .experts_key = "num_local_experts",
                         .experts = 128,
                         .top_k = 4,
                         .expert_bias = true};
constexpr Traits kGlm{.kv_heads = 2, .head_dim = 128, .qkv_bias = {"attention_bias", true}, .rotary = 0.5};
constexpr Traits kGlm4{
    .kv_heads = 2, .head_dim = 128, .qkv_bias = {"attention_bias", true}, .norms = NormPlace::sandwich, .rotary = 0.5};
constexpr Traits kGlm4Moe{.kv_heads = 8,
                          .qkv_bias = kAttentionBias,
                          .head_norm = HeadNorm::each,
                          .head_norm_on = {"use_qk_norm"},
                          .rotary = 0.5,
                          .experts_key = "n_routed_experts",
                          .experts = 128,
                          .top_k = 8,
                          .expert_width = "moe_intermediate_size",
                          .shared_count = "n_shared_experts",
                          .shared_absent = 1,
                          .first_dense = "first_k_dense_replace",
                          .dense_layers = 1,
                          .prediction = "num_nextn_predict_layers"};
constexpr Traits kDots1{.qkv_bias = kAttentionBias,
                        .out_bias = kAttentionBias,
                        .head_norm = HeadNorm::each,
                        .windows = Windows::listed,
                        .window = 0,
                        .pattern = 1,
                        .experts_key = "n_routed_experts",
                        .top_k = 1,
                        .expert_width = "moe_intermediate_size",
                        .shared_count = "n_shared_experts",
                        .first_dense = "first_k_dense_replace"};
constexpr Traits kSolarOpen{.kv_heads = 8,
                            .head_dim = 128,
                            .qkv_bias = kAttentionBias,
                            .experts_key = "n_routed_experts",
                            .experts = 128,
                            .top_k = 8,
                            .expert_width = "moe_intermediate_size",
                            .shared_count = "n_shared_experts",
                            .shared_absent = 1,
                            .every_layer_sparse = true};
constexpr Traits kErnie{.tied = true, .qkv_bias = kUseBias, .out_bias = kUseBias, .mlp_bias = kUseBias};
constexpr Traits ernie_dense() {
  Traits t = kErnie;
  t.kv_heads = 2;
  t.head_dim = 128;
  return t;
}
constexpr Traits ernie_moe() {
  Traits t = kErnie;
  t.kv_heads = 4;
  t.experts_key = "moe_num_experts";
  t.experts = 64;
  t.top_k = 6;
  t.expert_width = "moe_intermediate_size";
  t.shared_count = "moe_num_shared_experts";
  t.shared_absent = 2;
  t.first_dense = "moe_layer_start_index";
  t.dense_layers = 1;
  return t;
}
constexpr Traits kExaone4{.head_norm = HeadNorm::each, .norms = NormPlace::after, .windows = Windows::listed, .pattern = 4};
constexpr Traits kExaoneMoe{.head_norm = HeadNorm::each,
                            .windows = Windows::listed,
                            .pattern = 4,
                            .experts_key = "num_experts",
                            .experts = 64,
                            .top_k = 8,
                            .expert_width = "moe_intermediate_size",
                            .shared_count = "num_shared_experts",
                            .shared_absent = 1,
                            .first_dense = "first_k_dense_replace",
                            .dense_layers = 1};
constexpr Traits kOlmo{.qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .norm_weights = 0};
constexpr Traits olmo2(Windows windows) {
  Traits t{.qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .head_norm = HeadNorm::whole, .norms = NormPlace::after};
  t.windows = windows;
  t.pattern = 4;
  return t;
}
constexpr Traits olmo_experts(NormPlace norms, std::int64_t experts, std::int64_t top_k) {
  Traits t{.qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .head_norm = HeadNorm::whole, .norms = norms};
  t.experts_key = "num_experts";
  t.experts = experts;
  t.top_k = top_k;
  return t;
}
constexpr Traits kPhi{.qkv_bias = kAlways,
                      .out_bias = kAlways,
                      .mlp_bias = kAlways,
                      .head_bias = kAlways,
                      .head_norm = HeadNorm::each,
                      .head_norm_on = {"qk_layernorm"},
                      .head_norm_weights = 2,
                      .norm_weights = 2,
                      .norms = NormPlace::parallel,
                      .gated = false,
                      .rotary = 0.5,
                      .dropout = "resid_pdrop"};
constexpr Traits kPhimoe{.kv_heads = 8,
                         .qkv_bias = kAttentionBias,
                         .out_bias = kAttentionBias,
                         .head_bias = {"lm_head_bias"},
                         .norm_weights = 2,
                         .windows = Windows::all,
                         .window = 0,
                         .experts_key = "num_local_experts",
                         .experts = 16,
                         .top_k = 2};
constexpr Traits kPersimmon{.qkv_bias = kAlways,
                            .out_bias = kAlways,
                            .mlp_bias = kAlways,
                            .head_norm = HeadNorm::each,
                            .head_norm_on = {"qk_layernorm", true},
                            .head_norm_weights = 2,
                            .norm_weights = 2,
                            .gated = false,
                            .rotary = 0.5,
                            .dropout = "hidden_dropout"};
constexpr Traits kStablelm{.qkv_bias = {"use_qkv_bias"},
                           .head_norm = HeadNorm::whole,
                           .head_norm_on = {"qk_layernorm"},
                           .norm_weights = 2,
                           .parallel = {"use_parallel_residual"},
                           .rotary = 0.25,
                           .dropout = "hidden_dropout"};
constexpr Traits kStarcoder2{.kv_heads = 2,
                             .tied = true,
                             .qkv_bias = {"use_bias", true},
                             .out_bias = {"use_bias", true},
                             .mlp_bias = {"use_bias", true},
                             .norm_weights = 2,
                             .gated = false,
                             .dropout = "residual_dropout",
                             .windows = Windows::all,
                             .window = 0};
constexpr Traits kSmollm3{.kv_heads = 4,
                          .qkv_bias = kAttentionBias,
                          .out_bias = kAttentionBias,
                          .mlp_bias = {"mlp_bias"},
                          .positions_left_out = true,
                          .windows = Windows::qwen};
constexpr Traits smollm3() {
  Traits t = kSmollm3;
  t.tied = true;
  return t;
}
constexpr Traits granite_moe(std::string_view shared) {
  Traits t{.qkv_bias = kAttentionBias, .out_bias = kAttentionBias};
  t.experts_key = "num_local_experts";
  t.experts = 8;
  t.top_k = 2;
  t.shared_width = shared;
  return t;
}
constexpr Traits kGraniteSwa{.kv_heads = 4,
                             .tied = true,
                             .qkv_bias = kAttentionBias,
                             .out_bias = kAttentionBias,
                             .mlp_bias = {"mlp_bias"},
                             .sinks = true,
                             .windows = Windows::listed,
                             .window = 128,
                             .pattern = 4};
constexpr Traits kHyperclovax{
    .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .mlp_bias = {"mlp_bias"}, .norms = NormPlace::sandwich};
constexpr Traits cohere(bool second) {
  Traits t{.tied = true, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .norms = NormPlace::parallel};
  t.head_norm = second ? HeadNorm::none : HeadNorm::whole;
  t.head_norm_on = {"use_qk_norm", false};
  t.windows = second ? Windows::listed : Windows::none;
  t.pattern = 4;
  return t;
}
constexpr Traits kNemotron{.qkv_bias = kAttentionBias,
                           .out_bias = kAttentionBias,
                           .mlp_bias = {"mlp_bias"},
                           .norm_weights = 2,
                           .gated = false,
                           .rotary = 0.5};
constexpr Traits kSeedOss{.kv_heads = 8,
                          .head_dim = 128,
                          .qkv_bias = {"attention_bias", true},
                          .out_bias = {"attention_out_bias"},
                          .mlp_bias = {"mlp_bias"},
                          .dropout = "residual_dropout",
                          .dropout_absent = 0.1,
                          .score_dropout = 0.1};
constexpr Traits hunyuan(bool experts) {
  Traits t{.qkv_bias = kAttentionBias, .out_bias = kAttentionBias};
  t.head_norm = HeadNorm::each;
  t.head_norm_on = {"use_qk_norm", true};
  if (!experts) return t;
  t.experts_key = "num_experts";
  t.experts = 1;
  t.top_k = 1;
  t.shared_count = "num_shared_expert";
  t.shared_absent = 1;
  return t;
}
constexpr Traits kInternlm3{.kv_heads = 2, .head_dim = 128, .qkv_bias = {"qkv_bias"}, .out_bias = {"bias"}, .mlp_bias = {"bias"}};
constexpr Traits kInternlm2{.qkv_bias = {"bias"}, .out_bias = {"bias"}};
constexpr Traits kApertus{.qkv_bias = kAttentionBias,
                          .out_bias = kAttentionBias,
                          .head_norm = HeadNorm::each,
                          .gated = false,
                          .activation_parameters = 2};
constexpr Traits kFalconH1{.kv_heads = 8,
                           .qkv_bias = kAttentionBias,
                           .out_bias = {"projectors_bias"},
                           .mlp_bias = {"mlp_bias"},
                           .mixer = read_mamba2_mixer,
                           .beside = true};
constexpr Traits kLlama4{.kv_heads = 8,
                         .head_dim = 128,
                         .qkv_bias = kAttentionBias,
                         .out_bias = kAttentionBias,
                         .positions_left_out = true,
                         .experts_key = "num_local_experts",
                         .experts = 16,
                         .top_k = 1,
                         .chunks = true};
constexpr Traits kArcee{.qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .mlp_bias = {"mlp_bias"}, .gated = false};
constexpr Traits kBitnet{.qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .sub_norm = 1};
constexpr Traits kCwm{.kv_heads = 8, .head_dim = 128, .windows = Windows::listed, .window = 8192, .pattern = 4};
constexpr Traits kJais2{.head_dim = 128,
                        .qkv_bias = {"attention_bias", true},
                        .out_bias = {"attention_bias", true},
                        .mlp_bias = {"mlp_bias", true},
                        .norm_weights = 2,
                        .gated = false};
constexpr Traits kNanochat{.qkv_bias = kAttentionBias,
                           .out_bias = kAttentionBias,
                           .head_norm = HeadNorm::each,
                           .head_norm_weights = 0,
                           .norm_weights = 0,
                           .gated = false,
                           .softcap = true};
constexpr Traits kMinimaxM2{
    .kv_heads = 8, .head_dim = 128, .head_norm = HeadNorm::whole, .experts_key = "num_local_experts", .experts = 256, .top_k = 8};
constexpr Traits kAfmoe{.head_dim = 128,
                        .head_norm = HeadNorm::each,
                        .norms = NormPlace::sandwich,
                        .output_gate = true,
                        .windows = Windows::listed,
                        .window = 1024,
                        .pattern = 4,
                        .experts_key = "num_experts",
                        .experts = 64,
                        .top_k = 6,
                        .expert_width = "moe_intermediate_size",
                        .shared_count = "num_shared_experts",
                        .shared_absent = 2,
                        .first_dense = "num_dense_layers",
                        .dense_layers = 1};

constexpr Traits kBamba{
    .kv_heads = 8, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias, .mlp_bias = {"mlp_bias"}, .mixer = read_mamba2_mixer};
constexpr Traits granite_hybrid() {
  Traits t = granite_moe("shared_intermediate_size");
  t.shared_absent = 1024;
  t.mixer = read_mamba2_mixer;
  return t;
}
constexpr Traits kJamba{
    .kv_heads = 8, .rotary = 0, .experts_key = "num_experts", .experts = 16, .top_k = 2, .mixer = read_mamba_mixer};
constexpr Traits qwen_delta(std::int64_t kv_heads, bool experts) {
  Traits t{.kv_heads = kv_heads, .head_dim = 256, .qkv_bias = kAttentionBias, .out_bias = kAttentionBias};
  t.head_norm = HeadNorm::each;
  t.output_gate = true;
  t.rotary = 0.25;
  t.mixer = read_delta_mixer;
  t.attention_every = 4;
  if (!experts) return t;
  t.experts_key = "num_experts";
  t.experts = 512;
  t.top_k = 10;
  t.expert_width = "moe_intermediate_size";
  t.shared_width = "shared_expert_intermediate_size";
  t.shared_absent = 512;
  t.shared_gate = true;
  return t;
}
/// Returns the traits of Qwen3.5, with multi-token prediction: a block after two norms and a projection, as in
/// add_prediction.
constexpr Traits qwen3_5_dense() {
  Traits t = qwen_delta(4, false);
  t.prediction = "mtp_num_hidden_layers";
  return t;
}
constexpr Traits qwen_delta_sparse(std::int64_t experts, std::int64_t top_k) {
  Traits t = qwen_delta(2, true);
  t.experts = experts;
  t.top_k = top_k;
  t.every_layer_sparse = true;
  t.prediction = "mtp_num_hidden_layers";
  return t;
}
constexpr Traits minimax() {
  Traits t = kMixtral;
  t.windows = Windows::none;
  t.mixer = read_lightning_mixer;
  t.attention_every = 2;
  return t;
}
constexpr Traits kLfm2{.kv_heads = 8, .tied = true, .head_norm = HeadNorm::each, .mixer = read_conv_mixer, .adjusts_width = true};
constexpr Traits lfm2_moe() {
  Traits t = kLfm2;
  t.adjusts_width = false;
  t.experts_key = "num_experts";
  t.experts = 32;
  t.top_k = 4;
  t.expert_width = "moe_intermediate_size";
  t.first_dense = "num_dense_layers";
  t.dense_layers = 2;
  return t;
}

constexpr std::array kRows = std::to_array<DecoderFamily>({
    {"afmoe", "Afmoe", kAfmoe},
    {"apertus", "Apertus", kApertus},
    {"arcee", "Arcee", kArcee},
    {"bamba", "Bamba", kBamba},
    {"bitnet", "BitNet", kBitnet},
    {"cohere", "Cohere", cohere(false)},
    {"cohere2", "Cohere2", cohere(true)},
    {"cwm", "Cwm", kCwm},
    {"dots1", "Dots1", kDots1},
    {"ernie4_5", "Ernie4_5", ernie_dense()},
    {"ernie4_5_moe", "Ernie4_5_Moe", ernie_moe()},
    {"exaone", "Exaone", Traits{}},
    {"exaone4", "Exaone4", kExaone4},
    {"exaone_moe", "ExaoneMoe", kExaoneMoe},
    {"falcon_h1", "FalconH1", kFalconH1},
    {"flex_olmo", "FlexOlmo", olmo_experts(NormPlace::after, 7, 5)},
    {"gemma", "Gemma", gemma(16, 16, 256, 256000)},
    {"gemma2", "Gemma2", gemma2()},
    {"gemma3_text", "Gemma3Text", gemma3()},
    {"glm", "Glm", kGlm},
    {"glm4", "Glm4", kGlm4},
    {"glm4_moe", "Glm4Moe", kGlm4Moe},
    {"gpt_oss", "GptOss", kGptOss},
    {"granite", "Granite", kLlama},
    {"granite_swa", "GraniteSwa", kGraniteSwa},
    {"granitemoe", "GraniteMoe", granite_moe({})},
    {"granitemoehybrid", "GraniteMoeHybrid", granite_hybrid()},
    {"granitemoeshared", "GraniteMoeShared", granite_moe("shared_intermediate_size")},
    {"helium", "Helium", kLlama},
    {"hunyuan_v1_dense", "HunYuanDenseV1", hunyuan(false)},
    {"hunyuan_v1_moe", "HunYuanMoEV1", hunyuan(true)},
    {"hyperclovax", "HyperCLOVAX", kHyperclovax},
    {"internlm2", "InternLM2", kInternlm2},
    {"internlm3", "InternLM3", kInternlm3},
    {"jais2", "Jais2", kJais2},
    {"jamba", "Jamba", kJamba},
    {"lfm2", "Lfm2", kLfm2},
    {"lfm2_moe", "Lfm2Moe", lfm2_moe()},
    {"llama", "Llama", kLlama},
    {"llama4_text", "Llama4", kLlama4},
    {"minimax", "MiniMax", minimax()},
    {"minimax_m2", "MiniMaxM2", kMinimaxM2},
    {"ministral", "Ministral", kMinistral},
    {"ministral3", "Ministral3", kMinistral3},
    {"mistral", "Mistral", kMistral},
    {"mixtral", "Mixtral", kMixtral},
    {"nanochat", "NanoChat", kNanochat},
    {"nemotron", "Nemotron", kNemotron},
    {"olmo", "Olmo", kOlmo},
    {"olmo2", "Olmo2", olmo2(Windows::none)},
    {"olmo3", "Olmo3", olmo2(Windows::listed)},
    {"olmoe", "Olmoe", olmo_experts(NormPlace::before, 64, 8)},
    {"persimmon", "Persimmon", kPersimmon},
    {"phi", "Phi", kPhi},
    {"phi3", "Phi3", kPhi3},
    {"phimoe", "PhiMoE", kPhimoe},
    {"qwen2", "Qwen2", kQwen2},
    {"qwen2_moe", "Qwen2Moe", kQwen2Moe},
    {"qwen3", "Qwen3", kQwen3},
    {"qwen3_moe", "Qwen3Moe", kQwen3Moe},
    {"qwen3_5_moe_text", "Qwen3_5MoeText", qwen_delta_sparse(256, 8)},
    {"qwen3_5_text", "Qwen3_5Text", qwen3_5_dense()},
    {"qwen3_next", "Qwen3Next", qwen_delta(2, true)},
    {"seed_oss", "SeedOss", kSeedOss},
    {"smollm3", "SmolLM3", smollm3()},
    {"solar_open", "SolarOpen", kSolarOpen},
    {"stablelm", "StableLm", kStablelm},
    {"starcoder2", "Starcoder2", kStarcoder2},
    {"vaultgemma", "VaultGemma", vaultgemma()},
});

}  // namespace

std::span<const DecoderFamily> decoder_families() { return kRows; }

const Traits* decoder_traits(std::string_view type) {
  const auto at = std::find_if(kRows.begin(), kRows.end(), [&](const DecoderFamily& row) { return row.type == type; });
  return at == kRows.end() ? nullptr : &at->traits;
}

}  // namespace espalier::model
