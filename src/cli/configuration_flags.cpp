// SPDX-License-Identifier: Apache-2.0
#include "cli/configuration_flags.h"

#include <algorithm>
#include <sstream>

#include "base/document.h"
#include "espalier/configuration.h"
#include "job/engine_defaults.h"
#include "job/space.h"
#include "plan/dimension.h"
#include "plan/engine.h"

namespace espalier::cli {
namespace {

Error unknown_value(const std::string& flag, const std::string& value, const std::vector<std::string>& words) {
  std::string expected;
  for (const std::string& word : words) expected += (expected.empty() ? "one of " : ", ") + word;
  const std::string close = base::suggestion(value, words);
  return Error{ErrorKind::usage, "--" + flag, "\"" + value + "\"", expected, close.empty() ? "choose one of these words" : close};
}

/// The ordinal of an enum's value by name; the sink keeps the first bad one.
std::int64_t value_of(const std::string& flag, const std::string& dimension, const std::string& text, Status& error) {
  if (const auto value = job::value_of_name(dimension, text)) return *value;
  std::vector<std::string> words;
  for (std::int64_t v = 0; v < enum_size(*parse_dimension(dimension)); ++v) words.push_back(job::value_name(dimension, v));
  if (!error) error = unknown_value(flag, text, words);
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
      error = unknown_value("overlap", word, {"grad", "param", "p2p", "tp", "none"});
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

/// dp, shard and micro-batches; then what depends on them: ZeRO needs several data ranks, overlaps something to overlap.
void complete(const ConfigurationFlags& f, const Job& job, const job::EngineDefaults& defaults, Configuration& c) {
  Configuration plain = c;
  complete_configuration(job, plain.strategy, plain.schedule);
  if (f.zero < 0 && plain.strategy.data_ranks() > 1) c.strategy.zero = defaults.zero;
  complete_configuration(job, c.strategy, c.schedule);
  const EngineModel* engine = find_engine(job.engine);
  if (f.overlap.empty() && engine != nullptr)
    c.strategy.overlap = job::usable_overlap(defaults.overlap, *engine, job, c.strategy, c.schedule);
}

}  // namespace

std::string configuration_defaults_help() {
  std::string out = "unset: degrees and micro-batch 1, schedule 1f1b, dp what is left of the devices; by engine:";
  for (const EngineModel& engine : engine_catalogue()) {
    const std::string text = job::to_string(job::engine_defaults(engine.name));
    if (text != "none") out.append("\n  ").append(engine.name).append(": ").append(text);
  }
  return out + "\n  any other: zero 0, sp, recompute and overlap none";
}

Result<Configuration> read_configuration(const ConfigurationFlags& f, const Job& job) {
  Status error;
  Configuration c;
  c.strategy.tp = f.tp;
  const job::EngineDefaults defaults = job::engine_defaults(job.engine);
  c.strategy.sp = f.sp.empty() ? (f.tp > 1 ? defaults.sp : SequenceParallel::none)
                               : static_cast<SequenceParallel>(value_of("sp", "sp", f.sp, error));
  c.strategy.cp = f.cp;
  c.strategy.cp_kind = static_cast<ContextParallelKind>(value_of("cp-kind", "cp_kind", f.cp_kind, error));
  c.strategy.ep = f.ep;
  c.strategy.etp = f.etp;
  c.strategy.dp = f.dp;
  c.strategy.zero = ZeroStage{std::max(0, f.zero)};
  c.strategy.shard = f.shard;
  if (!f.order.empty()) c.strategy.order = static_cast<RankOrder>(value_of("order", "order", f.order, error));
  c.strategy.recompute.kind = f.recompute.empty()
                                  ? defaults.recompute
                                  : static_cast<RecomputeKind>(value_of("recompute", "recompute", f.recompute, error));
  c.strategy.recompute.layers = f.recompute_layers;
  c.strategy.overlap = read_overlap(f.overlap, error);
  if (!f.offload.empty()) c.strategy.offload = static_cast<Offload>(value_of("offload", "offload", f.offload, error));
  if (!f.partition.empty()) c.strategy.partition = BlockPartition(f.partition);
  c.schedule.kind = read_schedule(f, error);
  c.schedule.stages = f.pp;
  c.schedule.virtual_stages = f.vpp > 0 ? f.vpp : default_virtual_stages(c.schedule.kind);
  c.schedule.micro_batch = f.micro_batch;
  c.schedule.microbatches = 0;
  if (error) return *error;
  complete(f, job, defaults, c);
  return c;
}

void add_configuration_flags(Command& command, ConfigurationFlags& f) {
  const auto count = [&](const char* name, std::int32_t& value, const char* help) {
    command.add_option(name, value, help)->range(1, 1 << 20)->type_name("N");
  };
  count("--tp", f.tp, "tensor parallelism (default: 1)");
  command.add_option("--sp", f.sp, "sequence parallelism: none, megatron, ulysses (default: the engine's, below)");
  count("--cp", f.cp, "context parallelism (default: 1)");
  command.add_option("--cp-kind", f.cp_kind, "ring, all-to-all (default: ring)");
  count("--ep", f.ep, "expert parallelism (default: 1)");
  count("--etp", f.etp, "tensor parallelism inside experts (default: 1)");
  count("--pp", f.pp, "pipeline stages (default: 1)");
  count("--vpp", f.vpp, "virtual stages: chunks a stage holds (default: 1; interleaved and zb-v: 2)");
  count("--dp", f.dp, "data parallelism (default: what is left of the devices)");
  count("--shard", f.shard, "ranks over which ZeRO shards (default: all with the same weights)");
  command.add_option("--zero", f.zero, "ZeRO stage (default: the engine's, below)")->range(0, 3)->type_name("0..3");
  count("--micro-batch", f.micro_batch, "samples of a micro-batch (default: 1)");
  command.add_option("--recompute", f.recompute, "none, selective, full (default: the engine's, below)");
  count("--recompute-layers", f.recompute_layers, "full: blocks of each chunk (default: all)");
  command.add_option("--schedule", f.schedule, "gpipe, 1f1b, interleaved, zb-h1, zb-v (default: 1f1b; interleaved with --vpp)");
  command.add_option("--order", f.order, "tp-cp-dp-pp, tp-cp-pp-dp, tp-dp-cp-pp: innermost first (default: tp-cp-dp-pp)");
  command
      .add_option("--partition", f.partition,
                  "operators of a block over the tp devices, as a plan names them: \"attn.norm R,R; attn.qkv P2; …\"")
      ->type_name("OPERATORS");
  command.add_option("--overlap", f.overlap,
                     "grad,param,p2p,tp or none: which communication runs beside compute (default: the engine's, below)");
  command.add_option("--offload", f.offload, "optimizer state in host memory: none, optimizer (default: none)");
}

}  // namespace espalier::cli
