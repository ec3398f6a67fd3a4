// SPDX-License-Identifier: Apache-2.0
// The registry of formats from which Espalier reads plans and to which it writes plans. Each format is a row; a new
// format is a new row (src/exchange/).
//
//   for (const exchange::Exporter& e : exchange::exporters())   // every format
//     std::cout << e.name << ": " << e.writes << "\n";
//   auto text = exchange::find_exporter("galvatron")->write({&*job, &plan});   // contents of the file.
//
// Nothing is approximated: an error names every feature that the other side cannot express.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/job.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::exchange {

/// Describes a file that an importer reads, by its purpose.
struct FileRole {
  std::string name;  ///< "strategy", "computation", …
  std::string what;  ///< shown to users: "galvatron_config_*.json"
  bool required = true;
};

/// Describes a choice that the files leave open.
struct FormatOption {
  std::string name;
  std::string what;   ///< shown to users: its effect and its values
  std::string value;  ///< the default
};

/// Holds one file of an import.
struct ImportFile {
  std::string role;        ///< FileRole::name
  std::string name, text;  ///< name in messages, and contents
};

/// Holds the inputs of an import.
struct ImportRequest {
  /// Points to the job with model, cluster and training of the plan; null for importers that need none. It must outlive
  /// the call of Importer::read.
  const Job* job = nullptr;
  std::vector<ImportFile> files;
  std::map<std::string, std::string> options;  ///< by FormatOption::name
};

/// Holds a plan with its inputs embedded, ready for simulate(), check_plan() and plan.json.
struct ImportedPlan {
  Plan plan;
  std::vector<std::string> notes;  ///< sentences for the user, e.g. about keys that are not read
};

/// Describes a format from which plans can be imported.
struct Importer {
  std::string name;   ///< "plan", "galvatron", …
  std::string reads;  ///< shown to users
  bool needs_job = false;
  std::vector<FileRole> files;
  std::vector<FormatOption> options;
  /// Fails with bad_input when a file is wrong or contains a feature that a plan cannot express. Fails with usage
  /// when a file or an option is missing, unknown or wrong.
  Result<ImportedPlan> (*read)(const ImportRequest& request) = nullptr;
};

/// Selects the program that starts the processes of a run.
enum class Launcher : std::uint8_t {
  torchrun,  ///< a script for every node, which receives the number of its node
  sbatch,    ///< a Slurm batch script
  mpirun,    ///< a script that starts Open MPI over the hosts of a host file
  kubeflow,  ///< a TrainJob of Kubeflow Trainer
};
std::string_view to_string(Launcher launcher);  ///< "torchrun", "sbatch", "mpirun", "kubeflow"
/// Returns the launcher of this name, if there is one.
std::optional<Launcher> parse_launcher(std::string_view name);

/// Holds the inputs of an export. `job` and `plan` must not be null; both must outlive the call of Exporter::write.
struct ExportRequest {
  const Job* job = nullptr;  ///< the plan's own job
  const Plan* plan = nullptr;
  std::optional<Launcher> launcher = std::nullopt;  ///< none: write the format without a launcher
  std::vector<std::string> lost = {};               ///< ClosestPlan::lost, repeated in the first lines of the file
};

/// Names a plan feature that a format cannot express.
struct FormatRule {
  std::string id;        ///< "ACC-PIPELINE", an anchor of docs/engine-rules.md
  std::string sentence;  ///< requirement of the format on a plan
};

/// Reports a feature of one plan that its format cannot express.
struct FormatFault {
  std::string id, found, expected;
  std::string hint = {};  ///< empty: the error suggests a plan for the format's engine
};

/// Describes a format to which plans can be exported.
struct Exporter {
  std::string name;       ///< "plan", "timeline", "galvatron"
  std::string writes;     ///< shown to users
  std::string file_name;  ///< usual name of such a file
  /// Returns the bytes of the file. Fails with check_failed when the format cannot express the plan, and with
  /// bad_input when an input of the plan cannot be read.
  Result<std::string> (*write)(const ExportRequest& request) = nullptr;
  /// Names the engine that the format launches. A plan must satisfy the engine's rules before it is written. Empty:
  /// none.
  std::string engine = {};
  /// Lists the launchers that `write` supports. Empty: the file is the same for every launcher.
  std::vector<Launcher> launchers = {};
  /// Returns the rules of the format, and the first one that a plan breaks. Null: only the rules of the engine apply.
  std::vector<FormatRule> (*rules)() = nullptr;
  std::optional<FormatFault> (*fault)(const Job& job, const Plan& plan) = nullptr;
};

/// Turns a fault into an error of kind check_failed that names its id.
Error to_error(const FormatFault& fault, const Exporter& format);

/// Holds a plan that a format can express, and the parts of the requested plan that it lacks.
struct ClosestPlan {
  Plan plan;
  /// Lists the lost parts, e.g. "MEG-P2P: overlap_p2p works with interleaving only, not 1f1b;
  /// written with overlap_p2p off".
  std::vector<std::string> lost;
};
/// Changes the plan until it satisfies the rules of the format and of its engine. It first gives all layers one
/// strategy. It then changes one value at a time: overlap, rank order, kind of context or sequence parallelism,
/// recomputation, offload, schedule or ZeRO. It never changes the degrees, the batch and the devices. If only such a
/// change could repair the plan, it fails with check_failed and the ids of the rules.
Result<ClosestPlan> closest_plan(const Exporter& format, const Job& job, const Plan& plan);

/// Holds a trace of another tool, in which the nodes of a cluster join and leave.
struct TraceRequest {
  std::string name, text;             ///< name in messages, and contents
  std::int64_t first_node = 0;        ///< number of the trace's first node in the cluster
  std::int64_t devices_per_node = 1;  ///< for formats that count devices
};

/// Holds the events of nodes first … first + nodes − 1, in the form of a cluster file. All of them are present at the
/// start; nodes that are absent at the start of the trace leave at time 0.
struct ImportedTrace {
  std::vector<ClusterEvent> events;
  std::int64_t nodes = 0;          ///< most nodes present at once
  std::vector<std::string> notes;  ///< parts of the trace that its events do not express
};

/// Describes a format of such traces.
struct TraceFormat {
  std::string name;   ///< "bamboo", "parcae", "sailor", "counts"
  std::string reads;  ///< shown to users
  /// Fails with bad_input when the text is not such a trace.
  Result<ImportedTrace> (*read)(const TraceRequest& request) = nullptr;
};

const std::vector<TraceFormat>& trace_formats();
const TraceFormat* find_trace_format(std::string_view name);
/// Returns a table for `events:` of a cluster file: time_s,event,target,value. `source` becomes a comment in its
/// first line.
std::string events_csv(const std::vector<ClusterEvent>& events, const std::string& source);

const std::vector<Importer>& importers();
const std::vector<Exporter>& exporters();
/// Returns the entry of this name, or null.
const Importer* find_importer(std::string_view name);
const Exporter* find_exporter(std::string_view name);
/// Returns the formats that write plans of an engine, the usual one first. Empty: the engine is unknown,
/// or no format writes its plans.
std::vector<const Exporter*> exporters_of(std::string_view engine);
/// Returns why no format writes plans of an engine, and a remedy. Empty: a format does, or the engine is unknown.
std::string why_unwritten(std::string_view engine);

}  // namespace espalier::exchange
