// SPDX-License-Identifier: Apache-2.0
// A job: what is to be trained, on which devices, with which engine, and where the search may look. It is immutable
// once it is loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/model.h"
#include "espalier/plan.h"
#include "espalier/result.h"
#include "espalier/search_space.h"

namespace espalier {

struct EngineModel;  // plan/engine.h
struct Calibration;  // job/calibration_file.h

/// How long what is sent takes. closed: each message as if alone on its links; flow: all that is in flight shares them
/// (docs/network.md).
enum class NetworkKind : std::uint8_t { closed, flow };
/// The flow-level network lays every device's traffic on its links, up to this many devices.
inline constexpr std::int64_t kMostFlowDevices = 1024;

/// What a plan shall be best at (espalier/objective.h).
struct Objective {
  enum class Minimise : std::uint8_t { time, cost };
  Minimise minimise = Minimise::time;
  std::optional<double> budget_per_step;  ///< in the cluster's currency
  std::optional<double> deadline_s;       ///< of the whole run
  bool operator==(const Objective&) const = default;
};

struct Job {
  Model model;
  Cluster cluster;  ///< of token buckets what lasts: plans, times and checks are those of the sustained rate
  /// As it was given, where it has token buckets (espalier/long_run.h).
  std::optional<Cluster> with_buckets;
  Training training;
  std::string engine = "generic";
  SearchSpace search;
  std::optional<Objective> objective;        ///< none: the fastest plan on all devices
  std::string model_source, cluster_source;  ///< canonical JSON of the inputs, copied into plans
  std::vector<std::string> notes;            ///< what every command says of the inputs: keys of the model that are not
                                             ///< read, and
                                             ///< such
  /// Replaces the catalogue's description of `engine` (a calibration being fitted, or a user's own); null: the
  /// catalogue's.
  std::shared_ptr<const EngineModel> engine_model;
  /// A user's own calibration that is in force (use_calibration); null: what ships.
  std::shared_ptr<const Calibration> calibration;
  NetworkKind network =
      NetworkKind::closed;  ///< of every simulated time: of the search, what stands beside the answer, and timelines
};

/// Reads a job file (YAML or JSON); `overrides` are "a.b.c=value" (--set). Paths inside are relative to the file, then
/// to the working directory.
Result<Job> load_job_file(const std::string& path, const std::vector<std::string>& overrides);
Result<Job> load_job(std::string_view text, const std::string& where, const std::string& base_directory,
                     const std::vector<std::string>& overrides);
/// The job that a plan file was made for (its inputs are embedded in the plan).
Result<Job> job_of_plan(const Plan& plan);

}  // namespace espalier
