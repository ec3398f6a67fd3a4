// SPDX-License-Identifier: Apache-2.0
#include "cli/configuration_flags.h"

#include <algorithm>

#include "base/format.h"
#include "job/engine_defaults.h"
#include "plan/engine.h"

namespace espalier::cli {
namespace {

/// Returns the flag of a field: "--cp-kind" for "cp_kind".
std::string flag_of(const std::string& field) {
  std::string flag = "--" + field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

}  // namespace

std::string configuration_defaults_help() {
  std::string out = "defaults: degrees and micro-batch 1, schedule 1f1b, dp over the remaining devices; by engine:";
  for (const EngineModel& engine : engine_catalogue()) {
    const std::string text = job::to_string(job::engine_defaults(engine.name));
    if (text != "none") out.append("\n  ").append(engine.name).append(": ").append(text);
  }
  return out + "\n  any other: zero 0, sp, recompute and overlap none";
}

Result<Configuration> read_flags(const ConfigurationFlags& flags, const Job& job) {
  auto read = read_configuration(flags, job);
  if (read) return read;
  Error error = read.error();
  error.where = flag_of(error.where);
  return error;
}

void add_configuration_flags(Command& command, ConfigurationFlags& f) {
  const auto count = [&](const char* name, std::optional<std::int32_t>& value, const char* help) {
    command.add_option(name, value, help)->range(1, 1 << 20)->type_name("N");
  };
  count("--tp", f.tp, "tensor parallelism (default: 1)");
  command.add_option("--sp", f.sp, "sequence parallelism: none, megatron, ulysses (default: the engine's, below)")
      ->suggest({"none", "megatron", "ulysses"})
      ->type_name("KIND");
  count("--cp", f.cp, "context parallelism (default: 1)");
  command.add_option("--cp-kind", f.cp_kind, "ring, all-to-all (default: ring)")
      ->suggest({"ring", "all-to-all"})
      ->type_name("KIND");
  count("--ep", f.ep, "expert parallelism (default: 1)");
  count("--etp", f.etp, "tensor parallelism inside experts (default: 1)");
  count("--pp", f.pp, "pipeline stages (default: 1)");
  count("--vpp", f.vpp, "virtual stages: chunks per stage (default: 1; interleaved and zb-v: 2)");
  count("--dp", f.dp, "data parallelism (default: the remaining devices)");
  count("--shard", f.shard, "ranks over which ZeRO shards (default: all ranks with the same weights)");
  command.add_option("--zero", f.zero, "ZeRO stage (default: the engine's, below)")
      ->range(0, 3)
      ->suggest({"0", "1", "2", "3"})
      ->type_name("0..3");
  count("--micro-batch", f.micro_batch, "samples per micro-batch (default: 1)");
  command
      .add_option("--recompute", f.recompute,
                  "none, selective, full, or modules of a block: layernorm,moe_act (default: the engine's, below)")
      ->suggest({"none", "selective", "full"})
      ->type_name("KIND");
  count("--recompute-layers", f.recompute_layers, "full recomputation: blocks per chunk (default: all)");
  std::vector<std::string> schedules;
  for (const ScheduleKind kind : kScheduleKinds) schedules.emplace_back(to_string(kind));
  command.add_option("--schedule", f.schedule, base::joined(schedules) + " (default: 1f1b; interleaved with --vpp)")
      ->suggest(schedules)
      ->type_name("NAME");
  command.add_option("--order", f.order, "tp-cp-dp-pp, tp-cp-pp-dp, tp-dp-cp-pp: innermost first (default: tp-cp-dp-pp)")
      ->suggest({"tp-cp-dp-pp", "tp-cp-pp-dp", "tp-dp-cp-pp"})
      ->type_name("ORDER");
  command
      .add_option("--partition", f.partition,
                  "partition of a block's operators over the tp devices, in a plan's notation: \"attn.norm R,R; attn.qkv P2; …\"")
      ->type_name("OPERATORS");
  command
      .add_option("--overlap", f.overlap,
                  "grad,param,p2p,tp or none: which communication overlaps with compute (default: the engine's, below)")
      ->suggest({"none", "grad", "grad,param", "grad,param,p2p", "grad,param,p2p,tp"})
      ->type_name("LIST");
  command
      .add_option(
          "--offload", f.offload,
          "what is kept in host memory: none, optimizer, activations, optimizer+activations, parameters, parameters+activations "
          "(default: none)")
      ->suggest({"none", "optimizer", "activations", "optimizer+activations", "parameters", "parameters+activations"})
      ->type_name("KIND");
}

}  // namespace espalier::cli
