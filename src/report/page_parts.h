// SPDX-License-Identifier: Apache-2.0
// What the page is made of: figures with their derivation, and tables. Texts are formatted here; the page shows them as
// they are.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "espalier/job.h"
#include "espalier/planner.h"
#include "espalier/step_comparison.h"
#include "planner/time_parts.h"

namespace espalier::report {

/// One line of how a figure comes about.
struct DerivationLine {
  std::string name, text;
  std::string source;  ///< a place in result.json ("prediction.mfu"), a file, a publication, or a page of docs/
};

/// A figure of the first screen.
struct Figure {
  std::string id, name;
  std::string text;                            ///< "6.509 s"
  std::string note;                            ///< "4.898 s – 9.606 s with 80.0 %"
  std::string from;                            ///< its place in result.json; empty: it is not known
  std::string equation;                        ///< in words and symbols
  std::optional<double> share = std::nullopt;  ///< of a whole, drawn as a bar
  std::vector<DerivationLine> derivation = {};
};

struct Cell {
  Cell(std::string words) : text(std::move(words)) {}  // NOLINT(google-explicit-constructor): a cell is a text
  Cell(const char* words) : text(words) {}             // NOLINT(google-explicit-constructor)
  Cell(std::string words, double of_whole) : text(std::move(words)), share(of_whole) {}
  std::string text;
  std::optional<double> share = std::nullopt;  ///< −1 … 1, drawn as a bar under the text
};

struct PageTable {
  std::string id, title;
  std::string note;                  ///< under the title
  std::vector<std::string> columns;  ///< the first is a name, left-aligned
  std::vector<std::size_t> words;    ///< further columns that hold words, not figures
  std::vector<std::vector<Cell>> rows;
};

/// part / whole; 0 where there is no whole.
double share_of(std::int64_t part, std::int64_t whole);

/// What a rank holds, by the names that figures and tables show.
struct MemoryPart {
  const char* name;
  std::int64_t bytes;
};
std::array<MemoryPart, 6> memory_parts(const MemoryBreakdown& memory);

/// Where a figure of a device is from: its source in the catalogue, or "the cluster file".
std::string source_of(const DeviceKind& device, std::string_view field);

void write(base::JsonWriter& w, const Figure& figure);
void write(base::JsonWriter& w, const PageTable& table);

/// page_figures.cpp: step time, throughput, MFU, memory, bubble, exposed communication, cost and days.
std::vector<Figure> page_figures(const Job& job, const PlannerResult& result);

// ---- page_tables.cpp ----------------------------------------------------------------------------------------------

/// Where the step goes: of a pipeline on its busiest stage.
PageTable time_table(const Prediction& prediction, planner::HostWork host = planner::HostWork::framework);
PageTable memory_table(const Prediction& prediction);
/// Baselines and runners-up, each with what it loses.
PageTable why_not_table(const PlannerResult& result);
PageTable stage_table(const Job& job, const PlannerResult& result);
/// Runs of equal layers with their strategies.
PageTable layer_table_of(const Job& job, const Plan& plan);
PageTable pruning_table(const SearchSummary& search);

// ---- page_cluster.cpp ---------------------------------------------------------------------------------------------

PageTable device_table(const Job& job);
PageTable fabric_table(const Cluster& cluster);
/// What one step puts on the links, under the flow-level network; says in its note why it is empty, where it is.
PageTable link_table(const Job& job, const PlannerResult& result);

/// page_what_if.cpp: the same plan with one thing changed at a time, each simulated.
PageTable what_if_table(const Job& job, const PlannerResult& result);

/// page_measured.cpp: each rank's step, predicted and measured.
PageTable measured_table(const StepComparison& comparison);

}  // namespace espalier::report
