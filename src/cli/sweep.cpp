// SPDX-License-Identifier: Apache-2.0
#include "cli/sweep.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>

#include "base/format.h"
#include "cli/search_hooks.h"
#include "espalier/report.h"
#include "espalier/sweep.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kMostPoints = 1000;
constexpr std::array<std::pair<const char*, const char*>, 6> kShort = {{{"nodes", "cluster.nodes"},
                                                                        {"batch", "training.global_batch"},
                                                                        {"sequence", "training.sequence_length"},
                                                                        {"precision", "training.precision"},
                                                                        {"engine", "engine"},
                                                                        {"engines", "engine"}}};

std::string path_of(const std::string& name) {
  const auto at = std::find_if(kShort.begin(), kShort.end(), [&](const auto& row) { return name == row.first; });
  return at == kShort.end() ? name : at->second;
}

/// Splits "cluster.nodes=1,2,4" into path and values. Commas inside brackets belong to the value.
report::SweepAxis axis_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {path_of(text), {}};
  report::SweepAxis out{path_of(text.substr(0, equals)), {""}};
  int depth = 0;
  for (const char c : text.substr(equals + 1)) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0)
      out.values.emplace_back();
    else
      out.values.back() += c;
  }
  return out;
}

Result<std::vector<report::SweepAxis>> axes_of(const std::vector<std::string>& texts) {
  std::vector<report::SweepAxis> out;
  std::size_t points = 1;
  for (const std::string& text : texts) {
    report::SweepAxis axis = axis_of(text);
    if (axis.values.empty() || axis.path.empty())
      return Error{ErrorKind::usage, "--sweep " + text, "no values", "path=value,value,…",
                   "for example --sweep " + (axis.path.empty() ? "cluster.nodes=1,2,4" : axis.path + "=VALUE,VALUE")};
    const bool twice =
        std::any_of(out.begin(), out.end(), [&](const report::SweepAxis& other) { return other.path == axis.path; });
    if (twice)
      return Error{ErrorKind::usage, "--sweep " + text, cat(axis.path, " a second time"), "each setting once",
                   "list its values in one --sweep"};
    points *= axis.values.size();
    if (points > kMostPoints)
      return Error{ErrorKind::usage, "--sweep", "too many combinations", cat("at most ", static_cast<std::int64_t>(kMostPoints)),
                   "fewer values, or several sweeps"};
    out.push_back(std::move(axis));
  }
  return out;
}

/// Returns overrides that give the job this number of devices: whole nodes, or a part of one.
Result<std::vector<std::string>> of_devices(Context& context, const JobFlags& flags, const std::string& text) {
  const auto job = load_job_of(context, flags);
  if (!job) return job.error();
  std::int64_t devices = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), devices);
  const std::int64_t each = job->cluster.groups.front().devices_per_node;
  const bool whole = devices % each == 0;
  if (code != std::errc() || end != text.data() + text.size() || devices < 1 || !(whole || devices < each) ||
      !job->cluster.homogeneous())
    return Error{ErrorKind::usage, "--sweep devices=" + text, "\"" + text + "\"",
                 job->cluster.homogeneous() ? cat("less than the ", each, " devices of a node, or a multiple of them")
                                            : "a cluster of equal nodes",
                 ""};
  if (whole) return std::vector<std::string>{cat("cluster.nodes=", devices / each)};
  return std::vector<std::string>{"cluster.nodes=1", cat("cluster.devices_per_node=", devices)};
}

class Sweeping {
 public:
  Sweeping(Context& context, const JobFlags& job, const PlannerOptions& options, NetworkKind network)
      : context_(context), job_(job), options_(options), network_(network) {}

  /// Adds a point. An error ends the sweep, and earlier points are lost, since it is a mistake and not a finding.
  Status add(const std::vector<report::SweepAxis>& axes, const std::vector<std::string>& values, report::Sweep& out) {
    JobFlags point = job_;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].path != "devices") {
        point.overrides.push_back(axes[i].path + "=" + values[i]);
        continue;
      }
      const auto more = of_devices(context_, job_, values[i]);
      if (!more) return more.error();
      point.overrides.insert(point.overrides.end(), more->begin(), more->end());
    }
    auto job = load_job_of(context_, point);
    if (job && job->objective)
      return Error{ErrorKind::usage, "--sweep", "a job with search.objective", "one without",
                   "the objective already compares cluster sizes"};
    if (job) job->network = network_;
    auto result = job ? plan(*job, hooked(context_, options_)) : Result<PlannerResult>(job.error());
    clear_progress(context_);
    // A point where nothing fits, or whose value the job cannot have (tp 8 on 4 devices), is a finding of the sweep.
    // So is a point that a limit cuts short before any plan; the earlier points stay.
    const ErrorKind kind = result ? ErrorKind::internal : result.error().kind;
    const bool cut = !result && kind == ErrorKind::limit;
    if (!result && !cut && kind != ErrorKind::infeasible && kind != ErrorKind::bad_input) return result.error();
    if (cut) code_ = kLimit;
    if (result && code_ == kOk) code_ = exit_code_of(context_, result->search);
    out.points.push_back({values, std::move(result)});
    return {};
  }
  [[nodiscard]] int code() const { return code_; }

 private:
  Context& context_;
  const JobFlags& job_;
  const PlannerOptions& options_;
  NetworkKind network_;
  int code_ = kOk;
};

/// Returns the error where every point is bad input, which means a mistake in the job or in a path.
Status mistake(const report::Sweep& sweep, const std::vector<std::string>& texts) {
  const bool any = std::any_of(sweep.points.begin(), sweep.points.end(), [](const report::SweepPoint& p) {
    return p.result || p.result.error().kind == ErrorKind::infeasible || p.result.error().kind == ErrorKind::limit;
  });
  if (any || sweep.points.empty()) return {};
  Error error = sweep.points.front().result.error();
  for (std::size_t i = 0; i < sweep.axes.size(); ++i)
    if (error.where.starts_with("--set " + sweep.axes[i].path + "=")) error.where = "--sweep " + texts[i];
  return error;
}

/// Returns the point with the highest throughput per device, whose plan the page shows. Returns none where no point
/// has a plan.
std::optional<std::size_t> shown_point(const report::Sweep& sweep) {
  std::optional<std::size_t> best;
  const auto rate = [&](std::size_t i) { return sweep.points[i].result->prediction.tokens_per_s_per_device; };
  for (std::size_t i = 0; i < sweep.points.size(); ++i)
    if (sweep.points[i].result && (!best || rate(i) > rate(*best))) best = i;
  return best;
}

/// Writes the page of that point, with the whole sweep as a table.
Result<std::string> page_of(const report::Sweep& sweep, std::size_t point) {
  const PlannerResult& shown = *sweep.points[point].result;
  auto job = job_of_plan(shown.plan);
  if (!job) return job.error();
  if (shown.prediction.network) job->network = NetworkKind::flow;
  report::PageOptions options;
  options.sweep = &sweep;
  options.sweep_point = point;
  const auto data = report::page_data(*job, shown, nullptr, options);
  if (!data) return data.error();
  constexpr std::size_t kColumns = 110;
  return report::page(*data, shown.brief(kColumns));
}

Status write_files(const Context& context, const report::Sweep& sweep, const SweepFlags& flags, const OutputFlags& output,
                   std::vector<std::string>& files) {
  const auto write = [&](const std::string& path, const std::string& text) {
    files.push_back(path);
    return report::write_file(path, text);
  };
  if (!flags.csv.empty())
    if (Status status = write(flags.csv, to_csv(sweep)); !status.ok()) return status;
  if (output.folder.empty()) return {};
  std::error_code ignored;
  std::filesystem::create_directories(output.folder, ignored);
  const std::filesystem::path folder(output.folder);
  if (Status status = write((folder / "sweep.json").string(), to_json(sweep, plan_schema_of(context)) + "\n"); !status.ok())
    return status;
  if (Status status = write((folder / "sweep.csv").string(), to_csv(sweep)); !status.ok()) return status;
  const auto shown = shown_point(sweep);
  if (!shown) return {};
  const auto page = page_of(sweep, *shown);
  if (!page) return page.error();
  return write((folder / "report.html").string(), *page);
}

}  // namespace

int run_sweep(Context& context, const JobFlags& job, const SweepFlags& flags, const PlannerOptions& options, NetworkKind network,
              const OutputFlags& output) {
  auto axes = axes_of(flags.axes);
  if (!axes) return fail(context, axes.error());
  report::Sweep sweep{std::move(*axes), {}};
  Sweeping sweeping(context, job, options, network);
  for (const std::vector<std::string>& values : report::combinations(sweep.axes)) {
    if (Status status = sweeping.add(sweep.axes, values, sweep); !status.ok()) return fail(context, status.error());
    if (context.interrupted()) break;
  }
  if (Status status = mistake(sweep, flags.axes); !status.ok()) return fail(context, status.error());
  std::vector<std::string> files;
  if (Status status = write_files(context, sweep, flags, output, files); !status.ok()) return fail(context, status.error());
  if (context.json) {
    print_json(context, to_json(sweep, plan_schema_of(context)));
  } else {
    print_answer(context, to_text(sweep));
    for (const std::string& file : files) context.out << "wrote " << file << "\n";
  }
  return context.interrupted() ? kInterrupted : sweeping.code();
}

}  // namespace espalier::cli
