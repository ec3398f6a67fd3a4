// SPDX-License-Identifier: Apache-2.0
// The registry of formats: what Espalier can read plans from and write plans to. A format is a row; to add one, add a row (src/exchange/).
//
//   for (const espalier::Exporter& e : espalier::exporters()) std::cout << e.name << ": " << e.writes << "\n";
//   auto text = espalier::find_exporter("galvatron")->write(*job, plan);
//
// Nothing is approximated: what one side cannot say is an error that names it.
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

namespace espalier {

/// A file that an importer reads, by what it is for.
struct FileRole {
  std::string name;  ///< "strategy", "computation", …
  std::string what;  ///< for people: "galvatron_config_*.json"
  bool required = true;
};

/// A choice that the files leave open.
struct FormatOption {
  std::string name;
  std::string what;   ///< for people: what it decides, and which values it takes
  std::string value;  ///< where nothing is said
};

struct ImportFile {
  std::string role;        ///< FileRole::name
  std::string name, text;  ///< what messages call it, and its bytes
};

struct ImportRequest {
  const Job* job = nullptr;  ///< model, cluster and training that the plan is for; an importer that needs none ignores it
  std::vector<ImportFile> files;
  std::map<std::string, std::string> options;  ///< by FormatOption::name
};

/// A plan with its inputs embedded, ready for simulate(), check_plan() and plan.json.
struct ImportedPlan {
  Plan plan;
  std::vector<std::string> notes;  ///< sentences for the user: keys that nobody reads, and such
};

struct Importer {
  std::string name;   ///< "plan", "galvatron", …
  std::string reads;  ///< for people
  bool needs_job = false;
  std::vector<FileRole> files;
  std::vector<FormatOption> options;
  /// bad_input: a file is wrong, or says what a plan cannot; usage: a file or an option is missing, unknown or wrong.
  Result<ImportedPlan> (*read)(const ImportRequest& request) = nullptr;
};

/// Who starts the processes of a run.
enum class Launcher : std::uint8_t {
  torchrun,  ///< a script for every node, which is told its number
  sbatch,    ///< a Slurm batch script
  mpirun,    ///< a script that starts Open MPI over the hosts of a file
  kubeflow,  ///< a TrainJob of Kubeflow Trainer
};
std::string_view to_string(Launcher launcher);  ///< "torchrun", "sbatch", "mpirun", "kubeflow"
/// By that name; nothing when there is none.
std::optional<Launcher> parse_launcher(std::string_view name);

struct Exporter {
  std::string name;       ///< "plan", "timeline", "galvatron"
  std::string writes;     ///< for people
  std::string file_name;  ///< what such a file is usually called
  /// The bytes of the file. bad_input: the plan says what the format cannot. `job` is the plan's own.
  Result<std::string> (*write)(const Job& job, const Plan& plan) = nullptr;
  /// Of a format that launches a framework: whose rules the plan must keep before it is written. Empty: none.
  std::string engine = {};
  /// What `write` writes, for any launcher; null: the format is a file that launchers do not change.
  Result<std::string> (*launch)(const Job& job, const Plan& plan, Launcher launcher) = nullptr;
};

/// Traces of clusters whose nodes come and go, as other tools write them.
struct TraceRequest {
  std::string name, text;             ///< what messages call the file, and its bytes
  std::int64_t first_node = 0;        ///< number that the trace's first node has in the cluster
  std::int64_t devices_per_node = 1;  ///< of formats that count devices
};

/// Events of nodes first … first + nodes − 1, as a cluster file holds them: all are there at the start, those that the trace does not begin with leave
/// at time 0.
struct ImportedTrace {
  std::vector<ClusterEvent> events;
  std::int64_t nodes = 0;          ///< most that are there at once
  std::vector<std::string> notes;  ///< what the trace says and its events do not
};

struct TraceFormat {
  std::string name;   ///< "bamboo", "parcae", "sailor", "counts"
  std::string reads;  ///< for people
  /// bad_input: the text is not such a trace.
  Result<ImportedTrace> (*read)(const TraceRequest& request) = nullptr;
};

const std::vector<TraceFormat>& trace_formats();
const TraceFormat* find_trace_format(std::string_view name);
/// The table that `events:` of a cluster file names: time_s,event,target,value. `source` becomes a comment in its first line.
std::string events_csv(const std::vector<ClusterEvent>& events, const std::string& source);

const std::vector<Importer>& importers();
const std::vector<Exporter>& exporters();
/// By name; nullptr when there is none.
const Importer* find_importer(std::string_view name);
const Exporter* find_exporter(std::string_view name);

}  // namespace espalier
