// SPDX-License-Identifier: Apache-2.0
// Builds small models and clusters for the tests of this module by hand, so that every number is visible.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/plan.h"

namespace espalier::plan_test {

inline Operator linear(std::string name, std::int64_t in, std::int64_t out, TpSplit split) {
  Operator op;
  op.kind = OperatorKind::linear;
  op.name = std::move(name);
  op.in = in;
  op.out = out;
  op.split = split;
  op.parameters = in * out;
  return op;
}

inline Operator attention(std::int32_t heads, std::int32_t kv_heads, std::int32_t head_dim, bool causal,
                          std::int64_t window = 0) {
  Operator op;
  op.kind = OperatorKind::attention;
  op.name = "attn.core";
  op.split = TpSplit::heads;
  op.heads = heads;
  op.kv_heads = kv_heads;
  op.qk_dim = op.v_dim = head_dim;
  op.causal = causal;
  op.window = window;
  return op;
}

struct Shape {
  std::int32_t blocks = 8;
  std::int32_t heads = 8;
  std::int32_t kv_heads = 8;
  std::int32_t head_dim = 16;
  std::int64_t ffn = 512;
  std::int64_t vocabulary = 1000;
  std::int32_t experts = 0;
  std::int64_t expert_ffn = 256;
};

/// Returns an embedding, `blocks` equal decoder blocks and a head.
inline Model decoder(const Shape& shape) {
  const std::int64_t h = std::int64_t{shape.heads} * shape.head_dim;
  const std::int64_t kv = std::int64_t{shape.kv_heads} * shape.head_dim;
  Model model;
  model.name = "toy";
  model.family = "llama";
  model.vocabulary = shape.vocabulary;
  LayerKind embedding;
  embedding.name = "embedding";
  embedding.role = LayerRole::embedding;
  embedding.hidden = h;
  Operator table = linear("embed", 0, h, TpSplit::vocab);
  table.kind = OperatorKind::embedding;
  table.parameters = shape.vocabulary * h;
  embedding.operators = {table};
  LayerKind block;
  block.name = "decoder";
  block.hidden = h;
  block.operators = {linear("attn.qkv", h, h + 2 * kv, TpSplit::column),
                     attention(shape.heads, shape.kv_heads, shape.head_dim, true), linear("attn.out", h, h, TpSplit::row),
                     linear("mlp.up", h, shape.ffn, TpSplit::column), linear("mlp.down", shape.ffn, h, TpSplit::row)};
  if (shape.experts > 0) {
    Operator up = linear("moe.up", h, shape.expert_ffn, TpSplit::column);
    up.kind = OperatorKind::expert_linear;
    up.experts = shape.experts;
    up.top_k = 1;
    up.parameters *= shape.experts;
    Operator down = linear("moe.down", shape.expert_ffn, h, TpSplit::row);
    down.kind = OperatorKind::expert_linear;
    down.experts = shape.experts;
    down.top_k = 1;
    down.parameters *= shape.experts;
    block.operators.push_back(up);
    block.operators.push_back(down);
  }
  LayerKind head;
  head.name = "head";
  head.role = LayerRole::head;
  head.hidden = h;
  head.operators = {linear("head.logits", h, shape.vocabulary, TpSplit::vocab)};
  model.kinds = {embedding, block, head};
  model.layers.push_back(0);
  model.layers.insert(model.layers.end(), static_cast<std::size_t>(shape.blocks), 1);
  model.layers.push_back(2);
  return model;
}

/// Returns a model with shifted windows over 3136 = 56² and 784 = 28² patches: two block kinds, 3 and 6 heads.
inline Model windowed() {
  Model model = decoder({4, 3, 3, 32, 384, 1000, 0, 0});
  model.vision = true;
  LayerKind second = model.kinds[1];
  for (LayerKind* kind : {&model.kinds[0], &model.kinds[1], &model.kinds[2], &second}) {
    kind->stream = TokenStream::fixed;
    kind->fixed_tokens = kind->boundary_tokens_fixed = 3136;
  }
  model.kinds[1].operators[1] = attention(3, 3, 32, false, 49);
  second.fixed_tokens = second.boundary_tokens_fixed = 784;
  second.operators = {attention(6, 6, 32, false, 49), linear("mlp.up", 192, 768, TpSplit::column),
                      linear("mlp.down", 768, 192, TpSplit::row)};
  model.kinds.push_back(second);
  model.layers = {0, 1, 1, 3, 3, 2};
  return model;
}

inline Cluster cluster(std::int64_t nodes, std::int64_t devices_per_node) {
  Cluster c;
  c.name = "toy-cluster";
  NodeGroup group;
  group.nodes = nodes;
  group.devices_per_node = devices_per_node;
  group.device.name = "toy";
  c.groups = {group};
  return c;
}

inline Training training(std::int64_t sequence, std::int64_t global_batch) {
  Training t;
  t.sequence.main = sequence;
  t.global_batch = global_batch;
  return t;
}

/// Returns the strategy of a stage over tp·dp devices.
inline Strategy spread(std::int32_t tp, std::int32_t dp, SequenceParallel sp = SequenceParallel::none) {
  Strategy s;
  s.tp = tp;
  s.dp = dp;
  s.sp = sp;
  return s;
}

}  // namespace espalier::plan_test
