// SPDX-License-Identifier: Apache-2.0
// A job: the model to train, its devices and engine, and the space that a search may use. It is immutable once loaded.
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

/// Selects how the time of a message is computed. `closed`: each message is alone on its links. `flow`: all traffic
/// in flight shares them (docs/network.md).
enum class NetworkKind : std::uint8_t { closed, flow };
/// The flow-level network places every device's traffic on its links. It is limited to this many devices.
inline constexpr std::int64_t kMostFlowDevices = 1024;

/// Describes the objective of a plan (espalier/objective.h).
struct Objective {
  enum class Minimise : std::uint8_t { time, cost };
  Minimise minimise = Minimise::time;
  std::optional<double> budget_per_step;  ///< in the cluster's currency
  std::optional<double> deadline_s;       ///< for the whole run
  bool operator==(const Objective&) const = default;
};

/// Holds everything that a plan depends on.
struct Job {
  Model model;
  /// Holds token buckets at their sustained rate, which plans, times and checks use.
  Cluster cluster;
  /// Holds the cluster as it was given, if it has token buckets (espalier/long_run.h).
  std::optional<Cluster> with_buckets;
  Training training;
  std::string engine = "generic";
  SearchSpace search;
  std::optional<Objective> objective;        ///< none: the fastest plan on all devices
  std::string model_source, cluster_source;  ///< canonical JSON of the inputs, copied into plans
  /// Lists remarks on the inputs that every command prints, such as keys of the model that are not read.
  std::vector<std::string> notes;
  /// Replaces the catalogue's description of `engine`: by a calibration that is being fitted, or by a
  /// user's own. Null: the catalogue's.
  std::shared_ptr<const EngineModel> engine_model;
  /// Holds the user's calibration in force (use_calibration); null: shipped values apply.
  std::shared_ptr<const Calibration> calibration;
  /// Applies to every simulated time: in the search, in the accompanying figures, and in timelines.
  NetworkKind network = NetworkKind::closed;
};

/// Reads a job file (YAML or JSON); `overrides` are "a.b.c=value" (--set). Paths in it are relative to the file,
/// otherwise to the working directory.
Result<Job> load_job_file(const std::string& path, const std::vector<std::string>& overrides);
Result<Job> load_job(std::string_view text, const std::string& where, const std::string& base_directory,
                     const std::vector<std::string>& overrides);
/// Returns the job for which a plan file was made; the plan embeds its inputs.
Result<Job> job_of_plan(const Plan& plan);

}  // namespace espalier
