// SPDX-License-Identifier: Apache-2.0
// Implements espalier calibrate --runs mine.jsonl --base h100-sxm [--nccl FILE …]. It adapts a few coefficients to
// own measurements and reports the accuracy by cross-validation.
#include "base/document.h"
#include "base/format.h"
#include "calibrate/log_arguments.h"
#include "cli/command.h"
#include "cli/configuration_flags.h"
#include "espalier/calibrate.h"
#include "espalier/documents.h"
#include "espalier/engines.h"

namespace espalier::cli {
namespace {

struct CalibrateFlags {
  std::vector<std::string> runs, nccl, configs, overrides;
  std::string base, engine, cluster, out;
  std::optional<std::int64_t> warm_up;
  int threads = 0;
  ConfigurationFlags configuration;
};

constexpr std::size_t kMaxLogBytes = std::size_t{256} << 20;

bool is_records(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

struct LogConfiguration {
  Job job;
  Configuration configuration;
};

bool is_plan(const std::string& path) {
  const auto text = base::read_file(path);
  const auto document = text ? base::read_json(*text, path) : Result<base::Document>(Error{});
  const base::Node* schema = document ? document->root.find("schema") : nullptr;
  return schema != nullptr && (schema->text.starts_with("espalier.plan/") || schema->text.starts_with("espalier.result/"));
}

/// Returns the flags, where missing ones are filled from the arguments in the log.
ConfigurationFlags filled(ConfigurationFlags f, const calibrate::LoggedConfiguration& logged) {
  const auto fill = [](std::optional<std::int32_t>& flag, const std::optional<std::int32_t>& value) {
    if (!flag) flag = value;
  };
  fill(f.tp, logged.tp);
  fill(f.pp, logged.pp);
  fill(f.vpp, logged.vpp);
  fill(f.cp, logged.cp);
  fill(f.ep, logged.ep);
  if (f.ep.value_or(1) > 1) fill(f.etp, logged.etp);
  fill(f.micro_batch, logged.micro_batch);
  if (f.sp.empty() && logged.sequence_parallel) f.sp = *logged.sequence_parallel ? "megatron" : "none";
  if (!f.zero && logged.distributed_optimizer) f.zero = *logged.distributed_optimizer ? 1 : 0;
  if (f.recompute.empty()) {
    f.recompute = logged.recompute;
    fill(f.recompute_layers, logged.recompute_layers);
  }
  return f;
}

/// Returns the configuration that a log leaves out. A plan holds it all. A job file needs the strategy flags, unless
/// the log prints its arguments.
Result<LogConfiguration> read_config(Context& context, const CalibrateFlags& flags, const std::string& path,
                                     const NamedText& log) {
  if (is_plan(path)) {
    auto loaded = load_plan_file(context, path);
    if (!loaded) return loaded.error();
    Plan& plan = loaded->plan;
    if (Status status = unsupported(plan); !status.ok()) return status.error();
    forget_calibration(plan);  // from the shipped coefficients
    auto job = job_of_plan(plan);
    if (!job) return job.error();
    return LogConfiguration{std::move(*job), {plan.strategy(), plan.only_pipeline().schedule}};
  }
  std::vector<std::string> overrides = flags.overrides;
  overrides.emplace_back("calibration=");
  auto job = load_job_file(path, overrides);
  if (!job) return job.error();
  const auto logged = calibrate::logged_configuration(log.text, log.name);
  if (!logged) return logged.error();
  auto configuration = read_flags(filled(flags.configuration, *logged), *job);
  if (!configuration) return configuration.error();
  if (flags.configuration.overlap.empty()) calibrate::overlap_as_logged(*job, *logged, *configuration);
  return LogConfiguration{std::move(*job), *configuration};
}

Error needs_config(const std::string& file, std::size_t logs, std::size_t configs) {
  if (configs == 0)
    return Error{ErrorKind::usage, "--runs " + file, "a log without a configuration",
                 "--config JOB.yaml with --tp, --pp, …, or --config PLAN.json",
                 "a log holds step times; the job names the model and the cluster. Espalier's own records (.jsonl) hold both"};
  return Error{ErrorKind::usage, "--config", std::to_string(configs) + " configurations for " + std::to_string(logs) + " logs",
               "one for all logs, or one per log in the same order", "give --config once, or once per log"};
}

Status add_logs(Context& context, const CalibrateFlags& flags, std::vector<NamedText> logs, CalibrationInputs& inputs) {
  if (logs.empty()) return {};
  if (flags.configs.size() != 1 && flags.configs.size() != logs.size())
    return needs_config(logs.front().name, logs.size(), flags.configs.size());
  for (std::size_t i = 0; i < logs.size(); ++i) {
    auto config = read_config(context, flags, flags.configs[flags.configs.size() == 1 ? 0 : i], logs[i]);
    if (!config) return config.error();
    note_all(context, config->job.notes);
    const auto& [strategy, schedule] = config->configuration;
    inputs.logs.push_back({std::move(logs[i]), std::move(config->job), strategy, schedule, flags.warm_up});
  }
  return {};
}

Status read_runs(Context& context, const CalibrateFlags& flags, CalibrationInputs& inputs) {
  std::vector<NamedText> logs;
  for (const std::string& path : flags.runs) {
    auto text = base::read_file(path, kMaxLogBytes);
    if (!text) return text.error();
    (is_records(*text) ? inputs.records : logs).push_back({path, std::move(*text)});
  }
  return add_logs(context, flags, std::move(logs), inputs);
}

Status read_tables(const CalibrateFlags& flags, CalibrationInputs& inputs) {
  for (const std::string& path : flags.nccl) {
    auto text = base::read_file(path, kMaxLogBytes);
    if (!text) return text.error();
    inputs.nccl_tests.push_back({path, std::move(*text)});
  }
  if (flags.cluster.empty()) return {};
  auto cluster = load_cluster_file(flags.cluster);
  if (!cluster) return cluster.error();
  inputs.cluster = std::move(*cluster);
  return {};
}

int run_calibrate(Context& context, const CalibrateFlags& flags) {
  if (flags.runs.empty() && flags.nccl.empty())
    return fail(context, Error{ErrorKind::usage, "calibrate", "nothing measured", "--runs FILE, --nccl FILE or both",
                               "docs/tutorial.md shows a calibration"});
  CalibrationInputs inputs;
  inputs.device = flags.base;
  inputs.engine = flags.engine;
  inputs.threads = flags.threads;
  if (Status status = read_runs(context, flags, inputs); !status.ok()) return fail(context, status.error());
  if (Status status = read_tables(flags, inputs); !status.ok()) return fail(context, status.error());
  auto result = fit_calibration(inputs);
  if (!result) return fail(context, result.error());
  if (!flags.out.empty()) {
    if (Status status = report::write_file(flags.out, result->yaml); !status.ok()) return fail(context, status.error());
    result->file = flags.out;
  }
  if (context.json) {
    print_json(context, to_json(*result));
    return kOk;
  }
  print_answer(context, to_text(*result, context.width()));
  if (!flags.out.empty()) context.out << "wrote " << flags.out << "\n";
  return kOk;
}

}  // namespace

void add_calibrate_command(Command& app, Context& context) {
  Command* command = app.add_subcommand("calibrate", "fit the predictions to your measured steps and nccl-tests output");
  auto flags = std::make_shared<CalibrateFlags>();
  const auto files = [&](const char* name, std::vector<std::string>& value, const char* help) {
    command->add_option(name, value, help)->type_name("FILE …");
  };
  files("--runs", flags->runs,
        "measured steps: records (.jsonl), or logs of Megatron-LM, NeMo, torchtitan, nanotron, DeepSpeed, the Hugging Face "
        "Trainer, MLPerf");
  files("--nccl", flags->nccl, "output of all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf, sendrecv_perf");
  files("--config", flags->configs,
        "configuration behind a log: a job file (with the flags below) or a plan.json; one for all logs, or one per log");
  command->add_option("--base", flags->base, "device of the catalogue, or a prefix that only one device matches")
      ->required()
      ->type_name("DEVICE");
  command->add_option("--engine", flags->engine, "predict all runs as this engine: " + base::joined(engine_names()))
      ->one_of(engine_names())
      ->type_name("NAME");
  command
      ->add_option("--cluster", flags->cluster,
                   "cluster on which the nccl-tests tables were measured (default: the device's usual nodes)")
      ->type_name("FILE");
  command->add_option("--out", flags->out, "write the calibration here")->type_name("FILE");
  command
      ->add_option("--warm-up", flags->warm_up, "step lines to skip at the start of a log (default: a fifth, and steps 1 to 5)")
      ->range(0, 1'000'000)
      ->type_name("N");
  command->add_option("--set", flags->overrides, "override a value of the job files: a.b.c=value (repeatable)")
      ->type_name("PATH=VALUE")
      ->one_value_each();
  command->add_option("--threads", flags->threads, "threads; never changes the answer (0: two)")->range(0, 4096)->type_name("N");
  add_configuration_flags(*command, flags->configuration);
  add_common_flags(*command, context);
  command->callback([&context, flags] { context.exit_code = run_calibrate(context, *flags); });
}

}  // namespace espalier::cli
