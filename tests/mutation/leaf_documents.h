// SPDX-License-Identifier: Apache-2.0
// Provides documents of every kind that `check` reads, written by small jobs, for the mutation of every leaf.
#pragma once

#include <string>
#include <vector>

#include "json_leaves.h"

namespace espalier::mutation {

struct LeafDocument {
  std::string name, text;
};

/// Returns results of one and several node groups, layer-wise, with partitions, of an engine, and with all optional
/// parts of an answer. Also returns answers of what-if, --survive and replan.
const std::vector<LeafDocument>& leaf_documents();
/// Returns a plan.json by itself. It claims only summaries and hashes: a changed leaf makes another plan.
const LeafDocument& plan_document();

}  // namespace espalier::mutation
