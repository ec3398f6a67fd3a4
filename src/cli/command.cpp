// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <algorithm>
#include <filesystem>

#include "base/document.h"
#include "base/format.h"
#include "espalier/text.h"
#include "report/plan_words.h"

namespace espalier::cli {
namespace {

int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::internal: return kInternal;
    case ErrorKind::usage: return kUsage;
    case ErrorKind::bad_input: return 3;
    case ErrorKind::infeasible: return kInfeasible;
    case ErrorKind::check_failed: return kCheckFailed;
    case ErrorKind::limit: return kLimit;
  }
  return kInternal;
}

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::internal: return "internal";
    case ErrorKind::usage: return "usage";
    case ErrorKind::bad_input: return "bad_input";
    case ErrorKind::infeasible: return "infeasible";
    case ErrorKind::check_failed: return "check_failed";
    case ErrorKind::limit: return "limit";
  }
  return "internal";
}

std::string error_json(const Error& error, int exit_code) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.error/1");
  w.key("kind").value(name_of(error.kind));
  w.key("exit_code").value(exit_code);
  w.key("where").value(error.where);
  w.key("found").value(error.found);
  w.key("expected").value(error.expected);
  w.key("hint").value(error.hint);
  w.end_object();
  return w.text();
}

}  // namespace

Error in_file(const std::string& path, Error error) {
  constexpr std::string_view kPlan = "plan: ";  // the library's name for a plan that it did not read
  const std::size_t named = error.where.starts_with(kPlan) ? kPlan.size() : 0;
  if (error.where.substr(named).starts_with("$")) error.where = input_name(path) + ": " + error.where.substr(named);
  return error;
}

int fail(Context& context, const Error& error) {
  const int code = context.interrupted() ? kInterrupted : exit_code_of(error.kind);
  context.err << "espalier: " << error.message() << "\n";
  if (context.json) print_json(context, error_json(error, code));
  return code;
}

void note(const Context& context, const std::string& text) {
  if (!context.quiet) context.err << "espalier: " << text << "\n";
}

void note_all(Context& context, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (context.noted.insert(text).second) note(context, "note: " + text);
  }
}

std::string input_name(const std::string& path) { return path == "-" ? "<stdin>" : path; }

Result<std::string> read_input(Context& context, const std::string& path) {
  if (path != "-") return base::read_file(path);
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // as read_file
  if (context.input) return *context.input;
  if (context.surroundings.input == nullptr)
    return Error{ErrorKind::usage, "-", "no standard input", "a file name", "give the file's name"};
  std::string text;
  char buffer[1 << 16];
  std::istream& in = *context.surroundings.input;
  while (in.read(buffer, sizeof(buffer)) || in.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostBytes)
      return Error{ErrorKind::bad_input, "<stdin>", "more than " + std::to_string(kMostBytes) + " bytes", "at most that many",
                   "is this the right file?"};
  }
  context.input = std::move(text);
  return *context.input;
}

/// Shows in red that a plan does not fit, or may not.
std::string with_alarms(std::string text) {
  for (const std::string_view alarm : {"DOES NOT FIT", "MAY NOT FIT"})
    for (std::size_t at = text.find(alarm); at != std::string::npos; at = text.find(alarm, at + alarm.size() + 9))
      text.insert(at + alarm.size(), "\033[0m").insert(at, "\033[31m");
  return text;
}

void print_answer(const Context& context, const std::string& unlaid) {
  std::string text = report::lay_out(unlaid, context.width());
  if (context.surroundings.color) text = with_alarms(std::move(text));
  const std::size_t end = text.find('\n');
  if (!context.surroundings.color || end == std::string::npos) {
    context.out << text;
    return;
  }
  context.out << "\033[1m" << text.substr(0, end) << "\033[0m" << text.substr(end);
}

void print_json(const Context& context, const std::string& json) { context.out << json << "\n"; }

void print_either(const Context& context, const std::function<std::string()>& json, const std::function<std::string()>& text) {
  if (!context.json) return print_answer(context, text());
  print_json(context, json());
  if (context.surroundings.text != nullptr) *context.surroundings.text << report::lay_out(text(), context.width());
}

void add_plan_schema_flag(Command& command, Context& context) {
  command
      .add_option("--plan-schema", context.plan_schema,
                  "version of the plan documents to write (default: 1 if it can express the plan)")
      ->range(1, 2)
      ->type_name("N");
}

PlanSchema plan_schema_of(const Context& context) { return context.plan_schema == 1 ? PlanSchema::one : PlanSchema::two; }

std::string answer_text(const Context& context, const PlannerResult& result) {
  return context.verbose > 0 ? result.brief(context.width()) : result.screen(context.width());
}

/// Returns the command that writes launch files, where an engine runs the plan. Otherwise it plans for the nearest
/// engine.
std::string launch_step(const PlannerResult& result, const std::string& plan) {
  const std::vector<std::string>* engines = result.runs_on ? &*result.runs_on : nullptr;
  if (engines == nullptr || !engines->empty())
    return base::cat("; espalier export ", plan, " --engine ", engines == nullptr ? "NAME" : engines->front());
  return result.runnable && result.plan.engine == "generic" ? base::cat("; espalier plan --engine ", result.runnable->engine)
                                                            : "";
}

/// Names the next commands.
void print_next_steps(const Context& context, const PlannerResult& result, const std::vector<std::string>& files) {
  const auto plan = std::find_if(files.begin(), files.end(), [](const std::string& f) { return f.ends_with("plan.json"); });
  const std::string next = plan == files.end()
                               ? "-v shows everything; -o DIR writes plan.json for espalier report, export and explain"
                               : base::cat("espalier report ", *plan, launch_step(result, *plan), "; espalier explain ", *plan);
  context.out << report::lay_out(report::wrapped_line("next", next), context.width());
}

int deliver(Context& context, const PlannerResult& result, const std::vector<std::string>& files) {
  if (Status status = unwritable(result.plan, plan_schema_of(context)); !status.ok()) return fail(context, status.error());
  note_all(context, result.notes);
  print_either(
      context, [&] { return to_json(result, true, plan_schema_of(context)); }, [&] { return answer_text(context, result); });
  if (context.json) return kOk;
  if (context.verbose == 0) print_next_steps(context, result, files);
  for (const std::string& file : files) context.out << "wrote " << file << "\n";
  return kOk;
}

void add_common_flags(Command& command, Context& context) {
  command.add_flag("--json", context.json, "print one JSON object on stdout and nothing else there");
  command.add_flag("--wide", context.wide, "do not wrap lines");
  command.add_flag("-q,--quiet", context.quiet, "no progress, no notes");
  command.add_flag("-v,--verbose", context.verbose, "print more (twice: much more)");
}

void add_job_flags(Command& command, const std::shared_ptr<JobFlags>& flags) {
  command.add_option("job", flags->path, "job file (YAML or JSON); - for stdin")->required()->type_name("JOB.yaml");
  command.add_option("--set", flags->overrides, "override a value of the job: a.b.c=value (repeatable)")
      ->type_name("PATH=VALUE")
      ->one_value_each();
  add_calibration_flag(command, flags->calibration);
}

void add_calibration_flag(Command& command, std::string& path) {
  command.add_option("--calibration", path, "predict with this calibration file (`espalier calibrate` writes one)")
      ->type_name("FILE");
}

Result<Job> load_job_of(Context& context, const JobFlags& flags) {
  std::vector<std::string> overrides = flags.overrides;
  if (!flags.calibration.empty()) {
    std::error_code ignored;
    if (const auto readable = base::read_file(flags.calibration); !readable) return readable.error();
    base::JsonWriter path;  // a path may hold characters that YAML would interpret
    path.value(std::filesystem::absolute(flags.calibration, ignored).string());
    overrides.push_back("calibration=" + path.text());
  }
  auto job = [&]() -> Result<Job> {
    if (flags.path != "-") return load_job_file(flags.path, overrides);
    const auto text = read_input(context, flags.path);
    if (!text) return text.error();
    return load_job(*text, input_name(flags.path), "", overrides);
  }();
  if (job) note_all(context, job->notes);
  return job;
}

void add_output_flags(Command& command, const std::shared_ptr<OutputFlags>& flags) {
  command.add_option("-o,--out", flags->folder, "write plan.json, result.json and timeline.json.gz into this folder")
      ->type_name("DIR");
  command.add_option("--trace", flags->trace, "write the timeline here (compressed if the name ends in .gz)")->type_name("FILE");
}

Status outputs_refused(const OutputFlags& flags) {
  if (flags.detail && flags.folder.empty() && flags.trace.empty())
    return Error{ErrorKind::usage, "--detail", "no timeline to write", "--detail with --trace FILE or -o DIR",
                 "the details are tracks of the timeline"};
  std::error_code ignored;
  if (!flags.folder.empty() && std::filesystem::exists(flags.folder, ignored) &&
      !std::filesystem::is_directory(flags.folder, ignored))
    return Error{ErrorKind::usage, "-o " + flags.folder, "a file", "a folder, created if it does not exist", "name a folder"};
  if (!flags.trace.empty() && std::filesystem::is_directory(flags.trace, ignored))
    return Error{ErrorKind::usage, "--trace " + flags.trace, "a folder", "a file to write", "name a file in it"};
  return {};
}

Status write_outputs(const Context& context, const OutputFlags& flags, const Job& job, const PlannerResult& result,
                     std::vector<std::string>& lines) {
  if (flags.folder.empty() && flags.trace.empty()) return {};
  if (Status status = unwritable(result.plan, plan_schema_of(context)); !status.ok()) return status;
  const auto again =
      simulate_with_timeline(job, result.plan, flags.detail ? TimelineDetail::steps : TimelineDetail::instructions);
  if (!again) return again.error();
  const std::string trace = to_trace(again->timeline);
  if (!flags.folder.empty()) {
    auto written = report::write_answer(flags.folder, result, trace, plan_schema_of(context));
    if (!written) return written.error();
    lines.insert(lines.end(), written->begin(), written->end());
  }
  if (!flags.trace.empty()) {
    if (Status status = report::write_trace_file(flags.trace, trace); !status.ok()) return status;
    lines.push_back(flags.trace);
  }
  return {};
}

Result<LoadedPlan> load_plan_file(Context& context, const std::string& given) {
  auto text = read_input(context, given);
  if (!text) return text.error();
  auto document = report::read_plan_document(*text, input_name(given));
  if (!document) return document.error();
  return LoadedPlan{std::move(*document), std::move(*text)};
}

void forget_calibration(Plan& plan) {
  plan.calibration_name.clear();
  plan.calibration_hash.clear();
  plan.calibration_source.clear();
}

std::unique_ptr<PlannerResult> result_beside(const std::string& path, const Plan& plan) {
  const auto beside = std::filesystem::path(path).parent_path() / "result.json";
  const auto text = base::read_file(beside.string());
  if (!text) return nullptr;
  auto result = result_from_json(*text, beside.string());
  if (!result || !(result->plan == plan)) return nullptr;
  return std::make_unique<PlannerResult>(std::move(result).value());
}

}  // namespace espalier::cli
