// SPDX-License-Identifier: Apache-2.0
// Selects the operator partitions that the searches of strategies are offered, and bounds all others.
//
// A uniform strategy with sp none and cp, ep, etp 1 on tp = 2^n devices may partition the operators of its blocks
// (Strategy::partition). The operator search (operator_search.h) runs for every (tp, samples of a micro-batch in the
// group) of the space. It covers all partitions that do not split the batch, whatever pp, dp and ZeRO are; dp alone
// decides the number of replicas (3-D parallelism). It returns:
// - the fastest ones, with gradient synchronisation counted once in m micro-batches;
// - faster or smaller ones: the frontier of (time, memory);
// - Megatron's.
// They join the space as values of one more dimension. Partitions that are not offered are bounded as follows. With T
// the least time of a block over all of them (operator search, certified bound), a configuration takes at least
// m·(work of one micro-batch with T for its blocks)/p. The least of these over the space is `lower_bound_ns`. A pair
// whose bound is not below the incumbent is offered nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "search/search.h"

namespace espalier::search {

struct PartitionOptions {
  std::int64_t incumbent_ns = 0;  ///< 0: none
  std::int32_t best = 2;          ///< fastest partitions offered for each pair
  std::int32_t frontier = 3;      ///< and points of the frontier
  int threads = 1;
  /// Polled often; once it returns true, partitions not yet found are neither offered nor bounded.
  std::function<bool()> interrupted;
  ProgressCallback progress;
};

/// Returns whether operator partitions may apply: the engine runs them, all weights are trained, samples have equal
/// lengths, precision is not fp8, and the model has blocks. BlockSpace::make rejects blocks and fabrics that have no
/// such space.
bool partitions_apply(const Problem& problem);

PartitionChoices partition_choices(const Problem& problem, const PartitionOptions& options);

}  // namespace espalier::search
