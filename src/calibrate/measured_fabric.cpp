// SPDX-License-Identifier: Apache-2.0
#include "espalier/measured_fabric.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "calibrate/user_fabric.h"
#include "job/calibration_file.h"
#include "runlog/nccl_tests.h"

namespace espalier {
namespace {

Result<std::vector<runlog::NcclTable>> tables_of(const std::vector<NamedText>& outputs) {
  std::vector<runlog::NcclTable> out;
  for (const NamedText& output : outputs) {
    auto tables = runlog::read_nccl_tests(output.text, output.name);
    if (!tables) return tables.error();
    std::move(tables->begin(), tables->end(), std::back_inserter(out));
  }
  return out;
}

}  // namespace

Result<TestedNodes> tested_nodes(const std::vector<NamedText>& outputs) {
  const auto tables = tables_of(outputs);
  if (!tables) return tables.error();
  TestedNodes out;
  for (const runlog::NcclTable& table : *tables) {
    if (!table.device.empty() && !out.device.empty() && table.device != out.device)
      return Error{ErrorKind::bad_input, table.where, table.device, cat(out.device, ", as in the previous tables"),
                   "one kind of device"};
    if (out.device.empty()) out.device = table.device;
    out.nodes = std::max(out.nodes, table.nodes);
    out.devices_per_node =
        std::max({out.devices_per_node, table.active_per_node, table.ranks / std::max<std::int64_t>(1, table.nodes)});
  }
  return out;
}

Result<MeasuredFabric> measured_fabric(const Cluster& cluster, const std::vector<NamedText>& outputs) {
  const auto tables = tables_of(outputs);
  if (!tables) return tables.error();
  const auto fit = calibrate::fit_user_fabric(cluster, *tables);
  if (!fit) return fit.error();
  MeasuredFabric out{cluster, {}};
  job::apply_fabric(out.cluster, fit->calibrated());
  for (const calibrate::LevelFit& level : fit->levels) {
    std::string text;
    for (const auto& field : level.fields)
      if (field.identified)
        text += cat(text.empty() ? "" : ", ", field.field->name, " ", base::six_digits(field.value),
                    " (before: ", base::six_digits(field.prior), ")");
    out.notes.push_back(cat(level.name, ", from nccl-tests: ", text.empty() ? "these tables determine nothing" : text));
  }
  out.notes.push_back(cat("nccl-tests, messages of 1 MiB and more: predicted times are off by ", base::percent(fit->before),
                          " without the fit, and by ", base::percent(fit->held_out), " with it (held-out rows)"));
  for (const std::string& warning : fit->warnings) out.notes.push_back(warning);
  return out;
}

}  // namespace espalier
