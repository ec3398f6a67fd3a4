// SPDX-License-Identifier: Apache-2.0
#include "search/frame.h"

#include "base/invariant.h"

namespace espalier::search {

SearchFrame::SearchFrame(const Problem& p, const Options& how)
    : problem(p), options(how), space(*p.model, *p.cluster, p.training, *p.engine, p.space, p.partitions, p.at_least), book(p) {
  out.pruning = options.pruning;
  best_rank = options.preference ? INT64_MAX - 1 : options.slowest_ns;
}

void SearchFrame::improve(const Candidate& c) {
  const std::int64_t found = rank(c.configuration, c.iteration_ns);
  if (found > best_rank) return;
  if (found == best_rank && out.best && !canonical_less(c.configuration, out.best->configuration)) return;
  ESPALIER_CHECK(c.iteration_ns > 0 && c.peak_bytes <= book.memory_limit());  // was simulated and fits
  out.best = c;
  best_rank = found;
}

}  // namespace espalier::search
