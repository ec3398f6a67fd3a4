// SPDX-License-Identifier: Apache-2.0
// espalier plan JOB.yaml: search the space of the job, print the fastest plan that fits and why; or a table with --sweep.
#include <algorithm>
#include <charconv>
#include <optional>

#include "base/document.h"
#include "base/format.h"
#include "cli/command.h"
#include "cli/long_run.h"
#include "cli/objective.h"
#include "cli/over_time.h"
#include "espalier/documents.h"
#include "espalier/engines.h"
#include "espalier/text.h"
#include "report/brief_text.h"
#include "report/phase_text.h"

namespace espalier::cli {
namespace {

struct PlanFlags {
  JobFlags job;
  OutputFlags output;
  PlannerOptions options;
  std::string sweep;
  std::string network = "closed";
  std::string simple;  ///< "1%" where --simple was given
};

int exit_code_of(const Context& context, const SearchSummary& search) {
  if (search.reason == SearchEnd::interrupted || context.interrupted()) return kInterrupted;
  return search.reason == SearchEnd::node_limit || search.reason == SearchEnd::time_limit ? kLimit : kOk;
}

/// Options of the command plus the hooks into the surroundings.
PlannerOptions hooked(Context& context, const PlannerOptions& options) {
  PlannerOptions out = options;
  out.interrupted = context.surroundings.interrupted;
  if (context.surroundings.terminal && !context.quiet) {
    out.progress = [&context](const std::string& line) { context.err << "\r\033[K" << line << std::flush; };
  } else if (context.verbose > 0) {
    out.progress = [&context](const std::string& line) { context.err << line << "\n"; };
  }
  return out;
}

void clear_progress(Context& context) {
  if (context.surroundings.terminal && !context.quiet) context.err << "\r\033[K" << std::flush;
}

/// "1%", "1 %" or "0.01" as a share; nothing for anything else.
std::optional<double> share_of(std::string text) {
  const bool percent = !text.empty() && text.back() == '%';
  if (percent) text.pop_back();
  while (!text.empty() && text.back() == ' ') text.pop_back();
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  value = percent ? value / 100 : value;
  if (!(value >= 0 && value <= 10)) return std::nullopt;
  return value;
}

/// The options with --simple read.
Result<PlannerOptions> options_of(const PlanFlags& flags) {
  PlannerOptions options = flags.options;
  if (flags.simple.empty()) return options;
  const auto within = share_of(flags.simple);
  if (!within)
    return Error{ErrorKind::usage, "--simple", "\"" + flags.simple + "\"", "a share of the fastest time such as 1% or 0.01",
                 "--simple alone means 1%"};
  options.simple = true;
  options.simple_within = *within;
  return options;
}

/// The answer first, then the files that need no further simulation: who interrupts does not wait for a timeline.
int deliver_best_so_far(Context& context, const PlanFlags& flags, const PlannerResult& result) {
  deliver(context, result, {});
  context.out << std::flush;
  if (!flags.output.folder.empty()) {
    const auto written = write_answer(flags.output.folder, result, "", plan_schema_of(context));
    if (!written) note(context, written.error().message());
  }
  note(context, result.search.optimal ? "interrupted: the timeline is left out"
                                      : "interrupted: this is the best so far, not proven optimal; the timeline is left out");
  return kInterrupted;
}

int run_plan(Context& context, const PlanFlags& flags) {
  if (Status refused = outputs_refused(flags.output)) return fail(context, *refused);
  const auto options = options_of(flags);
  if (!options) return fail(context, options.error());
  auto job = load_job_of(context, flags.job);
  if (!job) return fail(context, job.error());
  job->network = network_of(flags.network);
  if (job->objective) return run_objective(context, *job, hooked(context, *options), flags.output);
  if (job->with_buckets && !job->cluster.changes()) return run_long_run(context, *job, hooked(context, *options), flags.output);
  if (job->cluster.changes()) return run_over_time(context, *job, *options, flags.output);
  auto result = plan(*job, hooked(context, *options));
  clear_progress(context);
  if (!result) return fail(context, result.error());
  if (context.interrupted()) return deliver_best_so_far(context, flags, *result);
  std::vector<std::string> files;
  if (Status error = write_outputs(context, flags.output, *job, *result, files)) return fail(context, *error);
  deliver(context, *result, files);
  if (context.verbose > 0) context.err << lay_out(report::phases_text(result->search), context.width());
  const int code = exit_code_of(context, result->search);
  if (code != kOk)
    note(context,
         "stopped early (" + std::string(to_string(result->search.reason)) + "): this is the best so far, not proven optimal");
  return code;
}

// ---- sweep -----------------------------------------------------------------------------------------------------------------

struct SweepPoint {
  std::string value;
  Result<PlannerResult> result;
};

/// "cluster.nodes=1,2,4" -> path and values. Commas inside brackets belong to the value.
std::pair<std::string, std::vector<std::string>> split_sweep(const std::string& text) {
  const std::size_t equals = text.find('=');
  std::vector<std::string> values;
  if (equals == std::string::npos) return {text, values};
  int depth = 0;
  values.emplace_back();
  for (char c : text.substr(equals + 1)) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0)
      values.emplace_back();
    else
      values.back() += c;
  }
  return {text.substr(0, equals), values};
}

std::string sweep_table(const std::string& path, const std::vector<SweepPoint>& points) {
  std::vector<std::vector<std::string>> rows{{path, "iteration", "tokens/s/GPU", "MFU", "memory", "days", "GPU-hours", "plan"}};
  for (const SweepPoint& point : points) {
    if (!point.result) {
      rows.push_back({point.value, "–", "–", "–", "–", "–", "–", point.result.error().message()});
      continue;
    }
    const Prediction& p = point.result->prediction;
    rows.push_back({point.value, base::seconds(p.iteration_ns), base::count(p.tokens_per_s_per_device), base::percent(p.mfu),
                    base::gib(p.peak_memory_bytes), p.days > 0 ? base::fixed(p.days, 1) : "–",
                    p.device_hours > 0 ? base::count(p.device_hours) : "–", point.result->plan.label()});
  }
  return report::table(rows, {7}, "");
}

std::string sweep_json(const std::string& path, const std::vector<SweepPoint>& points, PlanSchema schema) {
  base::JsonWriter w;
  w.begin_object();
  w.key("schema").value("espalier.sweep/1");
  w.key("over").value(path);
  w.key("points").begin_array();
  for (const SweepPoint& point : points) {
    w.begin_object();
    w.key("value").value(point.value);
    if (point.result)
      w.key("result").raw(to_json(*point.result, false, schema));
    else
      w.key("error").value(point.result.error().message());
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return w.text();
}

int run_sweep(Context& context, const PlanFlags& flags) {
  const auto [path, values] = split_sweep(flags.sweep);
  if (values.empty() || path.empty()) {
    return fail(context, Error{ErrorKind::usage, "--sweep " + flags.sweep, "no values", "path=value,value,…",
                               "for example --sweep " + (path.empty() ? "cluster.nodes=1,2,4" : path + "=VALUE,VALUE")});
  }
  const auto options = options_of(flags);
  if (!options) return fail(context, options.error());
  std::vector<SweepPoint> points;
  int code = kOk;
  for (const std::string& value : values) {
    JobFlags point = flags.job;
    point.overrides.push_back(path + "=" + value);
    auto job = load_job_of(context, point);
    if (job && job->objective)
      return fail(context, Error{ErrorKind::usage, "--sweep", "a job with search.objective", "one without",
                                 "the objective compares sizes of the cluster by itself"});
    if (job) job->network = network_of(flags.network);
    auto result = job ? plan(*job, hooked(context, *options)) : Result<PlannerResult>(job.error());
    clear_progress(context);
    // A point where nothing fits, or whose value the job cannot have (tp 8 on 4 devices), is a finding of the sweep.
    // So is a point that a limit cuts short before any plan: the points before it stay.
    const ErrorKind kind = result ? ErrorKind::internal : result.error().kind;
    const bool cut = !result && kind == ErrorKind::limit;
    const bool finding = !result && (cut || kind == ErrorKind::infeasible || kind == ErrorKind::bad_input);
    if (!result && !finding) return fail(context, result.error());
    if (cut) code = kLimit;
    if (result && code == kOk) code = exit_code_of(context, result->search);
    points.push_back({value, std::move(result)});
    if (context.interrupted()) break;
  }
  if (std::none_of(points.begin(), points.end(), [](const SweepPoint& p) {
        return p.result || p.result.error().kind == ErrorKind::infeasible || p.result.error().kind == ErrorKind::limit;
      })) {  // a mistake in the job or in the path, not a finding
    Error error = points.front().result.error();
    if (error.where.starts_with("--set " + path + "=")) error.where = "--sweep " + flags.sweep;
    return fail(context, error);
  }
  if (context.json)
    print_json(context, sweep_json(path, points, plan_schema_of(context)));
  else
    print_answer(context, sweep_table(path, points));
  return context.interrupted() ? kInterrupted : code;
}

std::string engine_help() {
  std::string out = "engines:";
  for (const std::string& name : engine_names()) out.append(" ").append(name);
  return out;
}

}  // namespace

void add_plan_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("plan", "search: best plan, predicted time and memory, certificate");
  auto flags = std::make_shared<PlanFlags>();
  add_job_flags(*command, std::shared_ptr<JobFlags>(flags, &flags->job));
  add_output_flags(*command, std::shared_ptr<OutputFlags>(flags, &flags->output));
  add_plan_schema_flag(*command, context);
  add_network_flag(*command, flags->network);
  command->add_option("--threads", flags->options.threads, "threads of the search; never changes the answer (0: all)")
      ->range(0, 4096)
      ->type_name("N");
  command->add_flag("--exhaustive", flags->options.exhaustive, "reference: simulate every legal configuration that fits");
  command->add_option("--no-rule", flags->options.disabled_rules, "switch a pruning rule off by name (repeatable)")
      ->one_value_each()
      ->type_name("NAME");
  command->add_option("--no-phase", flags->options.left_out_phases, "leave a phase of the search out by name (repeatable)")
      ->one_value_each()
      ->type_name("NAME");
  command->add_option("--node-limit", flags->options.node_limit, "simulate at most so many configurations (0: no limit)")
      ->non_negative()
      ->type_name("N");
  command->add_flag("--simple{1%}", flags->simple,
                    "the simplest plan that is at most so much slower than the fastest (--simple=2%; alone: 1%)");
  command->add_flag("--engines", flags->options.engines,
                    "also what every engine can run: its best plan, time, loss, or why none");
  command
      ->add_option("--time-limit", flags->options.time_limit_s,
                   "stop the search after so many seconds; such answers may differ from run to run (0: no limit)")
      ->non_negative()
      ->type_name("S");
  command->add_option("--alternatives", flags->options.alternatives, "runners-up to list")->range(0, 1000)->type_name("N");
  command->add_option("--sweep", flags->sweep, "plan for each value of one override and table the answers")
      ->type_name("PATH=V1,V2,…");
  add_common_flags(*command, context);
  command->footer(engine_help());
  command->callback(
      [&context, flags] { context.exit_code = flags->sweep.empty() ? run_plan(context, *flags) : run_sweep(context, *flags); });
}

}  // namespace espalier::cli
