// SPDX-License-Identifier: Apache-2.0
#include "exchange/megatron_bridge.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/format_rules.h"
#include "exchange/megatron.h"
#include "exchange/python_recipe.h"

namespace espalier::exchange {
namespace {

using Settings = std::vector<PythonSetting>;

constexpr const char* kBridge = "megatron-bridge";
constexpr const char* kBridgePrefix = "MEG";  // its checks are Megatron's own

std::string options_of(const Job&, const Plan& plan, const Pipeline&) {
  const auto options = engine_options(plan);
  return options.empty() ? "" : cat("options of the engine: ", base::joined(options));
}

constexpr std::array kBridgeOnly = {
    FormatRow{"NO-OPTIONS", "the engine has no options", options_of, "the engine without options",
              "set them in the recipe that this one changes; a plan of the engine without them can be written"},
};

constexpr FormatRows kBridgeRows = {kBridge, kBridge, kBridgePrefix, kBridgeOnly};

std::vector<FormatRule> bridge_rules() { return rules_of(kBridgeRows); }
std::optional<FormatFault> bridge_fault(const Job& job, const Plan& plan) { return fault_of(kBridgeRows, job, plan); }

std::string number(std::int64_t value) { return std::to_string(value); }

/// Returns the type in which stages pass activations on.
const char* type_name(Precision precision) {
  switch (precision) {
    case Precision::bf16:
    case Precision::fp8:
    case Precision::mxfp8:
    case Precision::nvfp4: return "bfloat16";
    case Precision::fp16: return "float16";
    default: return "float32";
  }
}

void add_pipeline(const WrittenPlan& w, Settings& out) {
  const Schedule& schedule = w.schedule();
  const bool uneven = !evenly_cut(w.job().model, w.pipeline);
  const bool interleaved = schedule.virtual_stages > 1;
  out.push_back({"model.pipeline_model_parallel_size", number(schedule.stages), ""});
  out.push_back({"model.virtual_pipeline_model_parallel_size", interleaved && !uneven ? number(schedule.virtual_stages) : "None",
                 uneven ? "given by the layout" : ""});
  out.push_back(
      {"model.pipeline_model_parallel_layout", uneven ? python_text(megatron_layout(w.job().model, w.pipeline)) : "None", ""});
  if (schedule.stages > 1) out.push_back({"model.pipeline_dtype", cat("torch.", type_name(w.plan().training.precision)), ""});
}

void add_degrees(const Job& job, const Strategy& s, Settings& out) {
  out.push_back({"model.tensor_model_parallel_size", number(s.tp), ""});
  out.push_back({"model.sequence_parallel", python_bool(s.sp == SequenceParallel::megatron), ""});
  out.push_back({"model.context_parallel_size", number(s.cp), ""});
  if (s.cp > 1) out.push_back({"model.cp_comm_type", s.cp_kind == ContextParallelKind::ring ? "'p2p'" : "'a2a'", ""});
  if (active_parameter_count(job.model) == parameter_count(job.model)) return;
  out.push_back({"model.expert_model_parallel_size", number(s.ep), ""});
  out.push_back({"model.expert_tensor_parallel_size", number(s.etp), "None would mean the tensor degree"});
}

Settings bridge_recomputation(const WrittenPlan& w) {
  const Recompute r = strategy_of_all(w.pipeline).recompute;
  if (r.kind == RecomputeKind::none)
    return {{"model.recompute_granularity", "None", ""},
            {"model.recompute_method", "None", ""},
            {"model.recompute_num_layers", "None", ""}};
  if (r.kind == RecomputeKind::selective) {
    std::string modules;
    modules_said(w).each([&](RecomputeModule m) { modules += cat(modules.empty() ? "" : ", ", "'", to_string(m), "'"); });
    return {{"model.recompute_granularity", "'selective'", ""},
            {"model.recompute_modules", cat("[", modules, "]"), ""},
            {"model.recompute_method", "None", ""},
            {"model.recompute_num_layers", "None", ""}};
  }
  const bool all = r.layers >= most_blocks_in_a_chunk(w.job().model, w.pipeline);
  return {
      {"model.recompute_granularity", "'full'", ""},
      {"model.recompute_method", all ? "'uniform'" : "'block'", ""},
      {"model.recompute_num_layers", number(all ? 1 : r.layers), all ? "every layer separately" : "the first of every chunk"}};
}

void add_data_parallelism(const Job& job, const Strategy& s, Settings& out) {
  // Offload needs the distributed optimizer even with one data rank, where nothing is sharded.
  const bool distributed = s.shards_optimizer() || offloads_optimizer(s.offload);
  out.push_back({"ddp.use_distributed_optimizer", python_bool(distributed), "ZeRO-1"});
  out.push_back({"optimizer.use_distributed_optimizer", python_bool(distributed), ""});
  if (s.shards_optimizer()) out.push_back({"ddp.num_distributed_optimizer_instances", number(s.data_ranks() / s.shard), ""});
  out.push_back({"ddp.overlap_grad_reduce", python_bool(s.overlap.grad_reduce), ""});
  out.push_back({"ddp.overlap_param_gather", python_bool(s.overlap.param_gather), ""});
  out.push_back({"optimizer.overlap_param_gather", python_bool(s.overlap.param_gather), "both are checked"});
  if (offloads_activations(s.offload)) {
    out.push_back({"model.cpu_offloading", "True", "activations wait in host memory"});
    out.push_back({"model.cpu_offloading_num_layers", number(job.model.blocks() - 1), "at most all but one"});
    out.push_back({"model.cpu_offloading_weights", "False", "activations only"});
  }
  out.push_back({"optimizer.optimizer_cpu_offload", python_bool(offloads_optimizer(s.offload)), ""});
  if (offloads_optimizer(s.offload))
    out.push_back({"optimizer.overlap_cpu_optimizer_d2h_h2d", "True", "copies during the host's update"});
  if (offloads_optimizer(s.offload))
    out.push_back({"optimizer.use_precision_aware_optimizer", "True", "required by the offload; does not change types"});
}

std::string bridge_recipe(const WrittenPlan& w) {
  const Training& training = w.plan().training;
  const Strategy s = strategy_of_all(w.pipeline);
  Settings out;
  add_degrees(w.job(), s, out);
  add_pipeline(w, out);
  for (PythonSetting& setting : bridge_recomputation(w)) out.push_back(std::move(setting));
  add_data_parallelism(w.job(), s, out);
  out.push_back({"train.micro_batch_size", number(w.schedule().micro_batch), ""});
  out.push_back({"train.global_batch_size", number(training.global_batch), cat(w.schedule().microbatches, " micro-batches")});
  out.push_back({"model.seq_length", number(training.sequence.main), ""});
  out.push_back({"dataset.seq_length", number(training.sequence.main), ""});
  // Recipes may contain a communication plan that would override the settings above.
  out.push_back(
      {"comm_overlap",
       cat("CommOverlapConfig(tp_comm_overlap=", python_bool(s.overlap.tp), ", overlap_p2p_comm=", python_bool(s.overlap.p2p),
           ", batch_p2p_comm=", python_bool(!s.overlap.p2p), ", overlap_grad_reduce=", python_bool(s.overlap.grad_reduce),
           ", overlap_param_gather=", python_bool(s.overlap.param_gather), ")"),
       ""});
  return cat(
      head_lines(w.request, "Megatron-Bridge 0.6",
                 "planned(cfg) takes the ConfigContainer of a recipe of this model. As a program: set RECIPE=MODULE:FUNCTION and "
                 "start it on every rank."),
      "import importlib\nimport os\n\nimport torch\nfrom megatron.bridge.training.comm_overlap import CommOverlapConfig\n\n\n"
      "def planned(cfg):\n",
      assignments("cfg", out),
      "    return cfg\n\n\nif __name__ == '__main__':\n"
      "    from megatron.bridge.training.gpt_step import forward_step\n"
      "    from megatron.bridge.training.pretrain import pretrain\n\n"
      "    module, function = os.environ['RECIPE'].split(':')\n"
      "    pretrain(planned(getattr(importlib.import_module(module), function)()), forward_step)\n");
}

Result<std::string> bridge_file(const WrittenPlan& w) {
  std::string text = bridge_recipe(w);
  if (!w.request.launcher) return text;
  return to_text(LaunchFile{"Megatron-Bridge 0.6; RECIPE=MODULE:FUNCTION names the recipe", "planned.py", std::move(text),
                            torchrun_starter(w.job()) + " FILE", ""},
                 w.request);
}

Result<std::string> write_bridge(const ExportRequest& request) { return written(megatron_bridge(), request, bridge_file); }

}  // namespace

Exporter megatron_bridge() {
  return {kBridge,      "a Python recipe of Megatron-Bridge (0.6): what the plan sets on a ConfigContainer",
          "planned.py", write_bridge,
          kBridge,      all_launchers(),
          bridge_rules, bridge_fault};
}

}  // namespace espalier::exchange
