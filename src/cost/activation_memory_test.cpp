// SPDX-License-Identifier: Apache-2.0
#include "cost/activation_memory.h"

#include <gtest/gtest.h>

#include "espalier/model.h"
#include "plan/engine.h"

namespace espalier::cost::activation_memory_test {
namespace {

// One GPT layer of Korthikanti et al. 2022 (GPT-3 175B): s = 2048, b = 1, h = 12288, a = 96.
constexpr std::int64_t s = 2048, b = 1, h = 12288, a = 96, t = 8;

LayerKind gpt_block() {
  DecoderShape shape;
  shape.layers = 2;
  shape.hidden = h;
  shape.ffn = 4 * h;
  shape.heads = a;
  shape.kv_heads = a;
  shape.vocabulary = 51200;
  shape.max_positions = s;
  shape.dropout = true;
  const auto model = make_decoder(shape, "gpt3");
  EXPECT_TRUE(model.ok());
  for (const LayerKind& kind : model->kinds)
    if (kind.role == LayerRole::block) return kind;
  return {};
}

LayerGeometry geometry(std::int32_t tp, bool sequence_parallel) {
  LayerGeometry g;
  g.tokens = b * s;
  g.keys = s;
  g.split = tp;
  g.sequence_split = sequence_parallel ? tp : 1;
  return g;
}

using enum RecomputeModule;

SavedBytes saved(std::int32_t tp, bool sp) {
  LayerGeometry g = geometry(tp, sp);
  g.again = {core_attn};
  return saved_activations(gpt_block(), g, ActivationPolicy::megatron_2022_unfused);
}

// The six expressions of the paper (equations 1, 2, 4, table 2). Here 5as/h is an integer multiple: 5·96·2048/12288
// = 80.
TEST(SavedActivations, NoneIsThirtyFourPlusScores) { EXPECT_EQ(saved(1, false).none, s * b * h * (34 + 5 * a * s / h)); }
TEST(SavedActivations, TensorParallel) { EXPECT_EQ(saved(t, false).none, s * b * h * (10 + 24 / t) + 5 * a * s * s * b / t); }
TEST(SavedActivations, TensorAndSequenceParallel) { EXPECT_EQ(saved(t, true).none, s * b * h / t * (34 + 5 * a * s / h)); }
TEST(SavedActivations, SelectiveWithTensorParallel) { EXPECT_EQ(saved(t, false).selective, s * b * h * (10 + 24 / t)); }
TEST(SavedActivations, SelectiveWithTensorAndSequenceParallel) { EXPECT_EQ(saved(t, true).selective, 34 * s * b * h / t); }
TEST(SavedActivations, FullKeepsTheInput) {
  EXPECT_EQ(saved(1, false).full, 2 * s * b * h);
  EXPECT_EQ(saved(t, true).full, 2 * s * b * h);
}

// A block of a tower: w = 8 wide, 2 heads, gated MLP of 10, 128 patches. Norms keep (2·8 + 4) twice, and qkv and
// gate_up 2·8 each of their inputs. Queries, keys, values and output keep 4·2·8, the softmax 4·2, gate and up 2·20,
// the input of the down projection 2·10: 204 bytes per patch.
TEST(SavedActivations, ATowerKeepsWhatItsPatchesNeed) {
  const auto model =
      load_model(R"({"model_type": "qwen2_5_vl", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 32, "vision_config": {"depth": 3, "hidden_size": 8, "intermediate_size": 10,
    "num_heads": 2, "patch_size": 2, "fullatt_block_indexes": [1], "window_size": 4, "out_hidden_size": 16}})",
                 "test");
  ASSERT_TRUE(model.ok());
  LayerGeometry g;
  g.tokens = 128;
  g.keys = 64;
  const LayerKind& whole = model->layer(2);
  EXPECT_EQ(whole.name, "tower");
  EXPECT_EQ(saved_activations(whole, g, ActivationPolicy::fused_attention).none, 128 * 204);
  // The scores are of 64 patches of an image, or of the 4 of a window: 2 heads · 2 bytes each.
  const std::int64_t unfused = saved_activations(whole, g, ActivationPolicy::megatron_2022_unfused).none;
  const LayerKind window = model->layer(3);
  const std::int64_t inside = saved_activations(window, g, ActivationPolicy::megatron_2022_unfused).none;
  EXPECT_EQ(unfused - inside, 128 * 2 * 2 * (64 - 4));
}

// The head of 1,000 words on 8 ranks, 10 tokens each, keeps an fp32 softmax. The logits come before it and their
// gradient after it.
TEST(SavedActivations, TheLossKeepsWhatTheEngineSays) {
  LayerKind head;
  head.role = LayerRole::head;
  Operator logits, loss;
  logits.kind = OperatorKind::linear;
  logits.in = 64;
  logits.out = 1000;
  logits.split = TpSplit::vocab;
  loss.kind = OperatorKind::cross_entropy;
  loss.in = 1000;
  loss.out = 1;
  loss.split = TpSplit::vocab;
  head.operators = {logits, loss};
  LayerGeometry g;
  g.tokens = 10;
  g.split = g.weight_split = 8;
  EXPECT_EQ(saved_activations(head, g, ActivationPolicy::fused_attention).none, 2 * 10 * 64 + 4 * 10 * 1000 / 8);
  TransientBytes working = transient_activations(head, g, ActivationPolicy::fused_attention);
  EXPECT_EQ(working.forward, 2 * 10 * 1000 / 8);
  EXPECT_EQ(working.backward, 2 * 10 * 1000 / 8);
  g.loss = {4, 10, 2};  // bf16 logits, fp32 copy, shifted copy together with the exponential
  working = transient_activations(head, g, ActivationPolicy::fused_attention);
  EXPECT_EQ(working.forward, 10 * 10 * 1000 / 8);
}

// 8-bit products keep their inputs in a byte. In a GPT layer without dropout, the inputs of QKV and of the first
// linear (after a norm) and of the second (4h) lose one byte per element. Attention keeps the input of the projection
// in 16 bits; the projection keeps a cast of its own.
TEST(SavedActivations, EightBitProductsKeepBytes) {
  LayerGeometry g = geometry(1, false);
  const std::int64_t wide = saved_activations(gpt_block(), g, ActivationPolicy::fused_attention).none;
  g.operand_size = 32;
  const std::int64_t eight = saved_activations(gpt_block(), g, ActivationPolicy::fused_attention).none;
  EXPECT_EQ(wide - eight, s * b * (h + h + 4 * h - h));
  g.operand_size = 18;  // NVFP4: the inputs of the four products lose 14/32 bytes per element
  const std::int64_t four = saved_activations(gpt_block(), g, ActivationPolicy::fused_attention).none;
  EXPECT_EQ(eight - four, s * b * (h + h + h + 4 * h) * 14 / 32);
}

// A look-up works on its output, not on one value per row of the table.
TEST(SavedActivations, AnEmbeddingReadsIndices) {
  LayerKind kind;
  Operator table;
  table.kind = OperatorKind::embedding;
  table.in = 100000;
  table.out = 64;
  table.split = TpSplit::vocab;
  kind.operators = {table};
  LayerGeometry g;
  g.tokens = 10;
  EXPECT_EQ(transient_activations(kind, g, ActivationPolicy::fused_attention).backward, 2 * 10 * 64);
}

// Four tokens, 64 wide, a gated MLP of 100 under 4-way tensor and sequence parallelism. Eager kernels also keep the
// activated gate.
TEST(SavedActivations, EagerGate) {
  LayerKind kind;
  kind.hidden = 64;
  Operator up, gate;
  up.kind = OperatorKind::linear;
  up.in = 64;
  up.out = 200;
  up.split = TpSplit::column;
  gate.kind = OperatorKind::activation;
  gate.in = 200;
  gate.out = 100;
  gate.split = TpSplit::heads;
  kind.operators = {up, gate};
  LayerGeometry g;
  g.tokens = 4;
  g.split = g.sequence_split = g.weight_split = 4;
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, 2 * 64 + 2 * 200);
  g.eager_gate = true;
  g.again = {layernorm, act};
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, 2 * 64 + 2 * 300);
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).selective, 2 * 64 + 2 * 200);
  g.again.add(every_second_mm);  // up runs again, gate is kept
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, 2 * 64 + 2 * 300);
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).selective, 2 * 64 + 2 * 100);
  // The backward holds the input gathered again and its gradient, both whole, and the gradient of the output.
  EXPECT_EQ(transient_activations(kind, g, ActivationPolicy::fused_attention).backward, 2 * (4 * 2 * 64) + 2 * 200);
}

// 10 tokens, 8 query heads and 2 of keys and values, 16 wide. q and k are kept as rotated and as projected, v and the
// output once.
TEST(SavedActivations, RotationMayCopyQueriesAndKeys) {
  LayerKind kind;
  Operator core;
  core.kind = OperatorKind::attention;
  core.split = TpSplit::heads;
  core.heads = 8;
  core.kv_heads = 2;
  core.qk_dim = core.v_dim = 16;
  kind.operators = {core};
  LayerGeometry g;
  g.tokens = 10;
  const std::int64_t once = 10 * (2 * 16 * (8 + 2 + 2 + 8) + 4 * 8);
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, once);
  g.copies_rotated = true;
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, once + 10 * 2 * 16 * (8 + 2));
}

// Half of what a block keeps waits in host memory; nothing does for other layers.
TEST(SavedActivations, BlocksMayWaitInHostMemory) {
  LayerGeometry g = geometry(1, false);
  const SavedBytes here = saved_activations(gpt_block(), g, ActivationPolicy::fused_attention);
  EXPECT_EQ(hosted_activations(gpt_block(), g, here).none, 0);
  g.offloaded = 0.5;
  const SavedBytes half = hosted_activations(gpt_block(), g, here);
  EXPECT_EQ(half.none, here.none / 2);
  EXPECT_EQ(half.full, s * b * h);
  EXPECT_EQ(half.under(RecomputeKind::selective), here.selective / 2);
  LayerKind head = gpt_block();
  head.role = LayerRole::head;
  EXPECT_EQ(hosted_activations(head, g, here).none, 0);
}

// Megatron's cpu_offloading_num_layers is less than the number of layers. 3 of 4 blocks wait, counted as three
// quarters of each.
TEST(SavedActivations, AnEngineMayLeaveBlocksOnTheDevice) {
  Model model;
  model.kinds = {gpt_block()};
  model.layers.assign(4, 0);
  EngineModel engine;
  EXPECT_EQ(offloaded_share(engine, model), 1.0);
  engine.memory.blocks_on_device = 1;
  EXPECT_EQ(offloaded_share(engine, model), 0.75);
  engine.memory.offloaded_activations = 0.5;
  EXPECT_EQ(offloaded_share(engine, model), 0.375);
  engine.memory.blocks_on_device = 5;
  EXPECT_EQ(offloaded_share(engine, model), 0.0);
}

// Ten tokens of latents of 16 and 12 features; two heads of 8 and 4. The layer keeps the latents 320 + 240, queries
// 320, keys and values 480, output and log-sum-exp 240. With recomputed up-projections it keeps neither queries nor
// keys and values.
TEST(SavedActivations, UpProjectionsOfLatentsCanBeMadeAgain) {
  LayerKind kind;
  kind.hidden = 64;
  Operator queries, keys, core;
  queries.split = keys.split = TpSplit::column;
  queries.in = 16;
  queries.out = 2 * 8;
  keys.in = 12;
  keys.out = 2 * (8 + 4);
  core.kind = OperatorKind::attention;
  core.split = TpSplit::heads;
  core.heads = core.kv_heads = 2;
  core.qk_dim = 8;
  core.v_dim = 4;
  kind.operators = {queries, keys, core};
  LayerGeometry g;
  g.tokens = g.keys = 10;
  const SavedBytes plain = saved_activations(kind, g, ActivationPolicy::fused_attention);
  EXPECT_EQ(plain.none, 1600);
  EXPECT_EQ(plain.selective, 1600);
  g.again = {mla_up_proj};
  const SavedBytes again = saved_activations(kind, g, ActivationPolicy::fused_attention);
  EXPECT_EQ(again.none, 1600);
  EXPECT_EQ(again.selective, 800);
  kind.hidden = 16;  // a width of the layer's own is no latent
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).selective, 1600 - 480);
}

/// Returns one of the operators around four experts, where a token meets two.
Operator of_experts(OperatorKind what, std::int64_t in, std::int64_t out) {
  Operator o;
  o.kind = what;
  o.in = in;
  o.out = out;
  o.experts = 4;
  o.top_k = 2;
  return o;
}

// Ten tokens go to two experts each: 20 copies of 64 features dispatched, 256 into the activation, 128 out of it, 64
// combined, two bytes each.
TEST(SavedActivations, ExpertsKeepWhatTheirEngineSays) {
  LayerKind kind;
  kind.hidden = 64;
  kind.operators = {of_experts(OperatorKind::dispatch, 64, 64), of_experts(OperatorKind::expert_linear, 64, 256),
                    of_experts(OperatorKind::expert_activation, 256, 128), of_experts(OperatorKind::expert_linear, 128, 64),
                    of_experts(OperatorKind::combine, 64, 64)};
  LayerGeometry g;
  g.tokens = 10;
  const auto saved = [&] { return saved_activations(kind, g, ActivationPolicy::fused_attention); };
  EXPECT_EQ(saved().none, 40 * (64 + 256 + 128 + 64));
  g.weighs_inside_experts = true;
  EXPECT_EQ(saved().none, 40 * (64 + 256 + 128));
  g.again = {moe_act};
  EXPECT_EQ(saved().selective, 40 * (64 + 256));
  g.activation_size = 32;
  EXPECT_EQ(saved().selective, 40 * 64 + 20 * 256);
}

// Experts without a gate: 128 features go into the activation and out of it, and a product of their own weights them.
// It keeps its factor in addition to what the second linear keeps; made again, neither is kept.
TEST(SavedActivations, WeightingBehindAPlainActivationKeepsItsFactor) {
  LayerKind kind;
  kind.hidden = 64;
  kind.operators = {of_experts(OperatorKind::dispatch, 64, 64), of_experts(OperatorKind::expert_linear, 64, 128),
                    of_experts(OperatorKind::expert_activation, 128, 128), of_experts(OperatorKind::expert_linear, 128, 64)};
  kind.operators.back().split = TpSplit::row;
  LayerGeometry g;
  g.tokens = 10;
  const auto saved = [&] { return saved_activations(kind, g, ActivationPolicy::fused_attention); };
  EXPECT_EQ(saved().none, 40 * (64 + 128 + 128));
  g.weighs_inside_experts = true;
  EXPECT_EQ(saved().none, 40 * (64 + 128 + 2 * 128));
  g.again = {moe_act};
  EXPECT_EQ(saved().selective, 40 * (64 + 128));
  g.expert_split = 2;  // all ranks of the group have the same tokens, and half the features each
  EXPECT_EQ(saved().none, 40 * 64 + 20 * (128 + 2 * 128));
  kind.operators.back().frozen = true;  // the gradient of the copies' weights still needs the factor
  EXPECT_EQ(saved().none, 40 * 64 + 20 * (128 + 128));
}

// Ten tokens, four heads, 10 keys, two bytes, over two ranks: 400; with a window of 3 keys 120.
TEST(SavedActivations, TheScoreBufferIsThatOfTheLargestAttention) {
  LayerKind kind;
  Operator core;
  core.kind = OperatorKind::attention;
  core.heads = core.kv_heads = 4;
  core.qk_dim = core.v_dim = 8;
  core.window = 3;
  kind.operators = {core};
  LayerGeometry g;
  g.tokens = g.keys = 10;
  g.split = 2;
  EXPECT_EQ(score_buffer(kind, g), 120);
  core.window = 0;
  kind.operators.push_back(core);
  EXPECT_EQ(score_buffer(kind, g), 400);
}

// Two frozen linears of 8 features read the same tensor of 10 tokens, each with an adapter of rank 3. They keep the
// input once, 2·10·8, and 2·10·3 between the matrices of either adapter.
TEST(SavedActivations, EveryAdapterKeepsWhatIsBetweenItsMatrices) {
  LayerKind kind;
  kind.hidden = 8;
  for (const char* name : {"q", "k"}) {
    Operator op;
    op.kind = OperatorKind::linear;
    op.name = name;
    op.in = op.out = 8;
    op.split = TpSplit::column;
    op.parameters = 64;
    op.frozen = true;
    op.adapters = 1;
    op.adapter_rank = 3;
    op.adapter_out = 8;
    kind.operators.push_back(op);
  }
  LayerGeometry g;
  g.tokens = 10;
  EXPECT_EQ(saved_activations(kind, g, ActivationPolicy::fused_attention).none, 160 + 2 * 60);
}

/// Returns one operator of a block of ten tokens (norm, product, attention, …), named after its role in the sums
/// below.
Operator plain(OperatorKind kind, std::int64_t in, std::int64_t out, TpSplit split = TpSplit::none) {
  Operator o;
  o.kind = kind;
  o.in = in;
  o.out = out;
  o.split = split;
  return o;
}

LayerKind block_of(const std::vector<Operator>& behind_the_norm) {
  LayerKind kind;
  kind.hidden = 64;
  kind.operators = {plain(OperatorKind::norm, 64, 64),
                    plain(OperatorKind::linear, 64, 192, TpSplit::column),
                    plain(OperatorKind::attention, 192, 64, TpSplit::heads),
                    plain(OperatorKind::linear, 64, 64, TpSplit::row),
                    plain(OperatorKind::residual, 64, 64),
                    plain(OperatorKind::norm, 64, 64)};
  Operator& core = kind.operators[2];
  core.heads = core.kv_heads = 4;
  core.qk_dim = core.v_dim = 16;
  kind.operators.insert(kind.operators.end(), behind_the_norm.begin(), behind_the_norm.end());
  kind.operators.push_back(plain(OperatorKind::residual, 64, 64));
  return kind;
}
LayerKind dense_block() {
  return block_of({plain(OperatorKind::linear, 64, 256, TpSplit::column),
                   plain(OperatorKind::activation, 256, 256, TpSplit::heads),
                   plain(OperatorKind::linear, 256, 64, TpSplit::row)});
}
/// Returns a block of four experts of 32 features, where a token meets two, and a shared one.
LayerKind mixture_block() {
  return block_of({of_experts(OperatorKind::router, 64, 4), of_experts(OperatorKind::dispatch, 64, 64),
                   of_experts(OperatorKind::expert_linear, 64, 32), of_experts(OperatorKind::expert_activation, 32, 32),
                   of_experts(OperatorKind::expert_linear, 32, 64), of_experts(OperatorKind::combine, 64, 64),
                   plain(OperatorKind::linear, 64, 32, TpSplit::column), plain(OperatorKind::activation, 32, 32, TpSplit::heads),
                   plain(OperatorKind::linear, 32, 64, TpSplit::row)});
}
LayerGeometry ten_tokens() {
  LayerGeometry g;
  g.tokens = g.keys = 10;
  return g;
}
std::int64_t freed(const LayerKind& kind, RecomputeModules again, LayerGeometry g = ten_tokens()) {
  g.again = again;
  const SavedBytes bytes = saved_activations(kind, g, ActivationPolicy::fused_attention);
  return bytes.none - bytes.selective;
}

// Two norms keep 2·64 + 4 per token each, and qkv reads 128. q, k, v and output keep 4·128, the log-sum-exp 4·4; up
// reads 128, GELU and down 512 each: 2072 per token. Attention by a fused kernel frees its log-sum-exp, 16 of them:
// less than one per cent.
TEST(RecomputedModules, OfADenseBlock) {
  const LayerKind kind = dense_block();
  const std::int64_t all = saved_activations(kind, ten_tokens(), ActivationPolicy::fused_attention).none;
  EXPECT_EQ(all, 10 * 2072);
  EXPECT_EQ(freed(kind, {core_attn}), 10 * 16);
  EXPECT_LT(freed(kind, {core_attn}), all / 100);
  EXPECT_EQ(freed(kind, {layernorm}), 10 * 2 * 128);
  EXPECT_EQ(freed(kind, {act}), 10 * 512);
  EXPECT_EQ(freed(kind, {mlp}), 10 * (512 + 512));
  EXPECT_EQ(freed(kind, {mlp, act}), 10 * (512 + 512));
  EXPECT_EQ(freed(kind, {mlp, layernorm}), 10 * (512 + 512 + 2 * 128));
  EXPECT_EQ(freed(kind, {moe, moe_act, mla_up_proj, shared_experts, every_second_mm, grouped_mm}), 0);
  LayerGeometry g = ten_tokens();
  g.fuses_norms = true;  // no module of their own; the MLP frees its norm's output as well
  EXPECT_EQ(freed(kind, {layernorm}, g), 0);
  EXPECT_EQ(freed(kind, {mlp}, g), 10 * (512 + 512 + 128));
  g.split = 2;  // split between the products, whole before them
  EXPECT_EQ(freed(kind, {mlp}, g), 10 * ((512 + 512) / 2 + 128));
}

// The projection behind attention keeps attention's output, unless it casts it, keeps a copy of its own, or is
// frozen.
TEST(RecomputedModules, WhoeverReadsTheOutputOfAttentionKeepsIt) {
  LayerKind kind = dense_block();
  LayerGeometry g = ten_tokens();
  g.copies_attention_output = true;
  EXPECT_EQ(freed(kind, {core_attn}, g), 10 * (16 + 128));
  g = ten_tokens();
  g.operand_size = 32;
  EXPECT_EQ(freed(kind, {core_attn}, g), 10 * (16 + 128));
  kind.operators[3].frozen = true;
  EXPECT_EQ(freed(kind, {core_attn}), 10 * (16 + 128));
}

// There are twenty copies of tokens. The router keeps 4·4 per token; dispatched and combined tokens take 128 per
// copy, activation and second product 64 each. The shared expert reads 128 per token, which the router reads as well;
// its activation and second product take 64 each.
TEST(RecomputedModules, OfAMixture) {
  const LayerKind kind = mixture_block();
  EXPECT_EQ(saved_activations(kind, ten_tokens(), ActivationPolicy::fused_attention).none,
            10 * (2 * 132 + 128 + 4 * 128 + 16 + 16 + 128 + 64 + 64) + 20 * (128 + 64 + 64 + 128));
  EXPECT_EQ(freed(kind, {mlp}), 0);
  EXPECT_EQ(freed(kind, {moe_act}), 20 * 64);
  EXPECT_EQ(freed(kind, {shared_experts}), 10 * (64 + 64));
  EXPECT_EQ(freed(kind, {moe}), 10 * (16 + 64 + 64) + 20 * (128 + 64 + 64 + 128));
  EXPECT_EQ(freed(kind, {moe, layernorm}), 10 * (16 + 64 + 64 + 2 * 128) + 20 * (128 + 64 + 64 + 128));
  EXPECT_EQ(freed(kind, {layernorm}), 10 * 2 * 128);
  EXPECT_EQ(freed(kind, {grouped_mm}), 20 * (128 + 64 + 64 + 128));
  LayerGeometry g = ten_tokens();
  g.exchanges_tokens = true;  // outputs of exchanges are saved
  EXPECT_EQ(freed(kind, {grouped_mm}, g), 20 * (64 + 64));
  g.weighs_inside_experts = true;  // the factor of the weights is made again as well
  EXPECT_EQ(freed(kind, {grouped_mm}, g), 20 * (64 + 64 + 64));
  g = ten_tokens();
  g.operand_size = 32;  // the router keeps two bytes per element, products keep casts: the two bytes remain
  EXPECT_EQ(freed(kind, {moe}, g), 10 * (16 + 64 + 64 + 32) + 20 * (64 + 64 + 32 + 128));
}

}  // namespace
}  // namespace espalier::cost::activation_memory_test
