// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_runs.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/document.h"
#include "base/format.h"
#include "calibrate/log_arguments.h"
#include "plan/engine.h"
#include "plan/step_tokens.h"
#include "planner/estimate.h"
#include "runlog/step_log.h"

namespace espalier::calibrate {
namespace {

std::string file_name(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

bool on_device(const std::string& wanted, const std::string& found) {
  return found == wanted || found == cat(wanted, "-modified");
}

CorpusRow row_of(const std::string& file, const Job& job, const Strategy& strategy, const Schedule& schedule, double seconds) {
  CorpusRow row;
  row.result.id = file_name(file);
  row.result.source = "log";
  row.result.engine = job.engine;
  row.result.label = label(strategy, schedule);
  row.result.measured_s = seconds;
  row.run.job = job;
  row.run.strategy = strategy;
  row.run.schedule = schedule;
  row.family = "log";
  row.device = job.cluster.groups.front().device.name;
  row.devices = job.cluster.devices();
  const Training& t = job.training;
  row.result.ranking_group =
      cat(job.model.name, "|", base::content_hash(job.model_source), "|", base::content_hash(job.cluster_source), "|",
          std::to_string(std::llround(tokens_of_step(t))), "|", std::to_string(t.global_batch), "|", to_string(t.precision));
  row.group = cat(job.model.name, "|", std::to_string(row.devices));
  return row;
}

/// Compares peaks of the log with the fullest rank: the allocator's peak where the log has it, else that of the
/// tensors.
void compare_memory(const runlog::StepLog& log, const Prediction& predicted, const EngineModel& engine, RunResult& out) {
  const double tensors = static_cast<double>(predicted.peak_memory_bytes) / (1 + engine.memory.allocator_reserve);
  out.measured_bytes = log.reserved_bytes ? log.reserved_bytes : log.peak_memory_bytes;
  if (!out.measured_bytes) return;
  out.memory_kind = log.reserved_bytes ? "reserved" : "allocated";
  out.predicted_bytes = log.reserved_bytes ? predicted.peak_memory_bytes : std::llround(tensors);
}

Error no_match(const std::string& file, std::string found, std::string expected, std::string hint) {
  return Error{ErrorKind::bad_input, file, std::move(found), std::move(expected), std::move(hint)};
}

}  // namespace

Status add_records(std::string_view jsonl, const std::string& file, const UserTarget& target, int threads, UserRuns& out) {
  const auto read = read_run_records(jsonl, file);
  if (!read) return read.error();
  if (read->records.empty() && !read->unreadable.empty()) return read->unreadable.front();
  for (const Error& line : read->unreadable) out.skipped.push_back({line.where, "", "line cannot be read", line.found});
  Corpus corpus = make_corpus(read->records, {}, threads);
  for (SkippedRun& skipped : corpus.skipped) out.skipped.push_back(std::move(skipped));
  for (CorpusRow& row : corpus.rows) {
    if (!row.timed()) {
      out.skipped.push_back({row.result.id, row.result.source, "no step time", ""});
      continue;
    }
    if (!on_device(target.device, row.device)) {
      out.skipped.push_back({row.result.id, row.result.source, cat("not on ", target.device), row.device});
      continue;
    }
    if (!target.engine.empty()) row.run.job.engine = row.result.engine = target.engine;
    if (!std::isfinite(predicted_s(row, find_engine(row.result.engine)->coefficients))) {
      out.skipped.push_back({row.result.id, row.result.source, "no prediction", cat("as ", row.result.engine)});
      continue;
    }
    out.rows.push_back({std::move(row), 0, 0});
  }
  out.inputs.push_back({file_name(file), base::content_hash(jsonl), "records"});
  return {};
}

Status add_log(std::string_view bytes, const std::string& file, const Job& job, const Strategy& strategy,
               const Schedule& schedule, std::optional<std::int64_t> warm_up, const UserTarget& target, UserRuns& out) {
  const auto log = runlog::read_step_log(bytes, file);
  if (!log) return log.error();
  const runlog::StepSummary s = runlog::summarize(*log, warm_up);
  const std::string& device = job.cluster.groups.front().device.name;
  if (!job.cluster.homogeneous() || !on_device(target.device, device))
    return no_match(file, cat("a configuration on ", device), cat("one on ", target.device),
                    "--base names the device of all runs");
  const auto compared = compare_arguments(
      bytes, file, {job, job.training, &strategy, &schedule, "the configuration", "--config and its flags describe the run"});
  if (!compared) return compared.error();
  if (s.global_batch && *s.global_batch != job.training.global_batch)
    return no_match(file, cat("a log with global batch ", std::to_string(*s.global_batch)),
                    cat("the configuration's ", std::to_string(job.training.global_batch)), "--set training.global_batch=…");
  runlog::LoggedStep median;
  median.seconds = s.seconds;
  median.tokens_per_s_per_device = s.tokens_per_s_per_device;
  median.samples_per_s = s.samples_per_s;
  const double tokens_per_device = tokens_of_step(job.training) / static_cast<double>(job.cluster.devices());
  const auto timed = runlog::seconds_of(median, tokens_per_device, static_cast<double>(job.training.global_batch));
  if (!timed) return no_match(file, "no step after the warm-up", "steps with their times", "--warm-up 0");
  const double seconds = *timed;
  Job measured = job;
  if (!target.engine.empty()) measured.engine = target.engine;
  const auto predicted = planner::predict(measured, strategy, schedule);
  if (!predicted) return predicted.error();
  CorpusRow row = row_of(file, measured, strategy, schedule, seconds);
  compare_memory(*log, *predicted, *find_engine(measured.engine), row.result);
  out.rows.push_back({std::move(row), log->resolution, s.steps});
  out.inputs.push_back({file_name(file), base::content_hash(bytes), cat(runlog::to_string(log->format), " log")});
  out.notes.push_back(cat(file_name(file), ": ", runlog::to_string(log->format), ", median of ", std::to_string(s.steps),
                          " lines, ", std::to_string(s.warm_up), " skipped as warm-up, half spread ", base::percent(s.spread)));
  if (*compared > 0)
    out.notes.push_back(cat(file_name(file), ": ", std::to_string(*compared), " arguments of the log match the configuration"));
  if (log->damaged > 0)
    out.notes.push_back(cat(file_name(file), ": ", std::to_string(log->damaged), " damaged lines, the first at line ",
                            std::to_string(log->first_damaged_line)));
  if (log->resolution > 0.002)
    out.notes.push_back(cat(file_name(file), ": times are printed with three digits, within ", base::percent(log->resolution)));
  return {};
}

Result<std::string> engine_of(const UserRuns& runs) {
  std::map<std::string, int> engines;
  for (const UserRow& r : runs.rows) ++engines[r.row.result.engine];
  if (engines.size() == 1) return engines.begin()->first;
  if (engines.empty()) {
    std::string why;
    for (std::size_t i = 0; i < runs.skipped.size() && i < 3; ++i)
      why += cat(why.empty() ? "" : "; ", runs.skipped[i].id, ": ", runs.skipped[i].reason);
    return Error{ErrorKind::bad_input, "--runs", why.empty() ? "no measured steps" : cat("no usable run (", why, ")"),
                 "at least one timed run on the base device", "espalier validate shows why a record is skipped"};
  }
  std::string list;
  for (const auto& [name, n] : engines) list += cat(list.empty() ? "" : ", ", name, " (", std::to_string(n), ")");
  return Error{ErrorKind::bad_input, "--runs", cat("runs of several engines: ", list), "runs of one engine",
               "--engine NAME predicts all of them with one engine; or calibrate each engine separately"};
}

}  // namespace espalier::calibrate
