// SPDX-License-Identifier: Apache-2.0
// Lists the formats. Espalier's own are defined here; those of another tool have their own file.
#include "espalier/exchange.h"

#include <algorithm>

#include "base/invariant.h"
#include "espalier/planner.h"
#include "exchange/accelerate.h"
#include "exchange/deepspeed.h"
#include "exchange/fsdp2_recipe.h"
#include "exchange/galvatron.h"
#include "exchange/megatron.h"
#include "exchange/megatron_bridge.h"
#include "exchange/rank_map.h"
#include "exchange/request.h"
#include "exchange/schedule_csv.h"
#include "exchange/spot_trace.h"
#include "exchange/torchtitan.h"
#include "plan/engine.h"

namespace espalier::exchange {
namespace {

Importer plan_json();

Result<ImportedPlan> read_plan(const ImportRequest& request) {
  if (Status status = refused(plan_json(), request); !status.ok()) return status.error();
  const ImportFile& file = required_file(request, "plan");
  auto plan = plan_from_json(file.text, file.name);
  if (!plan) return plan.error();
  return ImportedPlan{std::move(*plan), {}};
}

Importer plan_json() {
  return {"plan", "Espalier's own plan.json (espalier.plan/2)", false, {{"plan", "plan.json", true}}, {}, read_plan};
}

Result<std::string> write_plan(const ExportRequest& request) { return to_json(*request.plan) + "\n"; }

Result<std::string> write_timeline(const ExportRequest& request) {
  const auto simulated = simulate_with_timeline(*request.job, *request.plan);
  if (!simulated) return simulated.error();
  ESPALIER_CHECK(simulated->timeline.iteration_ns == simulated->result.prediction.iteration_ns);
  return to_trace(simulated->timeline);
}

template <class Row>
const Row* row_called(const std::vector<Row>& rows, std::string_view name) {
  const auto at = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

}  // namespace

const std::vector<Importer>& importers() {
  static const std::vector<Importer> rows{plan_json(), galvatron_strategy(), galvatron_profile()};
  return rows;
}

const std::vector<Exporter>& exporters() {
  static const std::vector<Exporter> rows{
      {"plan", "Espalier's own plan.json (espalier.plan/2)", "plan.json", write_plan},
      {"timeline", "the simulated step as Chrome trace-event JSON", "timeline.json", write_timeline},
      megatron_core(),
      megatron_bridge(),
      accelerate_fsdp(),
      fsdp2_recipe(),
      deepspeed_json(),
      galvatron_export(),
      torchtitan_flags(),
      torchtitan_recipe(),
      schedule_csv(),
      rank_map()};
  return rows;
}

std::string_view to_string(Launcher launcher) {
  switch (launcher) {
    case Launcher::torchrun: break;
    case Launcher::sbatch: return "sbatch";
    case Launcher::mpirun: return "mpirun";
    case Launcher::kubeflow: return "kubeflow";
  }
  return "torchrun";
}

std::optional<Launcher> parse_launcher(std::string_view name) {
  for (const Launcher launcher : {Launcher::torchrun, Launcher::sbatch, Launcher::mpirun, Launcher::kubeflow})
    if (to_string(launcher) == name) return launcher;
  return std::nullopt;
}

const std::vector<TraceFormat>& trace_formats() {
  static const std::vector<TraceFormat> rows{
      {"bamboo", "Bamboo's spot traces: time_ms,add|remove,node; or date,time,instances", read_bamboo_trace},
      {"parcae", "Parcae's spot traces: time_ms,add|remove|no-op,nodes; or time_ms,instances", read_parcae_trace},
      {"sailor", "Sailor's traces: time_s,gpus", read_sailor_trace},
      {"counts", "time_s,nodes: the number of nodes from that time on", read_counts_trace}};
  return rows;
}

const TraceFormat* find_trace_format(std::string_view name) { return row_called(trace_formats(), name); }

const Importer* find_importer(std::string_view name) { return row_called(importers(), name); }
const Exporter* find_exporter(std::string_view name) { return row_called(exporters(), name); }

std::string why_unwritten(std::string_view engine) {
  const EngineModel* model = find_engine(engine);
  return model == nullptr || !model->formats.empty() ? "" : model->unwritten;
}

std::vector<const Exporter*> exporters_of(std::string_view engine) {
  std::vector<const Exporter*> out;
  const EngineModel* model = find_engine(engine);
  if (model == nullptr) return out;
  for (const std::string& name : model->formats) {
    out.push_back(find_exporter(name));
    ESPALIER_CHECK(out.back() != nullptr);  // data/engines.yaml names existing formats
  }
  return out;
}

}  // namespace espalier::exchange
