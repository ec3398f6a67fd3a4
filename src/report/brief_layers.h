// SPDX-License-Identifier: Apache-2.0
// Writes layer-wise plans as text: the layers of each stage with their strategies, run-length encoded, and the cost
// of other partitions.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

/// Returns the runs of equal layers of a stage, such as "embedding TP4·DP2, TP4·DP2 +recompute ×8, TP2·DP4 ×4",
/// chunks separated by " | ". Lines are broken between runs so that none is longer than `width`.
std::string strategies_of(const Stage& stage, std::int32_t last_layer, std::size_t width);

/// Writes one row per stage: its layers, its peak memory, its strategies. Neighbouring stages of equal strategies
/// share a row.
std::string layer_table(const Pipeline& pipeline, const std::vector<std::int64_t>& peak_bytes_per_stage);

/// Writes the tables of a plan whose layers differ in strategy or pipeline, under `title`; empty for a uniform one.
/// With several pipelines, each has a table with its samples. Stages are counted within their pipeline; the peaks are
/// those of all stages, pipeline after pipeline.
std::string layer_tables(const std::string& title, const Plan& plan, const std::vector<std::int64_t>& peak_bytes_per_stage);

/// Writes one row per partition: layers per stage, α_t and α_m, the iteration, and its ratio to the exact
/// partition's.
std::string balance_table(const std::vector<StageBalance>& balance, const Plan& plan);

/// Describes how much an answer of `iteration_ns` gains over the best uniform plan.
std::string layerwise_gain(const SearchSummary& search, std::int64_t iteration_ns);

}  // namespace espalier::report
