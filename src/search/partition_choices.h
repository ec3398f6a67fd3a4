// SPDX-License-Identifier: Apache-2.0
// Which operator partitions the searches of strategies are offered, and a bound for all others.
//
// A uniform strategy with sp none and cp, ep, etp 1 on tp = 2^n devices may partition the operators of its blocks
// (Strategy::partition). For every (tp, samples of a micro-batch in the group) of the space the operator search
// (operator_search.h) finds, over all partitions that do not split the batch (the number of replicas stays what dp
// says: 3-D parallelism), whatever pp, dp and ZeRO are:
//     the fastest ones, with gradient synchronisation counted once in m micro-batches
//     faster or smaller ones: the frontier of (time, memory)
//     Megatron's
// They join the space as values of one more dimension. Partitions that are not offered: with T the least time of a
// block over all of them (operator search, certified bound), a configuration takes at least m·(work of one micro-batch
// with T for its blocks)/p; the least of these over the space is `lower_bound_ns`. A pair whose bound is not below the
// incumbent is offered nothing.
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
  std::function<bool()>
      interrupted;  ///< polled all the time; once true, partitions not yet found are neither offered nor bounded
  ProgressCallback progress;
};

/// May take operator partitions: dense blocks, a fabric of powers of two, full precision states (no adapters, no 8-bit
/// products).
bool partitions_apply(const Problem& problem);

PartitionChoices partition_choices(const Problem& problem, const PartitionOptions& options);

}  // namespace espalier::search
