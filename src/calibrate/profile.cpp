// SPDX-License-Identifier: Apache-2.0
#include "espalier/profile.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/document.h"
#include "base/format.h"
#include "base/statistics.h"
#include "base/text.h"
#include "calibrate/overlap_slowdown.h"
#include "calibrate/user_calibration.h"
#include "cost/chunk_sum.h"
#include "job/calibration_file.h"
#include "plan/engine.h"
#include "planner/prediction.h"
#include "profile/measured_operators.h"

namespace espalier {
namespace {

/// Holds one record as it was read.
struct Read {
  double step_s = 0, operators_s = 0, update_s = 0;
  std::int64_t updated = 0, late = 0;
  std::vector<profile::MeasuredTime> rows;
};

Result<Read> read_record(const NamedText& text) {
  auto document = base::read_json(text.text, text.name);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader r = Reader::root(*document, sink);
  constexpr std::string_view kSchema = "espalier.operator-times/1";
  if (const std::string schema = r.required_string("schema"); sink.ok() && schema != kSchema)
    r.fail("schema", cat("\"", schema, "\""), std::string(kSchema), "`espalier run --record FILE` writes it");
  constexpr double kLongest = 1e6;
  Read out;
  r.ignore({"steps", "peak_bytes"});
  out.step_s = r.required_real("step_s", 0, kLongest);
  out.operators_s = r.required_real("operators_s", 0, kLongest);
  out.update_s = r.required_real("update_s", 0, kLongest);
  out.updated = r.required_int("updated_elements", 0, std::int64_t{1} << 50);
  out.late = r.optional_int("late_calls", 0, std::int64_t{1} << 50, 0);
  r.each("operators", true, [&](Reader& row) { out.rows.push_back(profile::read_row(row)); });
  r.finish();
  if (!sink.ok()) return sink.first().error();
  return out;
}

/// Fits the line through (x, y) by least squares, with neither coefficient negative.
struct Line {
  double at_zero = 0, slope = 0;
};
Line line_through(const std::vector<std::pair<double, double>>& points) {
  if (points.empty()) return {};
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [a, b] : points) {
    x += a;
    y += b;
  }
  const auto n = static_cast<double>(points.size());
  for (const auto& [a, b] : points) {
    xx += (a - x / n) * (a - x / n);
    xy += (a - x / n) * (b - y / n);
  }
  const double slope = xx > 0 ? std::max(0.0, xy / xx) : 0.0;
  return {std::max(0.0, (y - slope * x) / n), slope};
}

/// Returns the bytes of states that an update reads and writes for one parameter.
double bytes_an_element(const Job& job) {
  const EngineModel& engine = *find_engine("espalier");
  return cost::update_bytes(engine, states_of(engine, job.training), {1, 0}, Strategy{});
}

/// Holds the median over the records of each operator, and the line over micro-batches of the rest.
struct OperatorMedians {
  profile::MeasuredOperators operators;
  Line host;
  std::vector<std::string> notes;
};

Result<OperatorMedians> gather(const Job& job, const std::vector<OperatorRecord>& records) {
  OperatorMedians out;
  std::map<profile::MeasuredShape, std::map<std::int64_t, std::vector<profile::OperatorTime>>> all;
  std::vector<std::pair<double, double>> rest;
  std::int64_t late = 0;
  double update_s = 0, updated = 0;
  for (const OperatorRecord& record : records) {
    auto read = read_record(record.text);
    if (!read) return read.error();
    for (const profile::MeasuredTime& row : read->rows) all[row.work.shape][row.work.tokens].push_back(row.time);
    if (record.alone)
      rest.emplace_back(static_cast<double>(record.microbatches),
                        std::max(0.0, read->step_s - read->operators_s - read->update_s));
    late += read->late;
    update_s += read->update_s;
    updated += static_cast<double>(read->updated);
  }
  using Time = profile::OperatorTime;
  const auto middle = [](const std::vector<Time>& times, double Time::*part) {
    std::vector<double> seconds;
    for (const Time& time : times) seconds.push_back(time.*part);
    return base::median(std::move(seconds));
  };
  for (const auto& [shape, by_tokens] : all)
    for (const auto& [tokens, times] : by_tokens)
      out.operators.add(
          {{shape, tokens}, {middle(times, &Time::forward), middle(times, &Time::input), middle(times, &Time::weight)}});
  out.host = line_through(rest);
  if (update_s > 0) out.operators.update_bytes_per_s = updated * bytes_an_element(job) / update_s;
  if (late > 0)
    out.notes.push_back(
        cat(late, " operators took longer on this machine than on the device that it emulates: choose a slower --pace"));
  return out;
}

Result<OperatorMedians> taken_over(const Calibration& earlier) {
  return OperatorMedians{*earlier.operators, {earlier.coefficients.step_s, earlier.coefficients.micro_batch_s}, {}};
}

Result<std::optional<calibrate::UserFabric>> fabric_of(const Job& job, const std::vector<NamedText>& texts) {
  std::vector<runlog::NcclTable> tables;
  for (const NamedText& text : texts) {
    auto read = runlog::read_nccl_tests(text.text, text.name);
    if (!read) return read.error();
    tables.insert(tables.end(), read->begin(), read->end());
  }
  if (tables.empty()) return std::optional<calibrate::UserFabric>();
  auto fabric = calibrate::fit_user_fabric(job.cluster, tables);
  if (!fabric) return fabric.error();
  return std::optional(std::move(*fabric));
}

std::string operator_lines(const profile::MeasuredOperators& operators) {
  std::string out = cat("update_bytes_per_s: ", base::six_digits(operators.update_bytes_per_s), "\noperators:\n");
  for (const profile::MeasuredTime& row : operators.rows()) {
    base::JsonWriter json;
    profile::write_row(json, row);
    out += cat("  - ", json.text(), "\n");
  }
  return out;
}

/// Writes neutral coefficients. The runtime's behaviour is in its measurements, so that no factor has to represent
/// it.
std::string coefficient_lines(const Line& host) {
  std::string out = "coefficients:\n";
  for (const auto& [name, value] : std::initializer_list<std::pair<std::string_view, double>>{{"compute", 1},
                                                                                              {"elementwise", 1},
                                                                                              {"launch", 1},
                                                                                              {"tensor_communication", 1},
                                                                                              {"data_communication", 1},
                                                                                              {"exposed_share", 0},
                                                                                              {"collective_wait_s", 0},
                                                                                              {"network_wait_s", 0}})
    out += cat("  ", name, ": ", base::shortest(value), "\n");
  return out + cat("  step_s: ", base::six_digits(host.at_zero), "\n  micro_batch_s: ", base::six_digits(host.slope), "\n");
}

/// Returns the measured slow-down between the ranks of this machine, or that of an earlier profile.
Result<std::optional<job::MeasuredOverlap>> overlap_of(const Job& job, const ProfileInputs& inputs, Profile& out) {
  if (inputs.overlap.empty()) return inputs.earlier != nullptr ? inputs.earlier->overlap : std::optional<job::MeasuredOverlap>();
  auto seen = calibrate::measured_overlap(job, inputs.overlap);
  if (!seen) return seen.error();
  if (!*seen)
    out.notes.emplace_back(
        "almost no computation overlapped with a reduction, so their mutual slowdown is not measured; use larger --samples, or "
        "more "
        "layers");
  if (*seen && std::max((*seen)->compute_slowdown, (*seen)->communication_slowdown) >= calibrate::kStrongestSlowdown)
    out.notes.push_back(cat("overlapping compute and reductions take ", base::fixed((*seen)->compute_slowdown, 1), " and ",
                            base::fixed((*seen)->communication_slowdown, 1), " times as long, but at most ",
                            base::fixed(calibrate::kStrongestSlowdown, 0),
                            " is plausible: use more --steps, larger --samples, or a machine that nobody else uses"));
  return std::move(*seen);
}

std::string overlap_line(const std::optional<job::MeasuredOverlap>& overlap) {
  if (!overlap) return "";
  return cat("overlap: {compute_slowdown: ", base::six_digits(overlap->compute_slowdown),
             ", communication_slowdown: ", base::six_digits(overlap->communication_slowdown), "}\n");
}

}  // namespace

Plan profiled_plan(const Job& job, std::int32_t tp, SequenceParallel sp, std::int32_t samples, std::int32_t microbatches,
                   const BlockPartition& partition) {
  Strategy strategy;
  strategy.tp = tp;
  strategy.sp = tp > 1 && partition.empty() ? sp : SequenceParallel::none;
  strategy.partition = partition;
  Schedule schedule;
  schedule.micro_batch = samples;
  schedule.microbatches = microbatches;
  return profiled_plan(job, strategy, schedule);
}

Plan profiled_plan(const Job& job, const Strategy& strategy, const Schedule& schedule) {
  Training training = job.training;
  training.global_batch = std::int64_t{schedule.micro_batch} * schedule.microbatches * strategy.dp;
  Plan plan = make_uniform_plan(job.model, job.cluster, training, "espalier", strategy, schedule, SplitPolicy::even_blocks);
  Job named = job;
  named.calibration = nullptr;
  planner::stamp_inputs(named, plan);
  return plan;
}

Result<Profile> make_profile(const Job& job, const ProfileInputs& inputs) {
  for (const LayerKind& kind : job.model.kinds)
    for (const Operator& op : kind.operators)
      if (op.kind == OperatorKind::router)
        return Error{ErrorKind::bad_input, "profile", "a mixture of experts",
                     "a model whose operators take the same time for every batch",
                     "the number of tokens per expert differs from batch to batch: such times are not interpolated yet"};
  if (inputs.earlier != nullptr && inputs.earlier->operators == nullptr)
    return Error{ErrorKind::bad_input, cat("calibration ", inputs.earlier->name), "no measured operators", "a profile",
                 "`espalier profile` writes one"};
  auto gathered = inputs.earlier != nullptr ? taken_over(*inputs.earlier) : gather(job, inputs.records);
  if (!gathered) return gathered.error();
  auto fabric = fabric_of(job, inputs.collectives);
  if (!fabric) return fabric.error();
  if (const auto missing = profile::not_covered(gathered->operators, job.model, Strategy{}, job.training.sequence.main))
    return Error{ErrorKind::bad_input, "profile", cat("too few times of ", profile::to_string(*missing)),
                 "at least two sample counts, also on one rank", "--samples 1,2,4"};
  Profile out;
  out.operators = static_cast<std::int64_t>(gathered->operators.rows().size());
  out.step_s = gathered->host.at_zero;
  out.micro_batch_s = gathered->host.slope;
  out.update_bytes_per_s = gathered->operators.update_bytes_per_s;
  out.notes = std::move(gathered->notes);
  if (*fabric) {
    out.fabric_error = (*fabric)->held_out;
    out.notes.insert(out.notes.end(), (*fabric)->warnings.begin(), (*fabric)->warnings.end());
  }
  const auto overlap = overlap_of(job, inputs, out);
  if (!overlap) return overlap.error();
  if (*overlap) {
    out.compute_slowdown = (*overlap)->compute_slowdown;
    out.communication_slowdown = (*overlap)->communication_slowdown;
  }
  out.yaml =
      cat("# A profile of Espalier's runtime on one machine, written by `espalier profile`. Use: `profile: FILE` in the job.\n",
          "schema: espalier.calibration/1\nnote: ", base::json_string(inputs.note),
          "\ndevice: ", base::json_string(job.cluster.groups.front().device.name), "\nengine: espalier\n",
          coefficient_lines(gathered->host), overlap_line(*overlap), *fabric ? calibrate::fabric_lines(**fabric) : "",
          operator_lines(gathered->operators));
  if (const auto read = read_calibration(out.yaml, "profile"); !read)
    return Error{ErrorKind::bad_input, "profile",
                 cat("measurements that no job would accept: ", read.error().where, ": ", read.error().found),
                 read.error().expected, "did something else use the machine during the measurement?"};
  return out;
}

}  // namespace espalier
