// SPDX-License-Identifier: Apache-2.0
// Layer-wise plans in text: the layers of each stage with their strategies, run-length encoded, and what other
// partitions cost.
#pragma once

#include <string>
#include <vector>

#include "espalier/planner.h"

namespace espalier::report {

/// "embedding TP4·DP2, TP4·DP2 +recompute ×8, TP2·DP4 ×4": the runs of equal layers of a stage, chunks set apart by " |
/// ". Lines
/// are broken between runs so that none is longer than `width`.
std::string strategies_of(const Stage& stage, std::int32_t last_layer, std::size_t width);

/// One row a stage: its layers, its peak of memory, its strategies. Neighbouring stages of equal strategies are one
/// row.
std::string layer_table(const Pipeline& pipeline, const std::vector<std::int64_t>& peak_bytes_per_stage);

/// The tables of a plan whose layers differ in strategy or pipeline, under `title`; empty of a uniform one. Several
/// pipelines have one each, with its samples. Stages are counted within their pipeline; peaks are those of all stages,
/// pipeline after pipeline.
std::string layer_tables(const std::string& title, const Plan& plan, const std::vector<std::int64_t>& peak_bytes_per_stage);

/// One row a partition: layers a stage, α_t and α_m, iteration, and the iteration against the exact partition's.
std::string balance_table(const LayerwiseSummary& summary, const Plan& plan);

/// What an answer of `iteration_ns` gains over the best uniform plan, in words.
std::string layerwise_gain(const LayerwiseSummary& summary, std::int64_t iteration_ns);

}  // namespace espalier::report
