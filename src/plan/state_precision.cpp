// SPDX-License-Identifier: Apache-2.0
// Determines the types of states and activations that an engine keeps under a training precision, in bytes per
// element and by name.
#include <algorithm>

#include "plan/engine.h"

namespace espalier {
namespace {

/// Returns the storage type: values outside matrix products are stored in fp32 under tf32, and in bf16 under
/// fp8, mxfp8 and nvfp4.
Precision stored(Precision training) {
  switch (training) {
    case Precision::tf32: return Precision::fp32;
    case Precision::fp8:
    case Precision::mxfp8:
    case Precision::nvfp4: return Precision::bf16;
    default: return training;
  }
}

Precision of_bytes(std::int32_t bytes, Precision training) { return bytes >= 4 ? Precision::fp32 : stored(training); }

}  // namespace

StatePolicy states_of(const EngineModel& engine, const Training& training) {
  StatePolicy states = engine.memory.states;
  if (training.precision == Precision::fp32 || training.precision == Precision::tf32) {
    states.parameter = 4;
    states.gradient = 4;
    states.master = 0;
    states.reduce = 4;
    states.gather = 4;
    states.autograd = 0;
    states.host_gradient = 0;
  }
  if (training.optimizer == Optimizer::sgd) states.optimizer = 4;  // momentum
  return states;
}

double frozen_bytes(const StatePolicy& states, const Training& training, const LayerKind& kind, const Operator& op) {
  const bool linear = op.kind == OperatorKind::linear || op.kind == OperatorKind::expert_linear;
  const bool held_small = kind.role == LayerRole::block && linear;
  if (held_small && training.adapter.base == FrozenType::nf4) return 0.5 + 1.0 / 64 + 4.0 / (64 * 256);
  if (held_small && training.adapter.base == FrozenType::int8) return 1.0;
  return std::min(states.parameter, states.gather);
}

StatePrecision state_precision(std::string_view engine, const Training& training) {
  const EngineModel* known = find_engine(engine);
  const StatePolicy states = states_of(known != nullptr ? *known : *find_engine("generic"), training);
  const std::int32_t moments = training.optimizer == Optimizer::adam ? 2 : 1;  // moments: gradient and its square
  StatePrecision out;
  out.parameters = of_bytes(states.parameter, training.precision);
  out.gradients = of_bytes(states.gradient, training.precision);
  out.moments = states.optimizer == 0 ? Precision::fp32 : of_bytes(states.optimizer / moments, training.precision);
  out.saved = stored(training.precision);
  return out;
}

}  // namespace espalier
