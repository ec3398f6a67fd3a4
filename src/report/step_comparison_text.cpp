// SPDX-License-Identifier: Apache-2.0
// Writes the comparison of a measured step with the predicted one, for people and programs.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/document.h"
#include "base/format.h"
#include "espalier/step_comparison.h"
#include "espalier/text.h"
#include "report/brief_text.h"

namespace espalier {
namespace {

using namespace report;

constexpr std::size_t kOperators = 12, kRanks = 16;  // rows of the text for people

using Part = std::pair<const char*, std::int64_t Breakdown::*>;
constexpr Part kParts[] = {{"compute", &Breakdown::compute_ns},
                           {"exposed communication", &Breakdown::exposed_communication_ns},
                           {"bubble", &Breakdown::bubble_ns},
                           {"optimizer, host between steps", &Breakdown::optimizer_ns},
                           {"other", &Breakdown::other_ns}};

std::string signed_seconds(std::int64_t ns) { return cat(ns < 0 ? "-" : "+", seconds(std::abs(ns))); }

std::string against(std::int64_t predicted, std::int64_t measured) {
  if (predicted <= 0) return "–";
  const double change = static_cast<double>(measured) / static_cast<double>(predicted) - 1;
  return cat(change >= 0 ? "+" : "", percent(change));
}

/// Writes means over all ranks.
std::string parts_table(const StepComparison& c) {
  std::vector<std::vector<std::string>> rows{{"mean of all ranks", "predicted", "measured", "gap", "of the step"}};
  const auto ranks = static_cast<std::int64_t>(c.ranks.size());
  for (const auto& [name, part] : kParts) {
    std::int64_t predicted = 0, measured = 0;
    for (const RankComparison& r : c.ranks) {
      predicted += r.predicted.*part;
      measured += r.measured.*part;
    }
    const std::int64_t gap = (measured - predicted) / ranks;
    rows.push_back({name, seconds(predicted / ranks), seconds(measured / ranks), signed_seconds(gap),
                    percent(static_cast<double>(gap) / static_cast<double>(std::max<std::int64_t>(1, c.predicted_ns)))});
  }
  return table(rows);
}

/// Writes the gaps of each rank, those with the largest one first.
std::string ranks_table(const StepComparison& c) {
  const auto gap = [](const RankComparison& r, std::int64_t Breakdown::*part) { return r.measured.*part - r.predicted.*part; };
  const auto weight = [&](const RankComparison& r) {
    std::int64_t sum = 0;
    for (const auto& [name, part] : kParts) sum += std::abs(gap(r, part));
    return sum;
  };
  std::vector<RankComparison> ranks = c.ranks;
  std::stable_sort(ranks.begin(), ranks.end(), [&](const auto& a, const auto& b) { return weight(a) > weight(b); });
  std::vector<std::vector<std::string>> rows{
      {"gap of device", "stage", "compute", "communication", "bubble", "optimizer", "other"}};
  for (std::size_t k = 0; k < std::min(kRanks, ranks.size()); ++k) {
    std::vector<std::string> row{std::to_string(ranks[k].device), std::to_string(ranks[k].stage)};
    for (const auto& [name, part] : kParts) row.push_back(signed_seconds(gap(ranks[k], part)));
    rows.push_back(std::move(row));
  }
  return table(rows);
}

std::string operators_table(const StepComparison& c) {
  if (c.operators.empty()) return "Operators are not compared: the plan has several pipelines or stages on unlike devices\n";
  std::vector<std::vector<std::string>> rows{{"layer", "operator", "part", "times", "predicted", "measured", "gap", ""}};
  for (std::size_t k = 0; k < std::min(kOperators, c.operators.size()); ++k) {
    const OperatorComparison& o = c.operators[k];
    rows.push_back({o.layer, o.name, o.part, std::to_string(o.times), seconds(o.predicted_ns), seconds(o.measured_ns),
                    signed_seconds(o.measured_ns - o.predicted_ns), against(o.predicted_ns, o.measured_ns)});
  }
  std::string out = cat("Operators, one step of all devices together, largest gap first:\n", table(rows, {0, 1, 2}));
  if (c.operators.size() > kOperators)
    out += cat(std::to_string(c.operators.size() - kOperators), " more with smaller gaps: use --json\n");
  return out;
}

void write_breakdown(base::JsonWriter& w, const char* key, const Breakdown& b) {
  w.key(key).compact_next().begin_object().key("compute_s").seconds(b.compute_ns);
  w.key("exposed_communication_s").seconds(b.exposed_communication_ns).key("bubble_s").seconds(b.bubble_ns);
  w.key("optimizer_s").seconds(b.optimizer_ns).key("other_s").seconds(b.other_ns).end_object();
}

}  // namespace

std::string to_text(const StepComparison& c, std::size_t width) {
  std::string out =
      cat(c.measured.label, "\nstep time: predicted ", seconds(c.predicted_ns), ", measured ", seconds(c.measured_ns), " (",
          against(c.predicted_ns, c.measured_ns), "): step ", c.step, ", the median of ", c.steps);
  if (c.clock_error_ns > 0) out += cat("; clocks of ranks agree within ", seconds(c.clock_error_ns));
  return lay_out(cat(out, "\n\n", parts_table(c), "\n", ranks_table(c), "\n", operators_table(c)), width);
}

std::string to_json(const StepComparison& c) {
  base::JsonWriter w;
  w.begin_object().key("schema").value("espalier.step-comparison/1").key("plan").value(c.measured.label);
  w.key("predicted_s").seconds(c.predicted_ns).key("measured_s").seconds(c.measured_ns);
  w.key("step").value(c.step).key("steps").value(c.steps).key("clock_error_s").seconds(c.clock_error_ns);
  w.key("ranks").begin_array();
  for (const RankComparison& r : c.ranks) {
    w.begin_object().key("device").value(r.device).key("pipeline").value(r.pipeline).key("stage").value(r.stage);
    write_breakdown(w, "predicted", r.predicted);
    write_breakdown(w, "measured", r.measured);
    w.end_object();
  }
  w.end_array().key("operators").begin_array();
  for (const OperatorComparison& o : c.operators) {
    w.compact_next().begin_object().key("layer").value(o.layer).key("operator").value(o.name).key("part").value(o.part);
    w.key("times")
        .value(o.times)
        .key("predicted_s")
        .seconds(o.predicted_ns)
        .key("measured_s")
        .seconds(o.measured_ns)
        .end_object();
  }
  w.end_array().end_object();
  return w.text() + "\n";
}

}  // namespace espalier
