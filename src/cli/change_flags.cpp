// SPDX-License-Identifier: Apache-2.0
#include "cli/change_flags.h"

#include <limits>

#include "base/document.h"

namespace espalier::cli {
namespace {

/// Sets `value` where the flag was given.
Status read_duration(const std::string& flag, const std::string& text, double& value) {
  if (text.empty()) return {};
  const auto read = base::parse_duration(text);
  if (!read || *read < 0) return Error{ErrorKind::usage, flag, "\"" + text + "\"", "a duration such as \"90s\" or \"24min\"", ""};
  value = *read;
  return {};
}

}  // namespace

Result<RunningPlan> running_plan(Context& context, const std::string& path) {
  auto loaded = load_plan_file(context, path);
  if (!loaded) return loaded.error();
  auto job = job_of_plan(loaded->plan);
  if (!job) return in_file(path, job.error());
  if (!loaded->result) loaded->result = result_beside(path, loaded->plan);
  if (loaded->result && searched(loaded->result->search.reason)) job->search = loaded->result->search.asked.space;
  return RunningPlan{std::move(loaded->plan), std::move(*job)};
}

Result<adapt::ChangeOptions> change_options(const Context& context, const ChangeFlags& flags) {
  adapt::ChangeOptions out;
  out.threads = flags.threads;
  out.interrupted = context.surroundings.interrupted;
  if (flags.horizon == "good") {
    out.horizon_s = std::numeric_limits<double>::infinity();
  } else if (!flags.horizon.empty()) {
    double seconds = 0;
    if (Status status = read_duration("--horizon", flags.horizon, seconds); !status.ok()) return status.error();
    out.horizon_s = seconds;
  }
  if (Status status = read_duration("--restart", flags.restart, out.move.restart_s); !status.ok()) return status.error();
  if (Status status = read_duration("--warm-up", flags.warm_up, out.move.warm_up_s); !status.ok()) return status.error();
  if (Status status = read_duration("--checkpoint-age", flags.checkpoint_age, out.move.checkpoint_age_s); !status.ok())
    return status.error();
  if (flags.storage.empty()) return out;
  const auto rate = base::parse_bandwidth(flags.storage);
  if (!rate || *rate <= 0)
    return Error{ErrorKind::usage, "--storage", "\"" + flags.storage + "\"", "a rate such as \"122MB/s\"", ""};
  out.move.storage_per_device = *rate;
  out.move.storage_stated = true;
  return out;
}

void add_change_flags(Command& command, const std::shared_ptr<ChangeFlags>& flags) {
  command
      .add_option("--horizon", flags->horizon,
                  "how long the change lasts: a time such as \"24min\", or \"good\" for permanently; default 10min for slow "
                  "devices, 24min for links, otherwise good")
      ->type_name("TIME");
  command.add_option("--restart", flags->restart, "time from the decision to the first new step if no data moves; default 30s")
      ->type_name("TIME");
  command.add_option("--warm-up", flags->warm_up, "total extra time of the first steps; default 0s")->type_name("TIME");
  command.add_option("--storage", flags->storage, "rate at which each device reads a checkpoint; default 122MB/s")
      ->type_name("RATE");
  command
      .add_option("--checkpoint-age", flags->checkpoint_age,
                  "age of the last checkpoint; this work is lost if no device still holds the states; default 900s")
      ->type_name("TIME");
  command.add_option("--threads", flags->threads, "threads of searches; never changes the answer")
      ->range(0, 4096)
      ->type_name("N");
}

}  // namespace espalier::cli
