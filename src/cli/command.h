// SPDX-License-Identifier: Apache-2.0
// Declares the parts that commands share. Each command is one file: it declares its flags and a function that returns
// the exit code.
#pragma once

#include <functional>
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
  bool json = false;   ///< one JSON object on stdout, and nothing else
  bool quiet = false;  ///< no progress, no notes
  bool wide = false;   ///< lines are not wrapped
  int verbose = 0;
  int plan_schema = 2;  ///< version of the written plan documents
  int exit_code = kOk;
  std::set<std::string> noted = {};  ///< by note_all
  /// This is stdin once it was read, because a sweep reads its job several times.
  std::optional<std::string> input = std::nullopt;

  /// Returns the width of texts; 0 means no wrapping.
  [[nodiscard]] std::size_t width() const { return wide ? 0 : surroundings.width; }
  [[nodiscard]] bool interrupted() const { return surroundings.interrupted && surroundings.interrupted(); }
};

/// Prints the error (with --json, also as JSON on stdout) and returns its exit code.
int fail(Context& context, const Error& error);
/// Returns the error with the file in front of the place inside it ("$.pipelines[1]", for any plan "plan:
/// $.pipelines[1]"). Places that are not paths are unchanged.
Error in_file(const std::string& path, Error error);
/// Prints a note on stderr, unless --quiet.
void note(const Context& context, const std::string& text);
/// Prints notes on stderr, each once for the whole command.
void note_all(Context& context, const std::vector<std::string>& texts);
/// Prints the text answer, with no line longer than the terminal is wide. On a terminal, the first line is bold.
void print_answer(const Context& context, const std::string& text);
/// Prints one JSON document.
void print_json(const Context& context, const std::string& json);
/// Prints the answer: `json` with --json, else `text`. The other one is built only for a caller that wants both
/// (Surroundings::text).
void print_either(const Context& context, const std::function<std::string()>& json, const std::function<std::string()>& text);

/// Returns the first screen of an answer, or with -v all of it.
std::string answer_text(const Context& context, const PlannerResult& result);

/// Ends a command with its answer: the result as JSON, or the text answer and the names of the written files.
int deliver(Context& context, const PlannerResult& result, const std::vector<std::string>& files);

/// Adds --json, --wide, -q and -v.
void add_common_flags(Command& command, Context& context);

/// Holds JOB.yaml, --set and --calibration.
struct JobFlags {
  std::string path, calibration;
  std::vector<std::string> overrides;
};
void add_job_flags(Command& command, const std::shared_ptr<JobFlags>& flags);
/// Returns the job that the flags name, where --calibration replaces the job's own `calibration:`. Its notes are
/// printed.
Result<Job> load_job_of(Context& context, const JobFlags& flags);
/// Adds --calibration FILE.
void add_calibration_flag(Command& command, std::string& path);

/// Holds -o DIR and --trace FILE.
struct OutputFlags {
  std::string folder, trace;
  bool detail = false;  ///< --detail, where a command has it
};
void add_output_flags(Command& command, const std::shared_ptr<OutputFlags>& flags);
/// Returns a predictable failure of the outputs, so that it is reported before an hour of planning instead of after.
Status outputs_refused(const OutputFlags& flags);
/// Writes the requested outputs. `lines` gets one line per file. The trace comes from simulating the plan again.
Status write_outputs(const Context& context, const OutputFlags& flags, const Job& job, const PlannerResult& result,
                     std::vector<std::string>& lines);

/// Adds --plan-schema 1|2.
void add_plan_schema_flag(Command& command, Context& context);
/// Returns the version that the flag names.
PlanSchema plan_schema_of(const Context& context);

/// Adds --network closed|flow.
void add_network_flag(Command& command, std::string& network);
NetworkKind network_of(const std::string& flag);

/// Holds a plan from plan.json or from result.json (then with its result).
struct LoadedPlan : report::PlanDocument {
  std::string text;  ///< text of the file
};
Result<LoadedPlan> load_plan_file(Context& context, const std::string& path);

/// Returns the result that `plan` wrote next to the plan, if it is about this very plan; else null.
std::unique_ptr<PlannerResult> result_beside(const std::string& path, const Plan& plan);

/// Removes the effect of a user's own calibration from the plan.
void forget_calibration(Plan& plan);

/// Reads a file's text, or that of stdin for "-".
Result<std::string> read_input(Context& context, const std::string& path);
/// Returns the input's name in messages.
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
void add_mcp_command(Command& app, Context& context);
void add_what_if_command(Command& app, Context& context);
void add_replan_command(Command& app, Context& context);
void add_run_command(Command& app, Context& context);
void add_profile_command(Command& app, Context& context);
/// Adds completion and man. Their output is generated from `app`, with all commands that it has when they run.
void add_completion_commands(Command& app, Context& context);
void add_version_command(Command& app, Context& context);

}  // namespace espalier::cli
