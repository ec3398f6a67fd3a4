// SPDX-License-Identifier: Apache-2.0
// What the files of a format cannot say, beside the rules of its engine, as a table: each row is a rule with an id (a heading of
// docs/engine-rules.md), and what of a plan breaks it. Rows stand in the order in which they are asked: a later one may rely on those before it.
//
// The common rows are those of every framework that has one strategy for all layers and is launched on equal nodes: one pipeline, all weights trained,
// a sequence a sample, equal replicas, one strategy, nodes of one size, all devices of the cluster.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/exchange.h"

namespace espalier::exchange {

struct FormatRow {
  std::string_view name;      ///< "PIPELINE": the id without its prefix
  std::string_view sentence;  ///< what a plan must be
  /// What the plan has instead, with its values; empty: the rule is kept.
  std::string (*found)(const Job& job, const Plan& plan) = nullptr;
  std::string_view expected;
  std::string_view hint = {};  ///< empty: the engine finds a plan of its own
};

std::span<const FormatRow> common_rows();
/// Those of what is trained, and how: no file of a framework is told of adapters, frozen parts and packed samples.
std::span<const FormatRow> training_rows();

/// With the prefix: "ACC" makes "ACC-PIPELINE". The common rows, then `own`.
std::vector<FormatRule> rules_of(std::string_view prefix, std::span<const FormatRow> own);
/// The first that is broken.
std::optional<FormatFault> fault_of(std::string_view prefix, std::span<const FormatRow> own, const Job& job, const Plan& plan);
/// The same of rows alone.
std::vector<FormatRule> rules_of_rows(std::string_view prefix, std::span<const FormatRow> rows);
std::optional<FormatFault> fault_of_rows(std::string_view prefix, std::span<const FormatRow> rows, const Job& job,
                                         const Plan& plan);

/// What was lost, as lines that `mark` begins: "# not said: MEG-P2P: …". Empty: nothing.
std::string lost_lines(const ExportRequest& request, std::string_view mark);

}  // namespace espalier::exchange
