// SPDX-License-Identifier: Apache-2.0
// Checks that the predicate of an engine is complete, for random jobs and each engine that a format writes. The plan
// found for the engine must obey all its rules, and some format of the engine must write it unchanged. Where that
// format can be read back, the plan read must be the same, with the same nanoseconds and bytes.
//
// Usage: engine_round_trip [--jobs N] [--seed S] [--engine NAME] [--verbose]. Prints one JSON object per engine; exit
// code 1 if a plan is not written or not the same.
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "engine_jobs.h"
#include "espalier/check.h"
#include "espalier/exchange.h"
#include "espalier/imported_configuration.h"
#include "espalier/planner.h"

namespace {

using namespace espalier;

struct Asked {
  int jobs = 200;
  std::uint64_t seed = 37;
  std::string engine;
  bool verbose = false;
};

struct Counts {
  int asked = 0, none = 0, found = 0, kept = 0, written = 0, read = 0, same = 0;
  std::map<std::string, int> formats;
};

const std::vector<std::string>& engines() {
  static const std::vector<std::string> names{"megatron-core", "megatron-bridge", "torchtitan",      "torchtitan-compile",
                                              "fsdp2",         "deepspeed",       "accelerate-fsdp", "galvatron"};
  return names;
}

void say(const std::string& job, const std::string& what) {
  std::string lines;
  for (const char c : job) lines += c == '\n' ? std::string("\n//   ") : std::string(1, c);
  std::printf("// %s\n//   %s\n", what.c_str(), lines.c_str());
}

/// Returns the plan of the file that an exporter wrote, or the reason why there is none; null if the format
/// has no importer.
std::optional<Result<Plan>> read_back(const Job& job, const Plan& plan, const exchange::Exporter& format,
                                      const std::string& text) {
  if (format.name == "galvatron") {
    const bool sequence = plan.strategy().sp == SequenceParallel::megatron;
    auto read = exchange::find_importer("galvatron")
                    ->read({&job, {{"strategy", "file", text}}, {{"sequence-parallel", sequence ? "yes" : "no"}}});
    if (!read) return read.error();
    return std::move(read->plan);
  }
  const std::map<std::string, std::string> importers{{"megatron-core", "megatron-args"},
                                                     {"torchtitan", "torchtitan"},
                                                     {"torchtitan-recipe", "torchtitan"},
                                                     {"deepspeed", "deepspeed"},
                                                     {"accelerate-fsdp", "accelerate"}};
  const auto at = importers.find(format.name);
  if (at == importers.end()) return std::nullopt;
  exchange::ConfigurationRequest request;
  request.name = "file";
  request.text = text;
  request.devices = job.cluster.devices();
  const bool script = at->second == "accelerate" || at->second == "deepspeed";  // values that the training script sets
  if (script) {
    request.sequence_length = job.training.sequence.main;
    const bool full = plan.strategy().recompute.kind == RecomputeKind::full;
    if (at->second == "deepspeed") request.recompute = full ? "full" : "none";
  }
  if (at->second == "torchtitan") request.precision = job.training.precision;
  if (at->second == "accelerate") {
    request.global_batch = job.training.global_batch;
    request.micro_batch = plan.only_pipeline().schedule.micro_batch;
  }
  const auto read = exchange::find_configuration_format(at->second)->read(request);
  if (!read) return read.error();
  if (read->global_batch != job.training.global_batch || read->sequence_length != job.training.sequence.main ||
      read->precision != job.training.precision || read->engine != plan.engine)
    return Error{ErrorKind::check_failed, "file",
                 cat("batch ", read->global_batch, ", sequence ", read->sequence_length, ", ", to_string(read->precision),
                     ", engine ", read->engine),
                 cat("batch ", job.training.global_batch, ", sequence ", job.training.sequence.main, ", ",
                     to_string(job.training.precision), ", engine ", plan.engine),
                 ""};
  return exchange::plan_of(job, *read);
}

bool same(const Job& job, const PlannerResult& found, const Plan& read, std::string& why) {
  if (!(read == found.plan)) {
    why = cat("reads as ", read.label(), ", was ", found.plan.label());
    return false;
  }
  const auto again = simulate(job, read);
  if (!again) {
    why = again.error().message();
    return false;
  }
  why = "another time or memory";
  return again->prediction.iteration_ns == found.prediction.iteration_ns &&
         again->prediction.peak_memory_bytes == found.prediction.peak_memory_bytes;
}

void try_formats(const std::string& text, const Job& job, const PlannerResult& found, Counts& counts) {
  std::string refused;
  for (const exchange::Exporter* format : exchange::exporters_of(found.plan.engine)) {
    const auto written = format->write({&job, &found.plan});
    if (!written) {
      refused += cat(refused.empty() ? "" : "; ", written.error().message());
      continue;
    }
    ++counts.written;
    ++counts.formats[format->name];
    const auto read = read_back(job, found.plan, *format, *written);
    if (!read) return;
    ++counts.read;
    std::string why = *read ? "" : read->error().message();
    if (*read && same(job, found, **read, why))
      ++counts.same;
    else
      say(text, cat(format->name, " not the same: ", found.plan.label(), ": ", why));
    return;
  }
  say(text, cat(found.plan.engine, " not written: ", found.plan.label(), ": ", refused));
}

void try_job(const std::string& text, const Asked& asked, Counts& counts) {
  ++counts.asked;
  const auto job = load_job(text, "random", ".", {});
  if (!job) return say(text, "no job: " + job.error().message());
  PlannerOptions options;
  options.node_limit = 300;
  options.alternatives = 0;
  const auto found = plan(*job, options);
  if (!found) {
    ++counts.none;
    if (asked.verbose) say(text, "no plan: " + found.error().message());
    return;
  }
  ++counts.found;
  const auto report = report::check_plan(*job, found->plan, {});
  if (report && report->ok())
    ++counts.kept;
  else
    for (const Finding& f : report ? report->findings : std::vector<Finding>{{"check", false, report.error().message()}})
      if (!f.ok) say(text, cat("check: ", found->plan.label(), ": ", f.name, ": ", f.text));
  try_formats(text, *job, *found, counts);
}

void print(const std::string& engine, const Counts& c) {
  std::string formats;
  for (const auto& [name, count] : c.formats) formats += cat(formats.empty() ? "" : ", ", "\"", name, "\": ", count);
  std::printf(
      "{\"engine\": \"%s\", \"jobs\": %d, \"no plan\": %d, \"plans\": %d, \"kept\": %d, \"written\": %d, \"read\": %d, \"same\": "
      "%d, \"formats\": {%s}}\n",
      engine.c_str(), c.asked, c.none, c.found, c.kept, c.written, c.read, c.same, formats.c_str());
  std::fflush(stdout);
}

Asked asked_of(int argc, char** argv) {
  Asked out;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&] { return std::string(i + 1 < argc ? argv[++i] : ""); };
    if (std::strcmp(argv[i], "--jobs") == 0) out.jobs = std::stoi(value());
    if (std::strcmp(argv[i], "--seed") == 0) out.seed = std::stoull(value());
    if (std::strcmp(argv[i], "--engine") == 0) out.engine = value();
    if (std::strcmp(argv[i], "--verbose") == 0) out.verbose = true;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const Asked asked = asked_of(argc, argv);
  bool right = true;
  for (const std::string& engine : engines()) {
    if (!asked.engine.empty() && engine != asked.engine) continue;
    bench::Random random(asked.seed);  // all engines see the same jobs
    Counts counts;
    for (int i = 0; i < asked.jobs; ++i) try_job(bench::engine_job_text(random) + engine + "\n", asked, counts);
    print(engine, counts);
    right = right && counts.kept == counts.found && counts.written == counts.found && counts.same == counts.read;
  }
  return right ? 0 : 1;
}
