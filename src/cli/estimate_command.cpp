// SPDX-License-Identifier: Apache-2.0
// espalier estimate JOB.yaml --tp 8 --pp 4 …: one given configuration. What no flag says is 1, none or 1F1B; dp follows.
#include <sstream>

#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "planner/job_configuration.h"
#include "planner/job_space.h"

namespace espalier::cli {
namespace {

/// 0 = not given, where 0 is no value of its own.
struct ConfigurationFlags {
  std::int32_t tp = 1, cp = 1, ep = 1, etp = 1, pp = 1, vpp = 0, dp = 0, shard = 0, zero = 0, micro_batch = 1,
               recompute_layers = 0;
  std::string sp = "none", cp_kind = "ring", recompute = "none", schedule, order, overlap = "none";
};

struct Configuration {
  Strategy strategy;
  Schedule schedule;
};

Error unknown_value(const std::string& flag, const std::string& value, const std::string& expected) {
  return Error{ErrorKind::usage, "--" + flag, "\"" + value + "\"", expected, ""};
}

/// The ordinal of an enum's value by name; the sink keeps the first bad one.
std::int64_t value_of(const std::string& flag, const std::string& dimension, const std::string& text, Status& error) {
  if (const auto value = planner::value_of_name(dimension, text)) return *value;
  std::string expected = "one of ";
  for (std::int64_t v = 0; v < enum_size(*parse_dimension(dimension)); ++v) {
    expected.append(v ? ", " : "").append(planner::value_name(dimension, v));
  }
  if (!error) error = unknown_value(flag, text, expected);
  return 0;
}

Overlap read_overlap(const std::string& list, Status& error) {
  Overlap overlap;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "grad")
      overlap.grad_reduce = true;
    else if (word == "param")
      overlap.param_gather = true;
    else if (word == "p2p")
      overlap.p2p = true;
    else if (word == "tp")
      overlap.tp = true;
    else if (word != "none" && !error)
      error = unknown_value("overlap", word, "grad, param, p2p, tp or none, joined by commas");
  }
  return overlap;
}

ScheduleKind read_schedule(const ConfigurationFlags& f, Status& error) {
  // Several chunks a stage mean interleaving unless something else is said: 1F1B has none.
  if (f.schedule.empty()) return f.vpp > 1 ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  return static_cast<ScheduleKind>(value_of("schedule", "schedule", f.schedule, error));
}

std::int32_t default_virtual_stages(ScheduleKind kind) {
  return kind == ScheduleKind::interleaved || kind == ScheduleKind::zb_v ? 2 : 1;
}

Result<Configuration> read_configuration(const ConfigurationFlags& f, const Job& job) {
  Status error;
  Configuration c;
  c.strategy.tp = f.tp;
  c.strategy.sp = static_cast<SequenceParallel>(value_of("sp", "sp", f.sp, error));
  c.strategy.cp = f.cp;
  c.strategy.cp_kind = static_cast<ContextParallelKind>(value_of("cp-kind", "cp_kind", f.cp_kind, error));
  c.strategy.ep = f.ep;
  c.strategy.etp = f.etp;
  c.strategy.dp = f.dp;
  c.strategy.zero = f.zero;
  c.strategy.shard = f.shard;
  if (!f.order.empty()) c.strategy.order = static_cast<RankOrder>(value_of("order", "order", f.order, error));
  c.strategy.recompute.kind = static_cast<RecomputeKind>(value_of("recompute", "recompute", f.recompute, error));
  c.strategy.recompute.layers = f.recompute_layers;
  c.strategy.overlap = read_overlap(f.overlap, error);
  c.schedule.kind = read_schedule(f, error);
  c.schedule.stages = f.pp;
  c.schedule.virtual_stages = f.vpp > 0 ? f.vpp : default_virtual_stages(c.schedule.kind);
  c.schedule.micro_batch = f.micro_batch;
  c.schedule.microbatches = 0;
  if (error) return *error;
  planner::complete_configuration(job, c.strategy, c.schedule);
  return c;
}

int run_estimate(Context& context, const JobFlags& flags, const ConfigurationFlags& configuration, const OutputFlags& output) {
  auto job = load_job_file(flags.path, flags.overrides);
  if (!job) return fail(context, job.error());
  auto c = read_configuration(configuration, *job);
  if (!c) return fail(context, c.error());
  auto result = estimate(*job, c->strategy, c->schedule);
  if (!result) return fail(context, result.error());
  std::vector<std::string> files;
  if (Status error = write_outputs(output, *job, *result, files)) return fail(context, *error);
  if (context.json) {
    print_json(context, to_json(*result));
    return kOk;
  }
  print_answer(context, result->brief());
  for (const std::string& file : files) context.out << "wrote " << file << "\n";
  return kOk;
}

void add_configuration_flags(CLI::App& command, ConfigurationFlags& f) {
  const auto count = [&](const char* name, std::int32_t& value, const char* help) {
    command.add_option(name, value, help)->check(CLI::Range(1, 1 << 20))->type_name("N");
  };
  count("--tp", f.tp, "tensor parallelism");
  command.add_option("--sp", f.sp, "sequence parallelism: none, megatron, ulysses");
  count("--cp", f.cp, "context parallelism");
  command.add_option("--cp-kind", f.cp_kind, "ring, all-to-all");
  count("--ep", f.ep, "expert parallelism");
  count("--etp", f.etp, "tensor parallelism inside experts");
  count("--pp", f.pp, "pipeline stages");
  count("--vpp", f.vpp, "virtual stages: chunks a stage holds");
  count("--dp", f.dp, "data parallelism (default: what is left of the devices)");
  count("--shard", f.shard, "ranks over which ZeRO shards (default: all with the same weights)");
  command.add_option("--zero", f.zero, "ZeRO stage")->check(CLI::Range(0, 3))->type_name("0..3");
  count("--micro-batch", f.micro_batch, "samples of a micro-batch");
  command.add_option("--recompute", f.recompute, "none, selective, full");
  count("--recompute-layers", f.recompute_layers, "full: blocks of each chunk (default: all)");
  command.add_option("--schedule", f.schedule, "gpipe, 1f1b, interleaved, zb-h1, zb-v (default: 1f1b; interleaved with --vpp)");
  command.add_option("--order", f.order, "tp-cp-dp-pp, tp-cp-pp-dp, tp-dp-cp-pp: innermost first");
  command.add_option("--overlap", f.overlap, "grad,param,p2p,tp: which communication runs beside compute");
}

}  // namespace

void add_estimate_command(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("estimate", "predict one given configuration");
  auto job = std::make_shared<JobFlags>();
  auto configuration = std::make_shared<ConfigurationFlags>();
  auto output = std::make_shared<OutputFlags>();
  add_job_flags(*command, job);
  add_configuration_flags(*command, *configuration);
  add_output_flags(*command, output);
  add_common_flags(*command, context);
  command
      ->add_option_function<int>(
          "--threads", [](int) {}, "accepted for symmetry with plan; one configuration needs one thread")
      ->check(CLI::Range(0, 4096));
  command->callback(
      [&context, job, configuration, output] { context.exit_code = run_estimate(context, *job, *configuration, *output); });
}

}  // namespace espalier::cli
