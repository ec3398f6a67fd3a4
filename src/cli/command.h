// SPDX-License-Identifier: Apache-2.0
// What the commands share. Each command is one file: it declares its flags and a function that returns the exit code.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/flags.h"
#include "espalier/documents.h"
#include "espalier/planner.h"

namespace espalier::cli {

inline constexpr int kOk = 0;
inline constexpr int kInternal = 1;
inline constexpr int kUsage = 2;
inline constexpr int kInfeasible = 4;
inline constexpr int kCheckFailed = 5;
inline constexpr int kLimit = 6;
inline constexpr int kInterrupted = 130;

struct Context {
  std::ostream& out;
  std::ostream& err;
  const Surroundings& surroundings;
  bool json = false;   ///< one JSON object on stdout, nothing else there
  bool quiet = false;  ///< no progress, no notes
  bool wide = false;   ///< lines as long as they are
  int verbose = 0;
  int plan_schema = 2;  ///< version of the plan documents that are written
  int exit_code = kOk;
  std::set<std::string> noted = {};                 ///< by note_all
  std::optional<std::string> input = std::nullopt;  ///< stdin once it was read: a sweep reads its job several times

  /// for texts; 0: as wide as they are
  [[nodiscard]] std::size_t width() const { return wide ? 0 : surroundings.width; }
  [[nodiscard]] bool interrupted() const { return surroundings.interrupted && surroundings.interrupted(); }
};

/// Prints the error (as JSON on stdout too, with --json) and returns its exit code.
int fail(Context& context, const Error& error);
/// The error with the file in front of the place inside it ("$.pipelines[1]", of any plan "plan: $.pipelines[1]");
/// places that are no paths stay as they are.
Error in_file(const std::string& path, Error error);
/// A note on stderr, unless --quiet.
void note(const Context& context, const std::string& text);
/// Notes on stderr, each once for the whole command.
void note_all(Context& context, const std::vector<std::string>& texts);
/// The text answer, no line longer than the terminal is wide; the first line in bold on a terminal.
void print_answer(const Context& context, const std::string& text);
/// One JSON document.
void print_json(const Context& context, const std::string& json);

/// Returns the first screen of an answer, or with -v all of it.
std::string answer_text(const Context& context, const PlannerResult& result);

/// The end of a command with an answer: the result as JSON, or the brief answer and the names of the files that were
/// written.
int deliver(Context& context, const PlannerResult& result, const std::vector<std::string>& files);

/// --json, --wide, -q, -v.
void add_common_flags(Command& command, Context& context);

/// JOB.yaml, --set and --calibration.
struct JobFlags {
  std::string path, calibration;
  std::vector<std::string> overrides;
};
void add_job_flags(Command& command, const std::shared_ptr<JobFlags>& flags);
/// The job that the flags name: --calibration takes the place of the job's own `calibration:`. Its notes are noted.
Result<Job> load_job_of(Context& context, const JobFlags& flags);
/// --calibration FILE.
void add_calibration_flag(Command& command, std::string& path);

/// -o DIR and --trace FILE.
struct OutputFlags {
  std::string folder, trace;
  bool detail = false;  ///< --detail, where a command has it
};
void add_output_flags(Command& command, const std::shared_ptr<OutputFlags>& flags);
/// What can be known beforehand to fail: better said before an hour of planning than after.
Status outputs_refused(const OutputFlags& flags);
/// Writes what the flags ask for; `lines` gets one line a file. The trace comes from simulating the plan again.
Status write_outputs(const Context& context, const OutputFlags& flags, const Job& job, const PlannerResult& result,
                     std::vector<std::string>& lines);

/// --plan-schema 1|2.
void add_plan_schema_flag(Command& command, Context& context);
/// The version that the flag names.
PlanSchema plan_schema_of(const Context& context);

/// --network closed|flow.
void add_network_flag(Command& command, std::string& network);
NetworkKind network_of(const std::string& flag);

/// A plan from plan.json or from result.json (then with its result).
struct LoadedPlan : PlanDocument {
  std::string text;  ///< of the file
};
Result<LoadedPlan> load_plan_file(Context& context, const std::string& path);

/// The result that `plan` wrote beside the plan, if it speaks of this very plan; else null.
std::unique_ptr<PlannerResult> result_beside(const std::string& path, const Plan& plan);

/// The plan as if no calibration of a user's own had been in force.
void forget_calibration(Plan& plan);

/// A file's text, or that of stdin for "-".
Result<std::string> read_input(Context& context, const std::string& path);
/// What messages call it.
std::string input_name(const std::string& path);

void add_plan_command(Command& app, Context& context);
void add_estimate_command(Command& app, Context& context);
void add_simulate_command(Command& app, Context& context);
void add_check_command(Command& app, Context& context);
void add_explain_command(Command& app, Context& context);
void add_compare_command(Command& app, Context& context);
void add_validate_command(Command& app, Context& context);
void add_calibrate_command(Command& app, Context& context);
void add_inspect_command(Command& app, Context& context);
void add_import_command(Command& app, Context& context);
void add_improve_command(Command& app, Context& context);
void add_export_command(Command& app, Context& context);
void add_report_command(Command& app, Context& context);
void add_engines_command(Command& app, Context& context);
void add_what_if_command(Command& app, Context& context);
void add_replan_command(Command& app, Context& context);
void add_run_command(Command& app, Context& context);
void add_profile_command(Command& app, Context& context);
/// completion and man: what they write is made of `app`, with all commands that it has when they run.
void add_completion_commands(Command& app, Context& context);
void add_version_command(Command& app, Context& context);

}  // namespace espalier::cli
