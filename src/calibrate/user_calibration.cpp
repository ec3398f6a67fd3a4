// SPDX-License-Identifier: Apache-2.0
#include "calibrate/user_calibration.h"

#include <algorithm>

#include "base/document.h"
#include "base/format.h"

namespace espalier::calibrate {
namespace {

using base::cat;

std::string cluster_text(const Cluster& cluster) {
  return cluster.homogeneous() ? cluster.groups.front().device.name
                               : cat(std::to_string(cluster.groups.size()), " kinds of nodes");
}

/// Usual nodes of the device, as many as the tables span.
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
  const auto joined = [](const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& w : words) out += cat(out.empty() ? "" : ", ", w);
    return out;
  };
  const auto close = base::did_you_mean(name, all);
  return Error{ErrorKind::usage, "--base",
               begin.empty() ? cat("\"", name, "\"") : cat("\"", name, "\", which may be any of ", joined(begin)),
               begin.empty() ? cat("a device of the catalogue: ", joined(all)) : "one of them",
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
  std::vector<const Row*> rows;
  for (const UserRow& r : out.runs.rows) rows.push_back(&r.row);
  const std::vector<double> before = predicted_s(rows, find_engine(out.engine)->coefficients, inputs.threads);
  if (out.fabric)
    for (UserRow& r : out.runs.rows) apply_fabric(r.row.run.job.cluster, out.fabric->calibrated());
  out.fit = fit_user(out.runs.rows, before, out.engine, inputs.threads);
  return out;
}

}  // namespace espalier::calibrate
