// SPDX-License-Identifier: Apache-2.0
// Declares the parts of the page: figures with their derivation, and tables. Texts are formatted here; the page shows
// them unchanged.
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

/// Holds one line of a figure's derivation.
struct DerivationLine {
  std::string name, text;
  std::string source;  ///< a place in result.json ("prediction.mfu"), a file, a publication, or a page of docs/
};

/// Holds a figure of the first screen.
struct Figure {
  std::string id, name;
  std::string text;                            ///< "6.509 s"
  std::string note;                            ///< "4.898 s – 9.606 s with 80.0 %"
  std::string from;                            ///< its place in result.json; empty: it is not known
  std::string equation;                        ///< in words and symbols
  std::optional<double> share = std::nullopt;  ///< share of a whole, drawn as a bar
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

/// Returns part / whole; 0 where whole is 0.
double share_of(std::int64_t part, std::int64_t whole);

/// Names a part of the memory of a rank, as figures and tables show it.
struct MemoryPart {
  const char* name;
  std::int64_t bytes;
};
std::array<MemoryPart, 6> memory_parts(const MemoryBreakdown& memory);

/// Returns the source of a device's figure: the one in the catalogue, or "the cluster file".
std::string source_of(const DeviceKind& device, std::string_view field);

void write(base::JsonWriter& w, const Figure& figure);
void write(base::JsonWriter& w, const PageTable& table);

/// Returns, in page_figures.cpp, step time, throughput, MFU, memory, bubble, exposed communication, cost and days.
std::vector<Figure> page_figures(const Job& job, const PlannerResult& result);

// ---- page_tables.cpp ----------------------------------------------------------------------------------------------

/// Shows where the time of a step goes; for a pipeline, on its busiest stage.
PageTable time_table(const Prediction& prediction, planner::HostWork host = planner::HostWork::framework);
PageTable memory_table(const Prediction& prediction);
/// Lists baselines and runners-up, each with its loss.
PageTable why_not_table(const PlannerResult& result);
PageTable stage_table(const Job& job, const PlannerResult& result);
/// Lists runs of equal layers with their strategies.
PageTable layer_table_of(const Job& job, const Plan& plan);
PageTable pruning_table(const SearchSummary& search);

// ---- page_cluster.cpp ---------------------------------------------------------------------------------------------

PageTable device_table(const Job& job);
PageTable fabric_table(const Cluster& cluster);
/// Lists the traffic of one step on the links under the flow-level network. An empty table has the reason in its
/// note.
PageTable link_table(const Job& job, const PlannerResult& result);

/// Lists, in page_what_if.cpp, the plan with one thing changed at a time, each simulated.
PageTable what_if_table(const Job& job, const PlannerResult& result);

/// Lists, in page_measured.cpp, each rank's step, predicted and measured.
PageTable measured_table(const StepComparison& comparison);

}  // namespace espalier::report
