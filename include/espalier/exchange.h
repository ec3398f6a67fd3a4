// SPDX-License-Identifier: Apache-2.0
// The registry of formats: what Espalier can read plans from and write plans to. A format is a row; to add one, add a
// row (src/exchange/).
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
  const Job* job = nullptr;  ///< model, cluster and training that the plan is for; an importer that needs none ignores
                             ///< it
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

struct ExportRequest {
  const Job& job;  ///< the plan's own
  const Plan& plan;
  std::optional<Launcher> launcher = std::nullopt;  ///< none: what the format is without one
  std::vector<std::string> lost = {};               ///< of closest_plan(): said in the first lines of what is written
};

/// Something that a format cannot be told of any plan that has it.
struct FormatRule {
  std::string id;        ///< "ACC-PIPELINE", an anchor of docs/engine-rules.md
  std::string sentence;  ///< what a plan must be for the format
};

/// What a plan has and its format cannot be told.
struct FormatFault {
  std::string id, found, expected;
  std::string hint = {};  ///< empty: the engine finds a plan of its own
};

struct Exporter {
  std::string name;       ///< "plan", "timeline", "galvatron"
  std::string writes;     ///< for people
  std::string file_name;  ///< what such a file is usually called
  /// The bytes of the file. check_failed: the plan says what the format cannot; bad_input: an input of the plan cannot
  /// be read.
  Result<std::string> (*write)(const ExportRequest& request) = nullptr;
  /// Of a format that launches a framework: whose rules the plan must keep before it is written. Empty: none.
  std::string engine = {};
  std::vector<Launcher> launchers = {};  ///< what `write` knows; empty: the format is a file that launchers do not
                                         ///< change
  /// Its rules, and the first that a plan breaks; null: none beside those of the engine.
  std::vector<FormatRule> (*rules)() = nullptr;
  std::optional<FormatFault> (*fault)(const Job& job, const Plan& plan) = nullptr;
};

/// The error of a fault: check_failed, with its id.
Error to_error(const FormatFault& fault, const Exporter& format);

/// A plan that a format can be told, and what of the plan that was asked for it is not.
struct ClosestPlan {
  Plan plan;
  std::vector<std::string>
      lost;  ///< "MEG-P2P: overlap_p2p works with interleaving only, not 1f1b; written with overlap_p2p off"; empty:
             ///< nothing
};
/// The plan, changed until the rules of the format and of its engine hold: one strategy for all layers, then what has
/// no part in how ranks are laid out (overlap, rank order, kind of context and sequence parallelism, recomputation,
/// offload, schedule, ZeRO), one value at a time. The degrees, the batch and the devices stay; what only they could
/// mend is check_failed with the ids.
Result<ClosestPlan> closest_plan(const Exporter& format, const Job& job, const Plan& plan);

/// Traces of clusters whose nodes come and go, as other tools write them.
struct TraceRequest {
  std::string name, text;             ///< what messages call the file, and its bytes
  std::int64_t first_node = 0;        ///< number that the trace's first node has in the cluster
  std::int64_t devices_per_node = 1;  ///< of formats that count devices
};

/// Events of nodes first … first + nodes − 1, as a cluster file holds them: all are there at the start, those that the
/// trace does not begin with leave at time 0.
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
/// The table that `events:` of a cluster file names: time_s,event,target,value. `source` becomes a comment in its first
/// line.
std::string events_csv(const std::vector<ClusterEvent>& events, const std::string& source);

const std::vector<Importer>& importers();
const std::vector<Exporter>& exporters();
/// By name; nullptr when there is none.
const Importer* find_importer(std::string_view name);
const Exporter* find_exporter(std::string_view name);
/// The formats that write plans of an engine, the usual one first; empty for an engine that is not known or that none
/// writes.
std::vector<const Exporter*> exporters_of(std::string_view engine);
/// Why no format writes plans of an engine, and what helps; empty where one does, or the engine is not known.
std::string why_unwritten(std::string_view engine);

}  // namespace espalier
