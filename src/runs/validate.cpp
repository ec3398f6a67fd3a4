// SPDX-License-Identifier: Apache-2.0
#include "runs/validate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "base/format.h"
#include "base/invariant.h"
#include "espalier/configuration.h"
#include "plan/coefficients.h"
#include "plan/engine.h"
#include "planner/estimate.h"
#include "runs/replay_run.h"
#include "runs/run_statistics.h"

namespace espalier::runs {
namespace {

using Outcome = std::variant<RunResult, RunSkip>;

constexpr const char* kUnreadable = "line cannot be read";

/// Returns a figure of a record, in seconds or bytes, if it can have been measured. Returns nothing where it is 0,
/// negative or beyond any machine, as in records without a value.
std::optional<double> plausible(double value, double least, double most) {
  return value >= least && value <= most ? std::optional(value) : std::nullopt;
}

std::optional<double> measured_seconds(const RunRecord& r, std::int64_t devices) {
  constexpr double kShortest = 1e-9, kLongest = 1e9;
  if (r.measured.iteration_s && *r.measured.iteration_s > 0) return plausible(*r.measured.iteration_s, kShortest, kLongest);
  if (!r.measured.tokens_per_s_per_gpu || *r.measured.tokens_per_s_per_gpu <= 0 || !r.seq || !r.global_batch) return std::nullopt;
  return plausible(static_cast<double>(*r.seq) * static_cast<double>(*r.global_batch) /
                       (*r.measured.tokens_per_s_per_gpu * static_cast<double>(devices)),
                   kShortest, kLongest);
}

std::optional<std::int64_t> measured_bytes(const RunRecord& r, double unit) {
  constexpr double kMost = 1e18;
  if (!r.measured.peak_mem_bytes && !r.measured.peak_mem_gb) return std::nullopt;
  const double bytes =
      r.measured.peak_mem_bytes ? static_cast<double>(*r.measured.peak_mem_bytes) : *r.measured.peak_mem_gb * unit;
  if (!plausible(bytes, 1, kMost)) return std::nullopt;
  return r.measured.peak_mem_bytes ? *r.measured.peak_mem_bytes : std::llround(bytes);
}

/// Returns the predicted peak of the measured rank, in the measured kind.
std::int64_t comparable_bytes(const MappedRun& run, const Prediction& p) {
  const auto& stages = p.peak_memory_bytes_per_stage;
  const bool one = !stages.empty() && (run.memory_rank == "first" || run.memory_rank == "last");
  const std::int64_t peak = !one ? p.peak_memory_bytes : run.memory_rank == "first" ? stages.front() : stages.back();
  if (run.memory_kind == "device") return peak + run.job.cluster.groups.front().device.context_reserve.count();
  if (run.memory_kind != "allocated") return peak;
  const EngineModel* engine = find_engine(run.job.engine);  // torch counts tensors: without the allocator's reserve
  return std::llround(static_cast<double>(peak) / (1 + (engine ? engine->memory.allocator_reserve : 0)));
}

std::string group_of(const RunRecord& r) {
  const auto number = [](const std::optional<std::int64_t>& v) { return v ? std::to_string(*v) : std::string("?"); };
  return cat(r.source, "|", r.framework, "|", r.model.name, "|", number(r.model.layers), "|", number(r.model.hidden), "|",
             number(r.model.heads), "|", number(r.model.ffn), "|", number(r.model.vocab), "|", number(r.seq), "|",
             number(r.global_batch), "|", r.gpu.type, "|", r.gpu.mem_gb ? base::fixed(*r.gpu.mem_gb, 0) : "?", "|",
             number(r.gpu.count), "|", r.precision);
}

void compare(const RunRecord& r, const MappedRun& run, const Prediction& p, RunResult& out) {
  const std::string status = base::lower(r.status);
  const bool ran = status.empty() || status == "ok";
  out.memory_kind = run.memory_kind;
  out.static_bytes = p.memory.parameters + p.memory.gradients + p.memory.optimizer;
  out.memory_limit_bytes = p.memory_limit_bytes;
  if (run.memory_known && run.memory_comparable) {
    out.predicted_fits = p.fits;
    out.measured_fits = ran;
  }
  if (!ran) return;
  if (run.time_known) out.measured_s = measured_seconds(r, run.job.cluster.devices());
  ESPALIER_CHECK(p.peak_memory_bytes >= out.static_bytes);  // static bytes are also held at the peak
  if (run.memory_comparable && run.peak_comparable) out.measured_bytes = measured_bytes(r, run.memory_unit_bytes);
  if (out.measured_bytes) out.predicted_bytes = comparable_bytes(run, p);
}

/// Finds the fewest recomputed blocks with which the run fits, or all of them if none does. Memory falls with every
/// block, so bisection works.
void recompute_fewest(MappedRun& run, const PredictFunction& predict) {
  std::int32_t low = 0, high = run.strategy.recompute.layers;
  const auto with = [](std::int32_t layers) { return layers > 0 ? Recompute{RecomputeKind::full, layers} : Recompute{}; };
  while (low < high) {
    const std::int32_t middle = (low + high) / 2;
    run.strategy.recompute = with(middle);
    const auto tried = predict(run.job, run.strategy, run.schedule);
    if (tried && tried->fits)
      high = middle;
    else
      low = middle + 1;
  }
  run.strategy.recompute = with(low);
}

void recompute_if_needed(MappedRun& run, const PredictFunction& predict) {
  const auto without = predict(run.job, run.strategy, run.schedule);
  if (!without || without->fits) return;
  run.strategy.recompute = {RecomputeKind::full, 0};
  complete_configuration(run.job, run.strategy, run.schedule);
  run.defaults.push_back({"recompute", "full", "the measured run does not fit without it"});
}

/// Predicts a run from its measured durations, whatever else is missing.
Outcome replayed(const RunRecord& record) {
  if (const std::string status = base::lower(record.status); !status.empty() && status != "ok")
    return RunSkip{cat("status ", status), ""};
  Outcome outcome = replay_run(record);
  if (auto* result = std::get_if<RunResult>(&outcome)) result->ranking_group = group_of(record);
  return outcome;
}

Result<Prediction> predict_run(const MappedRun& run, const PredictFunction& predict) {
  if (run.plan && run.wan_latency) return planner::predict_over_wan(run.job, *run.plan);
  return run.plan ? planner::predict_plan(run.job, *run.plan) : predict(run.job, run.strategy, run.schedule);
}

Outcome evaluate(const RunRecord& record, const PredictFunction& predict) {
  if (record.mixture.measured_durations()) return replayed(record);
  RunMapping mapping = settled_run(record, predict);
  if (auto* skip = std::get_if<RunSkip>(&mapping)) return std::move(*skip);
  auto& run = std::get<MappedRun>(mapping);
  const auto prediction = predict_run(run, predict);
  if (!prediction) return RunSkip{"no prediction", prediction.error().message()};
  ESPALIER_CHECK(prediction->iteration_ns > 0);  // a prediction compared with a measured time is positive
  RunResult out;
  out.id = record.id;
  out.source = record.source.empty() ? "unknown" : record.source;
  out.engine = run.job.engine;
  out.label = label(run.strategy, run.schedule);
  if (const std::string& placement = record.mixture.placement; run.plan && !placement.empty() && placement != "default")
    out.label += cat(", ", placement);
  out.calibration = prediction->confidence.basis;
  const auto& fitted = framework_calibration().sources;
  out.in_calibration = std::find(fitted.begin(), fitted.end(), record.source) != fitted.end();
  out.ranking_group = group_of(record);
  out.predicted_s = static_cast<double>(prediction->iteration_ns) * 1e-9;
  out.defaults = std::move(run.defaults);
  compare(record, run, *prediction, out);
  if (!out.measured_s && !out.measured_bytes && !out.measured_fits) return RunSkip{"nothing measured to compare with", ""};
  return out;
}

/// Returns results in the order of the records, whichever thread made them.
std::vector<Outcome> evaluate_all(const std::vector<RunRecord>& records, const PredictFunction& predict,
                                  const ValidationOptions& options) {
  std::vector<Outcome> outcomes(records.size(), RunSkip{"interrupted", ""});
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < records.size(); i = next++) {
        if (options.interrupted && options.interrupted()) return;
        outcomes[i] = evaluate(records[i], predict);
      }
    } catch (...) {
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  const unsigned wanted = options.threads > 0 ? static_cast<unsigned>(options.threads) : std::thread::hardware_concurrency();
  const std::size_t count = std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(1, records.size() / 8));
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (failure) std::rethrow_exception(failure);
  return outcomes;
}

ValidationSummary summary_of(const std::vector<const RunResult*>& results, std::int64_t records) {
  ValidationSummary s;
  s.records = records;
  s.evaluated = static_cast<std::int64_t>(results.size());
  std::vector<double> time, memory;
  std::map<std::string, RepeatedRuns> groups;
  for (const RunResult* r : results) {
    if (r->measured_s) {
      time.push_back(r->time_error());
      groups[r->ranking_group][r->label].push_back({*r->predicted_s, *r->measured_s});
    }
    if (r->measured_bytes) memory.push_back(r->memory_error());
    if (r->measured_fits) s.feasibility.add(*r->predicted_fits, *r->measured_fits);
  }
  s.time = summarize(time);
  s.memory = summarize(memory);
  std::vector<std::vector<Pair>> lists;
  for (const auto& [name, runs] : groups) lists.push_back(once_each(runs));
  s.ranking = rank(lists);
  return s;
}

}  // namespace

RunMapping settled_run(const RunRecord& record, const PredictFunction& predict) {
  RunMapping mapping = map_run(record, job::run_defaults());
  if (auto* run = std::get_if<MappedRun>(&mapping)) {
    if (run->recompute_what_does_not_fit) recompute_fewest(*run, predict);
    if (run->recompute_if_needed) recompute_if_needed(*run, predict);
  }
  return mapping;
}

std::variant<RunResult, RunSkip> evaluate_run(const RunRecord& record, const PredictFunction& predict) {
  return evaluate(record, predict);
}

Validation validate_runs(const RunFile& file, const PredictFunction& predict, const ValidationOptions& options) {
  const std::vector<RunRecord>& records = file.records;
  Validation v;
  std::vector<Outcome> outcomes = evaluate_all(records, predict, options);
  std::map<std::string, std::int64_t> records_of;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const std::string source = records[i].source.empty() ? "unknown" : records[i].source;
    ++records_of[source];
    if (auto* skip = std::get_if<RunSkip>(&outcomes[i])) {
      ++v.skipped[skip->reason];
      v.skipped_runs.push_back({records[i].id, source, skip->reason, skip->detail});
    } else {
      v.results.push_back(std::move(std::get<RunResult>(outcomes[i])));
    }
  }
  std::vector<const RunResult*> all;
  std::map<std::string, std::vector<const RunResult*>> of_source;
  for (const RunResult& r : v.results) {
    all.push_back(&r);
    of_source[r.source].push_back(&r);
  }
  v.all = summary_of(all, static_cast<std::int64_t>(records.size() + file.unreadable.size()));
  v.unreadable = file.unreadable;
  if (!v.unreadable.empty()) v.skipped[kUnreadable] = static_cast<std::int64_t>(v.unreadable.size());
  for (const auto& [source, n] : records_of) v.by_source[source] = summary_of(of_source[source], n);
  std::int64_t told = v.all.evaluated;
  for (const auto& [reason, n] : v.skipped) told += n;
  ESPALIER_CHECK(told == v.all.records);  // every line is evaluated or has a reason
  return v;
}

}  // namespace espalier::runs

namespace espalier {
namespace {

/// Predicts with a calibration where it is made for the run's device and engine, without where it is not.
runs::PredictFunction predict_by(const std::shared_ptr<const Calibration>& calibration) {
  if (!calibration) return planner::predict;
  return [calibration](const Job& job, const Strategy& strategy, const Schedule& schedule) -> Result<Prediction> {
    if (!mismatch(*calibration, job).empty()) return planner::predict(job, strategy, schedule);
    Job calibrated = job;
    if (Status status = use_calibration(calibrated, calibration); !status.ok()) return status.error();
    return planner::predict(calibrated, strategy, schedule);
  };
}

}  // namespace

double RunResult::memory_error() const {
  ESPALIER_CHECK(predicted_bytes && measured_bytes && *measured_bytes > 0);
  return (static_cast<double>(*predicted_bytes) - static_cast<double>(*measured_bytes)) / static_cast<double>(*measured_bytes);
}

RunMapping map_run(const RunRecord& record) { return runs::map_run(record, job::run_defaults()); }

Validation validate_runs(const RunFile& file, const ValidationOptions& options) {
  return runs::validate_runs(file, predict_by(options.calibration), options);
}

}  // namespace espalier
