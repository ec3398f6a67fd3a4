// SPDX-License-Identifier: Apache-2.0
#include "base/document.h"
#include "base/format.h"
#include "espalier/inspect.h"
#include "espalier/text.h"
#include "report/brief_text.h"
#include "report/validation_text.h"

namespace espalier::report {
namespace {

std::string label_of(const MappedRun& run) {
  Plan named;
  named.pipelines = {Pipeline{0, run.schedule, 0, {Stage{{}, {Chunk{{LayerRange{0, 0, run.strategy}}}}}}}};
  return named.label();
}

std::string job_text(const MappedRun& run) {
  const Job& job = run.job;
  const NodeGroup& group = job.cluster.groups.front();
  std::string out = cat("  model      ", job.model.name, ", ", short_count(static_cast<double>(parameter_count(job.model))), " (",
                        grouped(parameter_count(job.model)), ") parameters\n");
  out += cat("  cluster    ", grouped(group.nodes), " × ", grouped(group.devices_per_node), " ", group.device.name, "\n");
  out += cat("  training   sequence ", grouped(job.training.sequence.main), ", global batch ", grouped(job.training.global_batch),
             ", ", to_string(job.training.precision), "\n");
  return cat(out, "  engine     ", job.engine, "\n  plan       ", label_of(run), "\n");
}

}  // namespace

std::string inspect_run(const RunRecord& record, const RunMapping& mapping, std::size_t width) {
  std::string out = cat(record.id, " (", record.source, ", ", record.framework, ")\n");
  if (const auto* skip = std::get_if<RunSkip>(&mapping)) {
    out += cat("  not predicted: ", skip->reason, skip->detail.empty() ? "" : cat(" (", skip->detail, ")"), "\n");
    return lay_out(out, width);
  }
  const auto& run = std::get<MappedRun>(mapping);
  out += job_text(run);
  for (const UsedDefault& d : run.defaults) {
    out += cat("  ", pad_right(d.field, 22), d.value, "  (default) ", wrap(d.source, 90, std::string(24, ' ')), "\n");
  }
  return lay_out(out, width);
}

std::string inspect_run_json(const RunRecord& record, const RunMapping& mapping) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.run-mapping/1");
  w.key("id").value(record.id);
  w.key("source").value(record.source);
  if (const auto* skip = std::get_if<RunSkip>(&mapping)) {
    w.key("skipped").value(skip->reason);
    w.key("detail").value(skip->detail);
    w.end_object();
    return w.text();
  }
  const auto& run = std::get<MappedRun>(mapping);
  w.key("engine").value(run.job.engine);
  w.key("label").value(label_of(run));
  w.key("parameters").value(parameter_count(run.job.model));
  w.key("cluster").raw(run.job.cluster_source);
  w.key("memory_rank").value(run.memory_rank);
  w.key("memory_kind").value(run.memory_kind);
  write_defaults(w, run.defaults);
  w.end_object();
  return w.text();
}

}  // namespace espalier::report
