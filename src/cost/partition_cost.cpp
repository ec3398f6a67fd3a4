// SPDX-License-Identifier: Apache-2.0
#include "cost/partition_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/invariant.h"
#include "cost/collective.h"
#include "cost/layer_sums.h"
#include "cost/rounding.h"
#include "cost/state_memory.h"
#include "plan/engine.h"

namespace espalier::cost {

using partition::OperatorShape;
using partition::PartitionSequence;
using partition::Phase;
using partition::Product;
using partition::Tensor;
using partition::TensorRole;

/// Describes one operator's tile on one device.
struct PartitionCosts::Local {
  const PartitionedOperator& node;
  const PartitionSequence& sequence;
  int steps;
  double a;  // bytes per element

  [[nodiscard]] double size(char letter) const {
    for (const auto& d : node.shape.dimensions)
      if (d.letter == letter) return static_cast<double>(d.size) / partition::slices(sequence, letter);
    return 1.0;
  }
  [[nodiscard]] double whole(char letter) const {
    for (const auto& d : node.shape.dimensions)
      if (d.letter == letter) return static_cast<double>(d.size);
    return 1.0;
  }
  [[nodiscard]] double tile(int tensor) const {
    return static_cast<double>(partition::tile_elements(node.shape, sequence, tensor));
  }
  [[nodiscard]] double tokens() const { return size('B') * size('M'); }
};

namespace {

constexpr partition::TensorUse kWeight{1, false};  // the weight of a linear

std::uint64_t ring_key(const PartitionSequence& sequence) {
  std::uint64_t key = 1;
  for (const auto& part : sequence) key = key * 8 + static_cast<std::uint64_t>(part.k);
  return key;
}

double whole_ns(double seconds) { return seconds_of(round_ns(seconds)); }
StepPart part_of(Phase phase) {
  return phase == Phase::forward    ? StepPart::forward
         : phase == Phase::backward ? StepPart::input_gradient
                                    : StepPart::weight_gradient;
}
void round_phase(PhaseSeconds& p) {
  p.compute = whole_ns(p.compute);
  p.collective = whole_ns(p.collective);
}

bool contains(const std::string& letters, char letter) { return letters.find(letter) != std::string::npos; }

std::string letters_of(const OperatorShape& shape, const Product& product) {
  std::string letters = product.summed;
  for (const auto& use : product.operands)
    for (const auto& axis : shape.tensors[static_cast<std::size_t>(use.tensor)].axes) letters += axis.letter;
  return letters;
}

/// Returns the bits whose devices hold the same output tile and different parts of its sum. P never needs any.
std::uint32_t indicator_of(const OperatorShape& shape, const Product& product, const PartitionSequence& sequence) {
  const std::string letters = letters_of(shape, product);
  const Tensor& output = shape.tensors[static_cast<std::size_t>(product.output.tensor)];
  std::uint32_t indicator = 0;
  std::array<int, 26> digits{};
  int bit = sequence.bits();
  for (const auto& part : sequence) {
    bit -= part.bits();
    if (part.primitive()) continue;
    const int before = digits[static_cast<std::size_t>(part.dimension - 'A')]++;
    if (!contains(letters, part.dimension)) continue;
    const auto axis =
        std::find_if(output.axes.begin(), output.axes.end(), [&](const auto& x) { return x.letter == part.dimension; });
    // With fewer heads of K and V than slices, the last digits share a head.
    if (axis == output.axes.end() || std::int64_t{1} << (before + 1) > axis->size) indicator |= 1u << bit;
  }
  return indicator;
}

}  // namespace

std::optional<profile::MeasuredShape> not_measured(const EngineModel& engine, const PartitionedOperator& node,
                                                   const PartitionSequence& sequence) {
  if (engine.measured == nullptr) return std::nullopt;
  std::vector<const Operator*> operators = node.beside;
  operators.push_back(node.op);
  for (const Operator* op : operators)
    if (const profile::MeasuredShape shape = profile::work_on_tile(node, *op, sequence).shape; !engine.measured->covers(shape))
      return shape;
  return std::nullopt;
}

PartitionCosts::PartitionCosts(const CostContext& context, int bits)
    : context_(&context), tensor_(context.fabric.tensor_levels, bits), data_(context.fabric.data_levels, bits) {
  for (std::uint32_t indicator = 0; indicator < 1u << bits; ++indicator) groups_.push_back(tensor_.group(indicator));
}

/// Returns the rings of a sequence. They depend on where P stands, not on what the other bits split.
const PartitionCosts::Rings& PartitionCosts::rings_of(const PartitionSequence& sequence) {
  const auto [found, added] = rings_.try_emplace(ring_key(sequence));
  Rings& rings = found->second;
  if (!added) return rings;
  PartitionSequence pattern;
  std::uint32_t indicator = 0;
  int bit = sequence.bits();
  for (const auto& part : sequence) {
    bit -= part.bits();
    if (part.primitive()) indicator |= ((1u << part.bits()) - 1u) << bit;
    pattern.push_back(part.primitive() ? part : partition::split('B'));
  }
  const std::int64_t size = std::int64_t{1} << partition::kMaxBits;
  const OperatorShape shape = partition::linear_shape("pattern", size, size, size, size);
  const double devices = sequence.devices();
  for (const auto& transfer : partition::communication(shape, pattern).transfers) {
    const bool brings_back =
        transfer.phase == Phase::backward && transfer.step + 1 == partition::steps(sequence) && transfer.tensor == kWeight;
    if (brings_back && context_->engine->communication.weights_stay) continue;
    Ring ring{transfer.phase, transfer.step, transfer.tensor, {}};
    for (int device = 0; device < sequence.devices(); ++device) {
      const int reach = partition::reach(device, transfer.sender[static_cast<std::size_t>(device)]);
      if (reach == 0) continue;
      const auto level = static_cast<std::size_t>(tensor_.level_of(reach));
      ring.unit.mean[level] += 1.0 / devices;
      ring.unit.largest[level] = ring.unit.pair[level] = 1.0;
    }
    rings.rings.push_back(ring);
  }
  return rings;
}

/// Adds the steps of a phase. `first` and `later` are the compute of the first and of each other step. `buffers` is
/// raised to the most bytes in flight.
void PartitionCosts::run_steps(PhaseSeconds& phase, Phase which, const Local& local, double first, double later,
                               std::int64_t& buffers) {
  first = whole_ns(first);
  later = whole_ns(later);
  phase.compute += first + (local.steps - 1) * later;
  phase.kernels += local.steps;
  if (local.steps == 1) return;
  const Rings& rings = rings_of(local.sequence);
  const double reduce_bytes = states_of(*context_->engine, context_->workload.training).reduce;
  double most = 0;
  for (int step = 0; step < local.steps; ++step) {
    Exchange moved;
    double bytes = 0;
    for (const Ring& ring : rings.rings) {
      if (ring.phase != which || ring.step != step) continue;
      const bool weight_gradient =
          ring.tensor.gradient &&
          local.node.shape.tensors[static_cast<std::size_t>(ring.tensor.tensor)].role == TensorRole::parameter;
      const double tile = local.tile(ring.tensor.tensor) * (weight_gradient ? reduce_bytes : local.a);
      moved.add(ring.unit, tile);
      bytes += tile;
      phase.kernels += context_->engine->facts.collective_launches;
      if (weight_gradient && context_->engine->measured == nullptr) {
        phase.compute += memory_bound_s(context_->device.rates, 3 * tile);
        ++phase.kernels;
      }  // the gradient is added when it arrives
    }
    const std::int64_t compute = round_ns(step == 0 ? first : later), ring = bytes > 0 ? round_ns(tensor_.seconds(moved)) : 0;
    const MutualSlowdown slowdown = context_->device.interference().of(bytes, seconds_of(ring));
    if (record_ != nullptr) record_step(which, compute, ring, bytes, slowdown);
    if (bytes <= 0) continue;
    most = std::max(most, bytes);
    const std::int64_t exposed = pair_ns(ring, compute, slowdown) - compute;
    phase.ring_exposed += seconds_of(exposed);
    phase.ring_hidden += seconds_of(std::max<std::int64_t>(0, ring - exposed));
  }
  buffers = std::max(buffers, static_cast<std::int64_t>(most));
}

void PartitionCosts::reduce(PartitionCost& cost, const Local& local) {
  const double reduce_bytes = states_of(*context_->engine, context_->workload.training).reduce;
  for (const Product& product : local.node.shape.products) {
    const std::uint32_t indicator = indicator_of(local.node.shape, product, local.sequence);
    if (indicator == 0) continue;
    const Tensor& output = local.node.shape.tensors[static_cast<std::size_t>(product.output.tensor)];
    const double elements = local.tile(product.output.tensor);
    const Group& group = groups_[indicator];
    if (output.role == TensorRole::parameter) {
      const double sum = reduce_bytes * static_cast<double>(cost.parameters);
      cost.gradient_sync += all_reduce_s(data_.levels(), group, sum);
      cost.gradient_sync_bytes += sum;
      continue;
    }
    // Gradients of keys and values are sums of the gradient phase, but they are gradients of activations.
    const Phase which = product.phase == Phase::forward ? Phase::forward : Phase::backward;
    PhaseSeconds& phase = which == Phase::forward ? cost.forward : cost.backward_input;
    const double bytes = elements * (output.role == TensorRole::statistic ? 4.0 : local.a);
    const double seconds = all_reduce_s(tensor_.levels(), group, bytes);
    phase.collective += seconds;
    phase.kernels += context_->engine->facts.collective_launches;
    if (record_ != nullptr) record_->reductions.push_back({which, bytes, seconds});
  }
}

std::optional<profile::OperatorTime> PartitionCosts::measured(const Local& local, const Operator& op) const {
  if (context_->engine->measured == nullptr) return std::nullopt;
  const auto [shape, tokens] = profile::work_on_tile(local.node, op, local.sequence);
  const profile::OperatorTime time = context_->engine->measured->at(shape, static_cast<double>(tokens));
  const double speed = context_->device.speed;
  return profile::OperatorTime{time.forward / speed, time.input / speed, time.weight / speed};
}

bool PartitionCosts::add_measured(PartitionCost& cost, const Local& local, const Operator& op) const {
  const auto time = measured(local, op);
  if (!time) return false;
  cost.forward.compute += time->forward;
  cost.backward_input.compute += time->input;
  cost.backward_weight.compute += time->weight;
  return true;
}

void PartitionCosts::linear_steps(PartitionCost& cost, const Local& local, std::int64_t& forward_buffers,
                                  std::int64_t& backward_buffers) {
  const auto time = measured(local, *local.node.op);
  ESPALIER_CHECK(time.has_value());
  run_steps(cost.forward, Phase::forward, local, time->forward, time->forward, forward_buffers);
  run_steps(cost.backward_input, Phase::backward, local, time->input, time->input, backward_buffers);
  run_steps(cost.backward_weight, Phase::gradient, local, time->weight, time->weight, backward_buffers);
}

void PartitionCosts::linear(PartitionCost& cost, const Local& local) {
  const auto& d = context_->device.rates;
  const double m = local.tokens(), in = local.size('N');
  const double out = local.size('K') * static_cast<double>(local.node.shape.tensors[1].width);
  const auto& engine = *context_->engine;
  const double gradient = engine.memory.states.gradient;
  // Steps after the first add to the sum that is there, so they read it as well.
  const double accumulated = engine.eager.fused_gradient_accumulation ? 2 * gradient * in * out : 0;
  std::int64_t forward_buffers = 0, backward_buffers = 0;
  if (engine.measured != nullptr) {
    linear_steps(cost, local, forward_buffers, backward_buffers);
    return linear_memory(cost, local, forward_buffers, backward_buffers);
  }
  run_steps(cost.forward, Phase::forward, local, gemm_s(d, d.gemm_wide, m, out, in, local.a),
            gemm_s(d, d.gemm_wide, m, out, in, local.a, local.a * m * out), forward_buffers);
  run_steps(cost.backward_input, Phase::backward, local, gemm_s(d, d.gemm_wide, m, in, out, local.a),
            gemm_s(d, d.gemm_wide, m, in, out, local.a, local.a * m * in), backward_buffers);
  run_steps(cost.backward_weight, Phase::gradient, local, gemm_s(d, d.gemm_wide, out, in, m, local.a, accumulated),
            gemm_s(d, d.gemm_wide, out, in, m, local.a, std::max(accumulated, local.a * in * out)), backward_buffers);
  if (!engine.eager.fused_gradient_accumulation) {
    cost.backward_weight.compute += memory_bound_s(d, in * out * (local.a + 2 * gradient));
    ++cost.backward_weight.kernels;
  }
  linear_memory(cost, local, forward_buffers, backward_buffers);
}

void PartitionCosts::linear_memory(PartitionCost& cost, const Local& local, std::int64_t forward_buffers,
                                   std::int64_t backward_buffers) const {
  const double m = local.tokens(), in = local.size('N');
  const double out = local.size('K') * static_cast<double>(local.node.shape.tensors[1].width);
  const std::int64_t bias = local.node.op->parameters - local.node.op->in * local.node.op->out;
  cost.parameters = static_cast<std::int64_t>(in * out) + (bias > 0 ? static_cast<std::int64_t>(out) : 0);
  if (!local.node.input_kept || partition::slice_bits(local.sequence, 'K') > 0)
    cost.saved = static_cast<std::int64_t>(local.a * m * in);
  if (local.steps > 1 && context_->engine->communication.weights_stay)
    cost.saved += static_cast<std::int64_t>(local.a * in * out);
  cost.forward_transient = static_cast<std::int64_t>(local.a * m * out) + forward_buffers;
  cost.backward_transient = static_cast<std::int64_t>(local.a * m * (in + out)) + backward_buffers;
}

void PartitionCosts::attention(PartitionCost& cost, const Local& local) {
  const auto& d = context_->device.rates;
  const Operator& op = *local.node.op;
  const double keys = local.whole('L'), window = static_cast<double>(op.window);
  const double rows = local.tokens() * local.size('H');
  const double q = local.tile(0), k = local.tile(1), v = local.tile(2), out = local.tile(3);
  // Among s slices of causal queries the last one sees most keys: 1 − 1/(2s) of them.
  const double slices = partition::slices(local.sequence, 'M');
  const double mean = op.causal && window <= 0 ? keys * (1.0 - 0.5 / slices) : mean_keys(keys, window, op.causal);
  const AttentionCall shape{rows, mean, window > 0 ? std::min(window, keys) : keys, static_cast<double>(op.qk_dim + op.v_dim),
                            local.a * (q + k + v + out)};
  if (!add_measured(cost, local, op)) {
    cost.forward.compute += attention_forward_s(d, shape);
    cost.backward_input.compute += attention_backward_s(d, shape);
  }
  cost.forward.kernels += 1;
  cost.backward_input.kernels += 3;
  cost.saved += static_cast<std::int64_t>(local.a * (q + k + v + out) + 4 * rows);
  cost.forward_transient = static_cast<std::int64_t>(local.a * out);
  cost.backward_transient = static_cast<std::int64_t>(local.a * (q + k + v + out));
}

void PartitionCosts::unfused(PartitionCost& cost, const Local& local) {
  const auto& d = context_->device.rates;
  const Operator& op = *local.node.op;
  const double batch = local.size('B') * local.size('H'), m = local.size('M'), l = local.size('L');
  const double scores = batch * m * l, a = local.a;
  const bool known = add_measured(cost, local, op);  // measured compute replaces what is derived
  const PhaseSeconds forward = cost.forward, backward = cost.backward_input;
  double transient = 0;
  switch (local.node.part) {
    case OperatorPart::scores:
      cost.forward.compute += batched_gemm_s(d, d.batched, batch, m, l, op.qk_dim, a);
      cost.backward_input.compute += 2 * batched_gemm_s(d, d.batched, batch, m, op.qk_dim, l, a);
      cost.saved += static_cast<std::int64_t>(a * (local.tile(0) + local.tile(1)));
      cost.forward_transient = static_cast<std::int64_t>(a * scores);
      transient = scores + local.tile(0);
      break;
    case OperatorPart::softmax: {
      const double read = op.causal ? 0.5 : 1.0, drop = op.score_dropout ? memory_bound_s(d, (2 * a + 1) * scores) : 0;
      cost.forward.compute += memory_bound_s(d, (read + 1) * a * scores) + drop;
      cost.backward_input.compute += memory_bound_s(d, (2 * read + 1) * a * scores) + drop;
      cost.saved += static_cast<std::int64_t>((op.score_dropout ? 2 * a + 1 : a) * scores);
      cost.forward_transient = static_cast<std::int64_t>(a * scores);
      transient = 2 * scores;
      break;
    }
    default:
      cost.forward.compute += batched_gemm_s(d, d.batched, batch, m, op.v_dim, l, a);
      cost.backward_input.compute += 2 * batched_gemm_s(d, d.batched, batch, m, l, op.v_dim, a);
      cost.saved += static_cast<std::int64_t>(a * local.tile(1));
      cost.forward_transient = static_cast<std::int64_t>(a * local.tile(2));
      transient = scores + local.tile(2);
      break;
  }
  if (known) {
    cost.forward.compute = forward.compute;
    cost.backward_input.compute = backward.compute;
  }
  cost.backward_transient = static_cast<std::int64_t>(a * transient);
  cost.forward.kernels += 1 + (local.node.part == OperatorPart::softmax && op.score_dropout);
  cost.backward_input.kernels += 2;
}

/// Prices memory-bound operators, with bytes as in layer_cost.cpp.
void PartitionCosts::elementwise(PartitionCost& cost, const Local& local, const Operator& op, bool beside) {
  DeviceRates d = context_->device.rates;
  const EngineModel& engine = *context_->engine;
  d.memory /= engine.coefficients.elementwise * engine.kernels.elementwise_traffic;
  const double a = local.a, features = partition::slices(local.sequence, 'N') * partition::slices(local.sequence, 'H');
  const double in = local.tokens() * static_cast<double>(op.in) / features,
               out = local.tokens() * static_cast<double>(op.out) / features;
  const bool eager = engine.memory.activations == ActivationPolicy::megatron_2022_unfused;
  double forward = 2 * a * in, backward = 2 * a * in, saved = 0;
  switch (op.kind) {
    case OperatorKind::norm:
      backward = (eager ? 5 : 3) * a * in;
      saved = a * in + (eager ? 0 : 4 * local.tokens());
      break;
    case OperatorKind::activation:
      forward = a * (in + out);
      backward = a * (2 * in + out);
      saved = a * (in + (engine.memory.eager_gate && op.in == 2 * op.out ? out : 0));
      break;
    case OperatorKind::residual: forward = backward = 3 * a * in; break;
    case OperatorKind::dropout:
      forward = in;
      backward = (2 * a + 1) * in;
      saved = in;
      break;
    default: break;
  }
  const bool fused_away = op.kind == OperatorKind::dropout;
  if (!add_measured(cost, local, op)) {
    cost.forward.compute += fused_away ? forward / d.memory : memory_bound_s(d, forward);
    cost.backward_input.compute += memory_bound_s(d, backward);
  }
  cost.forward.kernels += !fused_away;
  cost.backward_input.kernels += 1;
  cost.saved += static_cast<std::int64_t>(saved);
  if (beside) return;
  cost.parameters = static_cast<std::int64_t>(static_cast<double>(op.parameters) / features);
  if (op.parameters > 0) cost.backward_weight.kernels += op.parameters > op.in ? 3 : 2;
  cost.forward_transient = static_cast<std::int64_t>(a * out);
  cost.backward_transient = static_cast<std::int64_t>(a * (in + out));
}

PartitionCost PartitionCosts::cost(const PartitionedOperator& node, const PartitionSequence& sequence) {
  const Local local{node, sequence, partition::steps(sequence), static_cast<double>(context_->workload.element_bytes)};
  PartitionCost cost;
  if (node.op->kind == OperatorKind::linear) {
    linear(cost, local);
  } else if (node.part != OperatorPart::whole) {
    unfused(cost, local);
  } else if (node.op->kind == OperatorKind::attention) {
    attention(cost, local);
  } else {
    elementwise(cost, local, *node.op, false);
  }
  for (const Operator* op : node.beside) elementwise(cost, local, *op, true);
  reduce(cost, local);
  for (PhaseSeconds* phase : {&cost.forward, &cost.backward_input, &cost.backward_weight}) round_phase(*phase);
  return cost;
}

/// Records one step of P, with what the devices pass on meanwhile.
void PartitionCosts::record_step(Phase which, std::int64_t compute_ns, std::int64_t ring_ns, double bytes,
                                 MutualSlowdown slowdown) {
  PhaseSteps& phase = record_->steps.of(which);
  Step step;
  step.part = part_of(which);
  StepCost cost;
  cost.compute_s = seconds_of(compute_ns);
  cost.counted = Counted::each;
  if (ring_ns > 0) {
    step.traffic = {CollectiveKind::ring_shift, GroupKind::operators, bytes, 1};
    step.placement = Placement::beside;
    step.first = step.last = static_cast<std::int32_t>(phase.steps.size());
    cost.communication_s = seconds_of(ring_ns);
    cost.beside_s = cost.compute_s;
    cost.slowdown = slowdown;
  }
  phase.add(std::move(step), cost);
}

/// Records what is left of a phase after the steps of P: its compute, then its all-reduces, which are rounded
/// together.
void PartitionCosts::record_rest(Phase which, const PhaseSeconds& phase) {
  PhaseSteps& steps = record_->steps.of(which);
  std::int64_t compute = round_ns(phase.compute);
  for (const StepCost& known : steps.costs) compute -= round_ns(known.compute_s);
  ESPALIER_CHECK(compute >= 0);
  if (compute > 0) record_step(which, compute, 0, 0, {});
  double seconds = 0;
  std::int64_t before = 0;
  for (const auto& reduction : record_->reductions) {
    if (reduction.phase != which) continue;
    seconds += reduction.seconds;
    Step step;
    step.part = part_of(which);
    step.traffic = {CollectiveKind::all_reduce, GroupKind::operators, reduction.bytes, 1};
    StepCost cost;
    cost.communication_s = seconds_of(round_ns(seconds) - before);
    cost.counted = Counted::each;
    before = round_ns(seconds);
    steps.add(std::move(step), cost);
  }
}

OperatorSteps PartitionCosts::steps(const PartitionedOperator& node, const PartitionSequence& sequence) {
  Record record;
  record_ = &record;
  const PartitionCost whole = cost(node, sequence);
  record_rest(Phase::forward, whole.forward);
  record_rest(Phase::backward, whole.backward_input);
  record_rest(Phase::gradient, whole.backward_weight);
  record_ = nullptr;
  return std::move(record.steps);
}

}  // namespace espalier::cost
