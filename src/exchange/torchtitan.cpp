// SPDX-License-Identifier: Apache-2.0
#include "exchange/torchtitan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/division.h"
#include "base/format.h"
#include "base/invariant.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"
#include "exchange/python_recipe.h"
#include "plan/engine.h"

namespace espalier::exchange {
namespace {

using Flags = std::vector<LaunchFlag>;

constexpr const char* kTorchtitan = "torchtitan";
constexpr const char* kRecipe = "torchtitan-recipe";
constexpr const char* kTorchtitanPrefix = "TT";

std::string flag(const char* name) { return cat("--parallelism.", name); }

bool compiles(const Plan& plan) { return base_engine(plan.engine) == "torchtitan-compile"; }
bool compiles_loss(const Plan& plan) { return has_engine_option(plan, "compiled-loss"); }

/// Returns the blocks of every chunk, in pipeline order.
std::vector<std::int64_t> blocks_of_chunks(const Job& job, const Pipeline& pipeline) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(pipeline.schedule.stages) *
                                static_cast<std::size_t>(pipeline.schedule.virtual_stages));
  for (std::size_t i = 0; i < pipeline.stages.size(); ++i)
    for (std::size_t v = 0; v < pipeline.stages[i].chunks.size(); ++v) {
      const Chunk& chunk = pipeline.stages[i].chunks[v];
      std::int64_t blocks = 0;
      for (std::int32_t l = chunk.first(); l <= chunk.last(); ++l)
        blocks += job.model.layer(static_cast<std::size_t>(l)).role == LayerRole::block ? 1 : 0;
      out[static_cast<std::size_t>(
          pipeline_chunk(pipeline.schedule, static_cast<std::int32_t>(i), static_cast<std::int32_t>(v)))] = blocks;
    }
  return out;
}

/// Returns the default number of stages. Schedules with several stages per rank have two per rank.
std::int64_t usual_stages(const Schedule& schedule) {
  const bool several = has_chunks(schedule.kind);
  return std::int64_t{schedule.stages} * (several ? 2 : 1);
}

const char* schedule_name(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe: return "GPipe";
    case ScheduleKind::one_f_one_b: return "1F1B";
    case ScheduleKind::interleaved: return "Interleaved1F1B";
    case ScheduleKind::zb_v: return "ZBVZeroBubble";
    case ScheduleKind::zb_h1:
    case ScheduleKind::zb_h2: break;
  }
  return nullptr;
}

std::string listed(const std::vector<std::int64_t>& counts) {
  std::vector<std::string> words;
  for (const std::int64_t count : counts) words.push_back(std::to_string(count));
  return base::joined(words);
}

std::string uncut(const Job& job, const Plan&, const Pipeline& pipeline) {
  const Schedule& schedule = pipeline.schedule;
  const std::vector<std::int64_t> blocks = blocks_of_chunks(job, pipeline);
  return schedule.stages > 1 && !titan_cut(blocks, usual_stages(schedule)) ? cat("stages of ", listed(blocks), " blocks") : "";
}

/// Names the nearest pipeline degrees whose stages have equally many blocks.
std::string even_cuts(const Job& job, const Pipeline& pipeline) {
  const std::int64_t present = pipeline.schedule.stages, devices = job.cluster.devices();
  ESPALIER_CHECK(present > 1 && devices >= present);  // one stage has no cut
  const auto even = [&](std::int64_t pp) {
    return devices % pp == 0 && job.model.blocks() % (pp * pipeline.schedule.virtual_stages) == 0;
  };
  std::vector<std::string> degrees;
  for (std::int64_t pp = present - 1; pp > 1 && degrees.empty(); --pp)
    if (even(pp)) degrees.push_back(std::to_string(pp));
  const std::size_t below = degrees.size();
  for (std::int64_t pp = present; pp <= devices && degrees.size() == below; ++pp)
    if (even(pp)) degrees.push_back(std::to_string(pp));
  if (degrees.empty()) degrees.emplace_back("1");
  return cat("with --set search.fix.pp=", base::joined(degrees, " or "), " the ", job.model.blocks(),
             " blocks can be cut evenly; the format torchtitan-recipe writes any stages");
}

/// These rows apply to the command line. In Python, stages are lists of modules.
constexpr std::array kFlagRows = {
    FormatRow{"CUT",
              "stages differ as the layers which first and last have less",
              uncut,
              "stages that differ as the layers which first and last have less",
              {},
              even_cuts},
};

constexpr FormatRows kTorchtitanRows = {kTorchtitan, kTorchtitan, kTorchtitanPrefix, kFlagRows};
constexpr FormatRows kRecipeRows = {kRecipe, kTorchtitan, kTorchtitanPrefix};

std::vector<FormatRule> recipe_rules() { return rules_of(kRecipeRows); }
std::optional<FormatFault> recipe_fault(const Job& job, const Plan& plan) { return fault_of(kRecipeRows, job, plan); }
std::vector<FormatRule> flag_rules() { return rules_of(kTorchtitanRows); }
std::optional<FormatFault> flag_fault(const Job& job, const Plan& plan) { return fault_of(kTorchtitanRows, job, plan); }

Flags pipeline_alone(const Schedule& schedule) {
  if (schedule.stages == 1) return {};
  return {{flag("pipeline_parallel_degree"), std::to_string(schedule.stages), ""},
          {flag("pipeline_parallel_schedule"), schedule_name(schedule.kind), ""},
          {flag("pipeline_parallel_microbatch_size"), std::to_string(schedule.micro_batch), ""}};
}

Flags pipeline(const WrittenPlan& w) {
  const Schedule& schedule = w.schedule();
  Flags out = pipeline_alone(schedule);
  if (out.empty()) return out;
  const auto cut = titan_cut(blocks_of_chunks(w.job(), w.pipeline), usual_stages(schedule));
  ESPALIER_CHECK(cut);  // fault() has checked it
  out.push_back({flag("pipeline_parallel_first_stage_less_layers"), std::to_string(cut->first), ""});
  out.push_back({flag("pipeline_parallel_last_stage_less_layers"), std::to_string(cut->last), ""});
  if (cut->layers_per_stage > 0)
    out.push_back({flag("pipeline_parallel_layers_per_stage"), std::to_string(cut->layers_per_stage),
                   cat(schedule.virtual_stages, " stages per rank")});
  return out;
}

Flags parallelism(const Strategy& s) {
  const std::int64_t shard = s.shards_gradients() ? s.shard / s.cp : 1;
  ESPALIER_CHECK(shard > 0 && s.dp % shard == 0);
  Flags out{{flag("data_parallel_replicate_degree"), std::to_string(s.dp / shard), ""},
            {flag("data_parallel_shard_degree"), std::to_string(shard),
             s.cp > 1 ? "states are also sharded over the ranks of cp" : ""}};
  if (s.shards_gradients())
    out.push_back({flag("fsdp_reshard_after_forward"), s.shards_parameters() ? "always" : "never",
                   s.shards_parameters() ? "ZeRO-3" : "ZeRO-2"});
  if (offloads_parameters(s.offload)) out.push_back({"--training.enable_cpu_offload", "", "parameters, gradients and states"});
  out.push_back({flag("tensor_parallel_degree"), std::to_string(s.tp), ""});
  if (s.tp > 1 && s.sp == SequenceParallel::none) out.push_back({flag("no-enable-sequence-parallel"), "", ""});
  if (s.cp > 1) out.push_back({flag("context_parallel_degree"), std::to_string(s.cp), ""});
  if (s.ep > 1) out.push_back({flag("expert_parallel_degree"), std::to_string(s.ep), ""});
  return out;
}

Flags torchtitan_batch(const WrittenPlan& w) {
  const Schedule& schedule = w.schedule();
  const Training& training = w.plan().training;
  const std::int64_t passes = schedule.stages > 1 ? schedule.microbatches : 1;
  return {{"--training.local_batch_size", std::to_string(schedule.micro_batch * passes),
           schedule.stages > 1 ? cat(passes, " micro-batches go through the pipeline") : ""},
          {"--training.global_batch_size", std::to_string(training.global_batch), ""},
          {"--training.seq_len", std::to_string(training.sequence.main), ""}};
}

/// Returns the kernel flags. They keep rule TT-CUDA-GRAPHS, whatever the plan.
Flags kernels(const WrittenPlan& w) {
  const Plan& plan = w.plan();
  Flags out{{"--training.disable_cuda_graphs", "",
             w.schedule().stages > 1 ? "CUDA graphs do not support pipelines" : "the prediction launches every kernel"},
            {compiles(plan) || compiles_loss(plan) ? "--compile.enable" : "--compile.no-enable", "", ""}};
  if (!compiles(plan) && compiles_loss(plan)) out.push_back({"--compile.components", "loss", "", true});
  if (w.strategy().overlap.tp) out.push_back({"--compile.enable_async_tensor_parallel", "", ""});
  out.push_back({"--loss.num_chunks", has_engine_option(plan, "chunked-loss") ? "8" : "1",
                 "parts of the sequence whose logits exist at once"});
  if (has_engine_option(plan, "bf16-states"))
    out.push_back({"--training.dtype", "bfloat16", "parameters, gradients and moments"});
  if (plan.training.precision == Precision::fp32) out.push_back({"--training.mixed_precision_param", "float32", ""});
  return out;
}

/// Returns the recomputation as a subcommand of tyro, which would take flags behind it.
std::string recomputation(const Recompute& r) {
  switch (r.kind) {
    case RecomputeKind::none: return "activation-checkpoint:none";
    case RecomputeKind::selective: return "activation-checkpoint:selective";
    case RecomputeKind::full: break;
  }
  return "activation-checkpoint:full";
}

/// Returns a hint for 8-bit products, which a converter of the model's configuration sets.
const char* eight_bits(const Plan& plan) {
  if (plan.training.precision == Precision::mxfp8) return ", with its MXFP8LinearConverter";
  return plan.training.precision == Precision::fp8 ? ", with its Float8LinearConverter" : "";
}

Result<std::string> flag_script(const WrittenPlan& w) {
  LaunchScript script;
  script.engine = cat("torchtitan 0.3; MODULE and CONFIG name the model, such as llama3 and llama3_8b", eight_bits(w.plan()));
  script.program = "-m torchtitan.train --module \"${MODULE:?}\" --config \"${CONFIG:?}\"";
  script.in_image = "-m torchtitan.train --module MODULE --config CONFIG";
  script.groups = {{"parallelism", parallelism(w.strategy())},
                   {"pipeline", pipeline(w)},
                   {"batch", torchtitan_batch(w)},
                   {"kernels", kernels(w)}};
  script.last = recomputation(w.strategy().recompute);
  return to_text(script, w.request);
}

Result<std::string> write_flags(const ExportRequest& request) { return written(torchtitan_flags(), request, flag_script); }

// ---- the recipe ---------------------------------------------------------------------------------------------------

/// Converts a flag to an assignment: "--compile.no-enable" is compile.enable = False, "--parallelism.x 2" is
/// parallelism.x = 2. Words become texts.
PythonSetting setting_of(const LaunchFlag& flag) {
  ESPALIER_CHECK(flag.name.starts_with("--"));
  std::string path = flag.name.substr(2), literal = flag.value;
  const std::size_t no = path.find(".no-");
  if (flag.value.empty()) literal = python_bool(no == std::string::npos);
  if (no != std::string::npos) path.erase(no + 1, 3);
  std::replace(path.begin(), path.end(), '-', '_');
  if (flag.list) return {path, cat("[", python_text(flag.value), "]"), flag.reason};
  const bool number = !flag.value.empty() && flag.value.find_first_not_of("0123456789") == std::string::npos;
  return {path, flag.value.empty() || number ? literal : python_text(literal), flag.reason};
}

/// Returns the modules of every stage, as torchtitan names them: ['tok_embeddings', 'layers.0'], …, ['layers.31',
/// 'norm', 'lm_head'].
std::string modules(const WrittenPlan& w) {
  std::string out = "[";
  std::int64_t next = 0;
  const std::vector<std::int64_t> blocks = blocks_of_chunks(w.job(), w.pipeline);
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    std::vector<std::string> names;
    if (k == 0) names.emplace_back("'tok_embeddings'");
    for (std::int64_t l = 0; l < blocks[k]; ++l) names.push_back(cat("'layers.", next++, "'"));
    if (k + 1 == blocks.size()) names.insert(names.end(), {"'norm'", "'lm_head'"});
    out += cat(k == 0 ? "" : ", ", "[", base::joined(names), "]");
  }
  return out + "]";
}

const char* checkpointing(const Recompute& r) {
  switch (r.kind) {
    case RecomputeKind::none: return "None";
    case RecomputeKind::selective: return "SelectiveAC.Config()";
    case RecomputeKind::full: break;
  }
  return "FullAC.Config()";
}

std::string recipe_text(const WrittenPlan& w) {
  std::vector<PythonSetting> out;
  for (const Flags& flags : {parallelism(w.strategy()), pipeline_alone(w.schedule()), torchtitan_batch(w), kernels(w)})
    for (const LaunchFlag& flag : flags) out.push_back(setting_of(flag));
  if (w.schedule().stages > 1) out.push_back({"parallelism.module_fqns_per_model_part", modules(w), ""});
  out.push_back({"activation_checkpoint", checkpointing(w.strategy().recompute), ""});
  return cat(
      head_lines(w.request, cat("torchtitan 0.3", eight_bits(w.plan())),
                 "Put it on Python's path: --module planned_recipe --config planned; BASE=MODULE:FUNCTION names the model's own "
                 "configuration, such as torchtitan.models.llama3.config_registry:llama3_8b."),
      "import importlib\nimport os\n\nfrom torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC  # noqa: "
      "F401\n\n\n"
      "def planned():\n    module, function = os.environ['BASE'].split(':')\n"
      "    config = getattr(importlib.import_module(module), function)()\n",
      assignments("config", out), "    return config\n");
}

Result<std::string> recipe_file(const WrittenPlan& w) {
  std::string text = recipe_text(w);
  if (!w.request.launcher) return text;
  const std::string path = "PYTHONPATH=\"$(dirname FILE)${PYTHONPATH:+:$PYTHONPATH}\"";
  return to_text(
      LaunchFile{
          "torchtitan 0.3; BASE=MODULE:FUNCTION names the model's own configuration", "planned_recipe.py", std::move(text),
          cat("env ", path, " ", torchrun_starter(w.job()), " -m torchtitan.train --module planned_recipe --config planned"), ""},
      w.request);
}

Result<std::string> write_recipe(const ExportRequest& request) { return written(torchtitan_recipe(), request, recipe_file); }

/// Returns the layers per stage for which ⌈weighted / it⌉ is the number of stages. Returns 0 where none needs to be
/// given, and nothing where no such number exists.
std::optional<std::int64_t> layers_a_stage(std::int64_t weighted, std::int64_t stages, std::int64_t usual) {
  if (stages == usual) return 0;
  const std::int64_t each = ceil_div(weighted, stages);
  if (ceil_div(weighted, each) != stages) return std::nullopt;
  return each;
}

}  // namespace

std::vector<LaunchFlag> titan_plan_flags(const WrittenPlan& w) {
  Flags out = parallelism(w.strategy());
  for (const Flags& more : {pipeline(w), torchtitan_batch(w)}) out.insert(out.end(), more.begin(), more.end());
  if (w.strategy().overlap.tp) out.push_back({"--compile.enable_async_tensor_parallel", "", ""});
  return out;
}

std::vector<std::int64_t> titan_blocks(std::int64_t layers, std::int64_t stages, std::int64_t first, std::int64_t last) {
  ESPALIER_CHECK(layers >= 0 && stages > 0 && first >= 0 && last >= 0);
  const std::int64_t each = (layers + first + last) / stages, more = (layers + first + last) % stages;
  if (each == 0 || first > each || last > each || stages > layers + first + last) return {};
  std::vector<std::int64_t> out;
  for (std::int64_t k = 0; k < stages; ++k)
    out.push_back(each + (k < more ? 1 : 0) - (k == 0 ? first : 0) - (k == stages - 1 ? last : 0));
  return *std::min_element(out.begin(), out.end()) < 0 ? std::vector<std::int64_t>() : out;
}

std::optional<TitanCut> titan_cut(const std::vector<std::int64_t>& blocks, std::int64_t usual_stages) {
  const std::int64_t layers = std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0});
  const auto stages = static_cast<std::int64_t>(blocks.size());
  const auto with = [&](std::int64_t first, std::int64_t last) -> std::optional<TitanCut> {
    if (titan_blocks(layers, stages, first, last) != blocks) return std::nullopt;
    const auto each = layers_a_stage(layers + first + last, stages, usual_stages);
    return each ? std::optional<TitanCut>({first, last, *each}) : std::nullopt;
  };
  if (const auto usual = with(1, 1)) return usual;
  // A weight is at most the size of a stage.
  const std::int64_t most = *std::max_element(blocks.begin(), blocks.end()) + 1;
  for (std::int64_t sum = 0; sum <= 2 * most; ++sum)
    for (std::int64_t first = std::max<std::int64_t>(0, sum - most); first <= std::min(sum, most); ++first)
      if (const auto found = with(first, sum - first)) return found;
  return std::nullopt;
}

Exporter torchtitan_flags() {
  return {kTorchtitan, "a script that launches the plan with torchtitan (0.3)",
          "launch.sh", write_flags,
          kTorchtitan, all_launchers(),
          flag_rules,  flag_fault};
}

Exporter torchtitan_recipe() {
  return {kRecipe,
          "a Python recipe of torchtitan (0.3): a function that returns its configuration",
          "planned_recipe.py",
          write_recipe,
          kTorchtitan,
          all_launchers(),
          recipe_rules,
          recipe_fault};
}

}  // namespace espalier::exchange
