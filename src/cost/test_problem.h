// SPDX-License-Identifier: Apache-2.0
// For tests: a device and a network with round numbers, and layers of a few operators, whose times can be worked out
// on paper.
//
//   1 TFLOP/s at any size, 1 TB/s of memory, no launch, no floor, κ = 1; 1 GB/s between devices, no latency.
//
// So 1000 FLOP take 1 ns, as do 1000 bytes of memory, and a byte on a link takes 1 ns.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cost/layer_cost.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "plan/engine.h"

namespace espalier::cost::test {

/// Returns an engine with its options but without fitted coefficients, so that hand-counted times do not move with a
/// calibration.
inline const EngineModel& plain_engine(std::string_view name) {
  static std::map<std::string, EngineModel, std::less<>> plain;
  const auto known = plain.find(name);
  if (known != plain.end()) return known->second;
  EngineModel engine = *find_engine(name);
  engine.coefficients = FrameworkCoefficients{};
  return plain.emplace(std::string(name), std::move(engine)).first->second;
}

inline Cluster round_cluster(std::int64_t devices) {
  Cluster c;
  NodeGroup group;
  group.devices_per_node = devices;
  DeviceKind& d = group.device;
  d.name = "round";
  d.peak.fill(TFLOPs(1));
  d.memory = GiB(80);
  d.memory_bandwidth = BytesPerSecond(1e12);
  DeviceEfficiency& e = d.efficiency;
  e.gemm_max = e.attention_max = e.attention_backward = e.memory_max = e.sustained = 1.0;
  e.gemm_batched = e.gemm_grouped = e.gemm_fp8 = 1.0;
  e.gemm_memory = 1e12;  // the memory term vanishes, so a GEMM takes its work alone
  e.attention_softmax = e.attention_prologue = e.attention_rows = 0.0;
  e.kernel_launch = e.kernel_floor = Seconds(0);
  e.overlap_compute_slowdown = e.overlap_communication_slowdown = 1.0;
  FabricLevel node;
  node.name = "node";
  node.span = devices;
  node.efficiency = 1.0;
  node.bandwidth = node.bandwidth_alone = BytesPerSecond(1e9);
  group.intra = {node};
  c.groups = {group};
  return c;
}

inline Operator linear(const std::string& name, std::int64_t in, std::int64_t out, TpSplit split) {
  Operator op;
  op.kind = OperatorKind::linear;
  op.name = name;
  op.in = in;
  op.out = out;
  op.split = split;
  op.parameters = in * out;
  return op;
}

inline Operator attention(std::int32_t heads, std::int32_t dim, bool causal) {
  Operator op;
  op.kind = OperatorKind::attention;
  op.name = "attn.core";
  op.split = TpSplit::heads;
  op.heads = op.kv_heads = heads;
  op.qk_dim = op.v_dim = dim;
  op.causal = causal;
  return op;
}

inline LayerKind block(std::vector<Operator> operators, std::int64_t hidden) {
  LayerKind kind;
  kind.name = "block";
  kind.hidden = hidden;
  kind.operators = std::move(operators);
  return kind;
}

/// Returns a block with h = 64: a column linear to 256 and a row linear back.
inline LayerKind mlp() { return block({linear("up", 64, 256, TpSplit::column), linear("down", 256, 64, TpSplit::row)}, 64); }

/// Returns a model of `count` such blocks alone.
inline Model model_of(const LayerKind& kind, int count = 1) {
  Model m;
  m.name = "toy";
  m.family = "llama";
  m.kinds = {kind};
  m.layers.assign(static_cast<std::size_t>(count), 0);
  return m;
}

inline Training tokens(std::int64_t sequence, std::int64_t global_batch = 1) {
  Training t;
  t.sequence.main = sequence;
  t.global_batch = global_batch;
  return t;
}

/// Returns the cost of a kind on a cluster of round devices: sequence 1000, one sample.
inline cost::LayerCost cost_of(const LayerKind& kind, const Strategy& s, const Cluster& cluster, const char* engine = "generic",
                               std::int32_t micro_batch = 1) {
  const Model model = model_of(kind);
  const cost::CostContext context(model, cluster, tokens(1000), plain_engine(engine));
  std::vector<cost::LayerCost> out;
  cost::layer_costs(context, s, 1, micro_batch, out);
  return out.front();
}

}  // namespace espalier::cost::test
