// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_calibration.h"

#include <algorithm>
#include <memory>

#include "base/document.h"
#include "base/format.h"
#include "cluster/device_choice.h"
#include "plan/engine.h"

namespace espalier::calibrate {
namespace {

std::string cluster_text(const Cluster& cluster) {
  return cluster.homogeneous() ? cluster.groups.front().device.name
                               : cat(std::to_string(cluster.groups.size()), " kinds of nodes");
}

/// Returns usual nodes of the device, as many as the tables span.
Result<Cluster> usual_cluster(const std::string& device, const std::vector<runlog::NcclTable>& tables) {
  std::int64_t nodes = 1;
  for (const runlog::NcclTable& t : tables) nodes = std::max(nodes, t.nodes);
  base::JsonWriter w;
  w.compact_next().begin_object();
  w.key("nodes").value(nodes).key("device").value(device).end_object();
  return load_cluster(w.text(), cat("usual nodes of ", device));
}

Result<UserFabric> fit_tables(const UserInputs& inputs) {
  if (inputs.cluster) {
    if (!inputs.cluster->homogeneous() || inputs.cluster->groups.front().device.name.rfind(inputs.device, 0) != 0)
      return Error{ErrorKind::bad_input, "--cluster", cluster_text(*inputs.cluster), cat("equal nodes of ", inputs.device), ""};
    return fit_user_fabric(*inputs.cluster, inputs.tables);
  }
  auto cluster = usual_cluster(inputs.device, inputs.tables);
  if (!cluster) return cluster.error();
  return fit_user_fabric(*cluster, inputs.tables);
}

}  // namespace

Result<std::string> resolve_device(const std::string& name) {
  if (const DeviceKind* known = device_called(name)) return known->name;
  std::vector<std::string> begin, all;
  for (const DeviceKind& d : device_catalogue()) {
    all.push_back(d.name);
    if (!name.empty() && d.name.rfind(name, 0) == 0) begin.push_back(d.name);
  }
  if (begin.size() == 1) return begin.front();
  // A beginning that several names share is not a misspelling of another.
  const auto close = begin.empty() ? base::did_you_mean(name, all) : std::nullopt;
  return Error{ErrorKind::usage, "--base",
               begin.empty() ? cat("\"", name, "\"") : cat("\"", name, "\", which could be any of ", base::joined(begin)),
               begin.empty() ? cat("a device of the catalogue: ", base::joined(cluster::devices_near(name))) : "one of them",
               close ? cat("did you mean ", *close, "?") : "choose one of these names"};
}

Result<UserCalibration> calibrate_user(UserInputs inputs) {
  UserCalibration out;
  out.device = inputs.device;
  if (!inputs.tables.empty()) {
    auto fabric = fit_tables(inputs);
    if (!fabric) return fabric.error();
    out.fabric = std::move(*fabric);
  }
  out.runs = std::move(inputs.runs);
  const bool any =
      std::any_of(out.runs.inputs.begin(), out.runs.inputs.end(), [](const UserInput& i) { return i.kind != kTables; });
  if (!any) return out;
  const auto engine = engine_of(out.runs);
  if (!engine) return engine.error();
  out.engine = *engine;
  std::vector<const CorpusRow*> rows;
  for (const UserRow& r : out.runs.rows) rows.push_back(&r.row);
  const std::vector<double> before = predicted_s(rows, find_engine(out.engine)->coefficients, inputs.threads);
  if (out.fabric)
    for (UserRow& r : out.runs.rows) job::apply_fabric(r.row.run.job.cluster, out.fabric->calibrated());
  out.memory = fit_memory(out.runs.rows, *find_engine(out.engine));
  out.fit = fit_user(out.runs.rows, before, out.engine, inputs.threads);
  return out;
}

}  // namespace espalier::calibrate

namespace espalier {
namespace {

using namespace calibrate;

Status read_steps(const CalibrationInputs& inputs, const UserTarget& target, UserRuns& out) {
  for (const NamedText& records : inputs.records)
    if (Status status = add_records(records.text, records.name, target, inputs.threads, out); !status.ok()) return status;
  for (const MeasuredLog& m : inputs.logs)
    if (Status status = add_log(m.log.text, m.log.name, m.job, m.strategy, m.schedule, m.warm_up, target, out); !status.ok())
      return status;
  return {};
}

Status read_tables(const std::vector<NamedText>& texts, UserInputs& out) {
  for (const NamedText& file : texts) {
    const auto tables = runlog::read_nccl_tests(file.text, file.name);
    if (!tables) return tables.error();
    out.tables.insert(out.tables.end(), tables->begin(), tables->end());
    out.runs.inputs.push_back(
        {file.name.substr(file.name.find_last_of('/') + 1), base::content_hash(file.text), std::string(kTables)});
  }
  return {};
}

/// Returns the figures of a fit; data that its tables need stays in `details`.
CalibrationResult result_of(UserCalibration fitted) {
  CalibrationResult out;
  out.device = fitted.device;
  out.engine = fitted.engine;
  out.notes = fitted.runs.notes;
  out.yaml = to_yaml(fitted);
  if (fitted.fit) {
    const UserFit& fit = *fitted.fit;
    out.configurations = fit.configurations;
    for (const ParameterFit& p : fit.parameters)
      out.coefficients.push_back({p.name, p.meaning, p.prior, p.value, p.sigma, p.identified});
    out.before = fit.before;
    out.held_out = fit.held_out;
    out.fitted = fit.fitted;
    out.cross_validation = fit.cross_validation;
    out.level = fit.level;
    out.low = fit.low;
    out.high = fit.high;
  }
  out.details = std::make_shared<const UserCalibration>(std::move(fitted));
  return out;
}

}  // namespace

Result<CalibrationResult> fit_calibration(const CalibrationInputs& inputs) {
  const auto device = resolve_device(inputs.device);
  if (!device) return device.error();
  UserInputs user;
  user.device = *device;
  user.threads = inputs.threads > 0 ? inputs.threads : 2;
  user.cluster = inputs.cluster;
  if (Status status = read_steps(inputs, {*device, inputs.engine}, user.runs); !status.ok()) return status.error();
  if (Status status = read_tables(inputs.nccl_tests, user); !status.ok()) return status.error();
  if (user.runs.inputs.empty())
    return Error{ErrorKind::usage, "calibrate", "nothing measured", "records, logs or nccl-tests output", ""};
  auto fitted = calibrate_user(std::move(user));
  if (!fitted) return fitted.error();
  return result_of(std::move(*fitted));
}

}  // namespace espalier
