// SPDX-License-Identifier: Apache-2.0
// Returns the job of a plan, from the inputs that are embedded in the plan, each with its hash.
#include "base/document.h"
#include "espalier/job.h"
#include "job/calibration_file.h"
#include "job/inputs.h"
#include "plan/engine.h"

namespace espalier {

Result<Job> job_of_plan(const Plan& plan) {
  const auto refuse = [](const std::string& path, const std::string& found, const std::string& expected) {
    return Error{ErrorKind::bad_input, "plan: " + path, found, expected, "plan again from the job file"};
  };
  if (plan.model_source.empty() || plan.cluster_source.empty()) {
    return refuse("$.model.source", "no embedded inputs", "the model and cluster for which the plan was made");
  }
  if (base::content_hash(plan.model_source) != plan.model_hash) {
    return refuse("$.model.hash", plan.model_hash, base::content_hash(plan.model_source) + ", the hash of the embedded model");
  }
  if (base::content_hash(plan.cluster_source) != plan.cluster_hash) {
    return refuse("$.cluster.hash", plan.cluster_hash,
                  base::content_hash(plan.cluster_source) + ", the hash of the embedded cluster");
  }
  auto model = load_model(plan.model_source, "plan: $.model.source");
  if (!model) return model.error();
  auto cluster = load_cluster(plan.cluster_source, "plan: $.cluster.source");
  if (!cluster) return cluster.error();
  if (!find_engine(plan.engine)) return refuse("$.engine", "\"" + plan.engine + "\"", "a known engine");
  Job job;
  job.model = std::move(model).value();
  job.model.name = plan.model_name;
  job.cluster = std::move(cluster).value();
  job.cluster.name = plan.cluster_name;
  job::take_what_lasts(job);
  job.training = plan.training;
  if (Status status = mark_trained(job.model, job.training, "plan: $.training"); !status.ok()) return status.error();
  job.engine = plan.engine;
  job.model_source = plan.model_source;
  job.cluster_source = plan.cluster_source;
  job.notes = job::notes_of(job);
  if (plan.calibration_source.empty()) return job;
  if (base::content_hash(plan.calibration_source) != plan.calibration_hash) {
    return refuse("$.calibration.hash", plan.calibration_hash,
                  base::content_hash(plan.calibration_source) + ", the hash of the embedded calibration");
  }
  auto calibration = read_calibration(plan.calibration_source, "plan: $.calibration.source", plan.calibration_name);
  if (!calibration) return calibration.error();
  if (Status status = use_calibration(job, std::move(*calibration)); !status.ok()) return status.error();
  return job;
}

}  // namespace espalier
