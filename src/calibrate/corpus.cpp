// SPDX-License-Identifier: Apache-2.0
#include "calibrate/corpus.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/parallel.h"
#include "plan/engine.h"
#include "plan/structure.h"
#include "planner/estimate.h"

namespace espalier::calibrate {
namespace {

/// Returns the prefix that `source` begins with; empty without one.
std::string prefix_among(const std::vector<std::string>& prefixes, const std::string& source) {
  for (const std::string& prefix : prefixes)
    if (source.compare(0, prefix.size(), prefix) == 0) return prefix;
  return "";
}

std::string family_of(const std::string& source, const SourceNotes& notes) {
  const std::string prefix = prefix_among(notes.merged, source);
  return prefix.empty() ? source : prefix;
}

/// Makes rows that measure one configuration again (other releases, other days) share the weight of one.
void share_weights(std::vector<CorpusRow>& rows) {
  std::map<std::string, std::int64_t> repeats;
  const auto key = [](const CorpusRow& r) { return r.result.ranking_group + "|" + r.result.label; };
  for (const CorpusRow& r : rows) ++repeats[key(r)];
  for (CorpusRow& r : rows) r.weight = 1.0 / static_cast<double>(repeats[key(r)]);
}

double seconds_with(const CorpusRow& row, const EngineModel& engine) {
  const auto prediction = planner::predict_with(row.run.job, engine, row.run.strategy, row.run.schedule);
  return prediction ? static_cast<double>(prediction->iteration_ns) * 1e-9 : std::numeric_limits<double>::quiet_NaN();
}

EngineModel with_coefficients(const std::string& name, const FrameworkCoefficients& coefficients) {
  EngineModel engine = *find_engine(name);
  engine.coefficients = coefficients;
  return engine;
}

}  // namespace

Corpus make_corpus(const std::vector<RunRecord>& records, const SourceNotes& notes, int threads) {
  std::vector<std::optional<CorpusRow>> rows(records.size());
  std::vector<RunSkip> skips(records.size());
  base::parallel_for(records.size(), threads, 16, [&](std::size_t i, int) {
    const RunRecord& r = records[i];
    auto outcome = runs::evaluate_run(r, planner::predict);
    if (auto* skip = std::get_if<RunSkip>(&outcome)) {
      skips[i] = std::move(*skip);
      return;
    }
    CorpusRow row;
    row.result = std::move(std::get<RunResult>(outcome));
    row.run = std::move(std::get<MappedRun>(runs::settled_run(r, planner::predict)));
    row.family = family_of(row.result.source, notes);
    row.trusted = prefix_among(notes.untrusted, row.result.source).empty();
    row.engine = fitted_engine(*find_engine(row.result.engine));
    row.device = row.run.job.cluster.groups.front().device.name;
    row.devices = row.run.job.cluster.devices();
    row.group = r.model.name + "|" + std::to_string(row.devices);
    rows[i] = std::move(row);
  });
  Corpus corpus;
  std::set<std::string> families;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (rows[i]) {
      families.insert(rows[i]->family);
      corpus.rows.push_back(std::move(*rows[i]));
    } else {
      corpus.skipped.push_back({records[i].id, records[i].source, skips[i].reason, skips[i].detail});
    }
  }
  share_weights(corpus.rows);
  corpus.families.assign(families.begin(), families.end());
  return corpus;
}

bool teaches(const CorpusRow& row) { return row.timed() && row.trusted && !has_experts(row.run.job.model); }

double predicted_s(const CorpusRow& row, const FrameworkCoefficients& coefficients) {
  return predicted_s(std::vector<const CorpusRow*>{&row}, coefficients, 1).front();
}

std::vector<double> predicted_s(const std::vector<const CorpusRow*>& rows, const FrameworkCoefficients& coefficients,
                                int threads) {
  std::map<std::string, EngineModel> engines;
  for (const CorpusRow* row : rows) engines.try_emplace(row->result.engine, with_coefficients(row->result.engine, coefficients));
  std::vector<double> out(rows.size());
  base::parallel_for(rows.size(), threads, 8, [&](std::size_t i, int) {
    const CorpusRow& row = *rows[i];
    if (!row.run.job.engine_model) {
      out[i] = seconds_with(row, engines.at(row.result.engine));
      return;
    }
    EngineModel own = *row.run.job.engine_model;  // with the changes of the record's command line
    own.coefficients = coefficients;
    out[i] = seconds_with(row, own);
  });
  return out;
}

}  // namespace espalier::calibrate
