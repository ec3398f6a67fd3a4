// SPDX-License-Identifier: Apache-2.0
#include "job/calibration_file.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/document.h"
#include "base/format.h"
#include "plan/coefficients.h"
#include "plan/engine.h"

namespace espalier::job {
namespace {

constexpr std::string_view kSchema = "espalier.calibration/1";

std::string read_known_engine(Reader& r) {
  std::string engine = r.optional_string("engine", "");
  if (engine.empty() || find_engine(engine)) return engine;
  std::vector<std::string> names;
  for (const EngineModel& e : engine_catalogue()) names.push_back(e.name);
  const auto close = base::did_you_mean(engine, names);
  r.fail("engine", cat("\"", engine, "\""), "an engine of this version", close ? cat("did you mean \"", *close, "\"") : "");
  return engine;
}

void warn_of_distance(Calibration& c) {
  const EngineModel* engine = find_engine(c.engine);
  if (engine == nullptr) return;
  for (const CoefficientField& field : coefficient_fields()) {
    const double value = c.coefficients.*field.member, shipped = engine->coefficients.*field.member;
    const double distance = std::fabs(field.additive ? value - shipped : std::log(value / shipped));
    const double widths = field.sigma > 0 && std::isfinite(distance) ? distance / field.sigma : 0;
    if (std::string far = far_from_shipped(field.name, widths, value, shipped); !far.empty())
      c.warnings.push_back(std::move(far));
  }
}

void read_coefficients(Reader& r, Calibration& c) {
  if (const EngineModel* engine = find_engine(c.engine)) c.coefficients = engine->coefficients;
  if (!r.has("coefficients")) return;
  Reader values = r.child("coefficients", true);
  if (c.engine.empty())
    r.fail("coefficients", "coefficients without an engine", "engine: the framework for which they were fitted");
  for (const CoefficientField& field : coefficient_fields())
    c.coefficients.*field.member = values.optional_real(field.name, field.low, field.high, c.coefficients.*field.member);
  values.finish();
  warn_of_distance(c);
}

CalibratedLevel read_level(Reader& r) {
  CalibratedLevel level;
  level.name = r.required_string("level");
  level.inside_node = r.optional_choice("where", {"node", "network"}, 0) == 0;
  for (const cluster::FabricField& field : cluster::fabric_fields()) {
    if (r.has(field.name)) level.values.emplace_back(&field, r.optional_real(field.name, field.low, field.high, field.prior));
  }
  level.direct_bytes = r.optional_real("direct_bytes", 0, 1e12, 0);
  r.finish();
  return level;
}

/// Reads times of operators, from `espalier profile`.
void read_operators(Reader& r, Calibration& c) {
  if (!r.has("operators")) return;
  auto measured = std::make_shared<profile::MeasuredOperators>();
  if (c.engine.empty()) r.fail("operators", "operators without an engine", "engine: the framework whose operators were measured");
  r.each("operators", true, [&](Reader& row) {
    const profile::MeasuredTime time = profile::read_row(row);
    if (row.sink().ok()) measured->add(time);
  });
  measured->update_bytes_per_s = r.optional_real("update_bytes_per_s", 0, 1e18, 0);
  c.operators = std::move(measured);
}

void read_memory(Reader& r, Calibration& c) {
  if (!r.has("memory")) return;
  if (c.engine.empty()) r.fail("memory", "memory without an engine", "engine: the framework whose allocator was measured");
  Reader memory = r.child("memory", true);
  c.allocator_reserve = memory.required_real("allocator_reserve", 0, 0.5);
  memory.finish();
}

void read_overlap(Reader& r, Calibration& c) {
  if (!r.has("overlap")) return;
  constexpr double kMost = 100;  // the range of a device's own (src/cluster/device_reader.cpp)
  Reader overlap = r.child("overlap", true);
  MeasuredOverlap read;
  read.compute_slowdown = overlap.required_real("compute_slowdown", 1, kMost);
  read.communication_slowdown = overlap.required_real("communication_slowdown", 1, kMost);
  overlap.finish();
  c.overlap = read;
}

void read_interval(Reader& r, Calibration& c) {
  if (!r.has("interval")) return;
  Reader interval = r.child("interval", true);
  c.level = interval.optional_real("level", 0.5, 0.999, 0.8);
  c.low = interval.required_real("low", 0.01, 1.0);
  c.high = interval.required_real("high", 1.0, 100.0);
  interval.finish();
}

/// Reads the held-out evidence and its error, and nothing that the file does not state.
void read_evidence(Reader& r, Calibration& c) {
  if (!r.has("evidence")) return;
  Reader e = r.child("evidence", true);
  c.runs = e.optional_int("runs", 0, 1'000'000'000, 0);
  c.devices_low = e.optional_int("devices_low", 0, 100'000'000, 0);
  c.devices_high = e.optional_int("devices_high", c.devices_low, 100'000'000, c.devices_low);
  c.error_before = e.optional_real("median_error_before", 0, 1e6, 0);
  c.error_after = e.optional_real("median_error_after", 0, 1e6, 0);
  c.cross_validation = e.optional_string("cross_validation", "");
  e.ignore({"configurations", "mean_error_before", "mean_error_after", "median_error_in_sample", "interval_basis", "parameters",
            "measured", "memory", "collectives", "inputs"});
  e.finish();
}

bool same_device(const std::string& wanted, const std::string& found) {
  return wanted == found || cat(wanted, "-modified") == found;
}

void set_levels(std::vector<FabricLevel>& levels, bool inside_node, const std::vector<CalibratedLevel>& fabric) {
  for (FabricLevel& level : levels) {
    for (const CalibratedLevel& measured : fabric) {
      if (measured.inside_node != inside_node || measured.name != level.name) continue;
      for (const auto& [field, value] : measured.values) field->set(level, value);
      if (measured.direct_bytes > 0) level.direct_bytes = measured.direct_bytes;
    }
  }
}

}  // namespace

void apply_fabric(Cluster& cluster, const std::vector<CalibratedLevel>& levels) {
  for (NodeGroup& group : cluster.groups) set_levels(group.intra, true, levels);
  set_levels(cluster.inter, false, levels);
}

void apply_overlap(Cluster& cluster, const MeasuredOverlap& overlap) {
  for (NodeGroup& group : cluster.groups) {
    DeviceEfficiency& device = group.device.efficiency;
    device.overlap_compute_slowdown = overlap.compute_slowdown;
    device.overlap_communication_slowdown = overlap.communication_slowdown;
    device.measured_overlap = true;
  }
}

std::string far_from_shipped(std::string_view name, double widths, double value, double shipped) {
  constexpr double kFar = 3;
  if (widths < kFar) return "";
  return cat(name, " ", base::fixed(value, 4), " is ", base::fixed(widths, 1), " prior widths from the shipped ",
             base::fixed(shipped, 4), ": is the configuration of the runs right? was the machine shared?");
}

}  // namespace espalier::job

namespace espalier {

using namespace job;

namespace {

bool covers(const Job& job, const profile::MeasuredOperators& measured, std::int64_t tp, SequenceParallel sp) {
  Strategy s;
  s.tp = static_cast<std::int32_t>(tp);
  s.sp = sp;
  return !profile::not_covered(measured, job.model, s, job.training.sequence.main);
}

/// Restricts the search to measured configurations: tensor parallelism of measured sizes, and kinds of sequence
/// parallelism that all of them have.
Status keep_to_measured(Job& job, const Calibration& calibration) {
  if (calibration.operators == nullptr) return {};
  const profile::MeasuredOperators& measured = *calibration.operators;
  Strategy whole;
  if (const auto missing = profile::not_covered(measured, job.model, whole, job.training.sequence.main))
    return Error{ErrorKind::bad_input, cat("profile ", calibration.name), cat("no times of ", profile::to_string(*missing)),
                 "two sample counts for every operator of the model, at the job's sequence length",
                 "`espalier profile` of this job measures them"};
  std::vector<std::int64_t> sizes, kinds;
  for (std::int64_t tp = 1; tp <= job.cluster.devices(); ++tp)
    if (job.search.admits(Dimension::tp, tp) && covers(job, measured, tp, SequenceParallel::none)) sizes.push_back(tp);
  for (const SequenceParallel sp : {SequenceParallel::none, SequenceParallel::megatron, SequenceParallel::ulysses}) {
    const bool all =
        std::all_of(sizes.begin(), sizes.end(), [&](std::int64_t tp) { return tp == 1 || covers(job, measured, tp, sp); });
    if (all && job.search.admits(Dimension::sp, sp)) kinds.push_back(static_cast<std::int64_t>(sp));
  }
  if (sizes.empty())
    return Error{ErrorKind::bad_input, cat("profile ", calibration.name), "no measured times for any tp that the search allows",
                 "times for an allowed tp", "`espalier profile --tp 1,2,4` measures several"};
  job.search.allowed[Dimension::tp] = sizes;
  job.search.allowed[Dimension::sp] = kinds;
  job.search.allowed[Dimension::cp] = {1};
  return {};
}

}  // namespace

Result<std::shared_ptr<const Calibration>> read_calibration(std::string_view yaml, const std::string& where,
                                                            const std::string& name) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  Reader r = Reader::root(*document, sink);
  Calibration c;
  if (const std::string schema = r.required_string("schema"); sink.ok() && schema != kSchema)
    r.fail("schema", cat("\"", schema, "\""), std::string(kSchema), "`espalier calibrate` writes such files");
  c.device = r.required_string("device");
  c.engine = read_known_engine(r);
  read_coefficients(r, c);
  read_operators(r, c);
  read_memory(r, c);
  r.each("fabric", false, [&c](Reader& level) { c.fabric.push_back(read_level(level)); });
  read_overlap(r, c);
  read_interval(r, c);
  read_evidence(r, c);
  r.ignore({"note"});
  r.finish();
  if (!sink.ok()) return sink.first().error();
  c.source = base::to_json(document->root);
  c.hash = base::content_hash(c.source);
  c.name = name.empty() ? std::filesystem::path(where).stem().string() : name;
  return std::shared_ptr<const Calibration>(std::make_shared<Calibration>(std::move(c)));
}

Result<std::shared_ptr<const Calibration>> read_calibration_file(const std::string& path) {
  auto bytes = base::read_file(path);
  if (!bytes) return bytes.error();
  return read_calibration(*bytes, path);
}

std::string mismatch(const Calibration& c, const Job& job) {
  if (!job.cluster.homogeneous()) return "the cluster has several kinds of nodes";
  const std::string& device = job.cluster.groups.front().device.name;
  if (!same_device(c.device, device)) return cat("made for device ", c.device, ", the job has ", device);
  if (!c.engine.empty() && base_engine(c.engine) != base_engine(job.engine))
    return cat("made for engine ", c.engine, ", the job has ", job.engine);
  return "";
}

Status use_calibration(Job& job, std::shared_ptr<const Calibration> calibration) {
  const std::string why = mismatch(*calibration, job);
  const std::string& device = job.cluster.groups.front().device.name;
  if (job.cluster.homogeneous() && !same_device(calibration->device, device))
    return Error{ErrorKind::bad_input, cat("calibration ", calibration->name), cat("a calibration for ", calibration->device),
                 cat("one for ", device, ", the job's device"), "`espalier calibrate` makes one from measured steps"};
  if (!why.empty())
    return Error{ErrorKind::bad_input, cat("calibration ", calibration->name), why, "a calibration of this device and engine",
                 "`espalier calibrate` makes one from measured steps"};
  if (!calibration->engine.empty()) {
    const EngineModel* known = job.engine_model ? job.engine_model.get() : find_engine(job.engine);
    if (known == nullptr) return Error{ErrorKind::bad_input, "engine", cat("\"", job.engine, "\""), "a known engine", ""};
    auto engine = std::make_shared<EngineModel>(*known);
    engine->coefficients = calibration->coefficients;
    engine->measured = calibration->operators;
    if (calibration->allocator_reserve >= 0) engine->memory.allocator_reserve = calibration->allocator_reserve;
    job.engine_model = std::move(engine);
    if (Status status = keep_to_measured(job, *calibration); !status.ok()) return status.error();
  }
  apply_fabric(job.cluster, calibration->fabric);
  if (calibration->overlap) apply_overlap(job.cluster, *calibration->overlap);
  job.calibration = std::move(calibration);
  return {};
}

}  // namespace espalier
