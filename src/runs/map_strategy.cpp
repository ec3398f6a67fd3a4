// SPDX-License-Identifier: Apache-2.0
// Maps the configuration of a run: degrees, schedule, ZeRO, recomputation and overlap.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "plan/engine.h"
#include "plan/rules.h"
#include "plan/structure.h"
#include "runs/mapper.h"
#include "runs/record_words.h"

namespace espalier::runs {

void Mapper::map_degrees() {
  Strategy& s = run_.strategy;
  Schedule& c = run_.schedule;
  s.tp = degree(r_.tp, "tp");
  c.stages = degree(r_.pp, "pp");
  s.cp = unused_degree(r_.cp, "cp");
  c.micro_batch = degree(r_.microbatch, "microbatch");
  c.microbatches = 0;
  s.dp = r_.dp ? degree(r_.dp, "dp") : 0;
  const EngineModel* engine = find_engine(run_.job.engine);
  if (r_.mixture.network.stated() && s.dp > 1 && c.stages > 1 && !engine->runs.orders.empty())
    s.order = engine->runs.orders.front();
  if (!r_.dp) used("dp", "the remaining devices", "gpu.count / (tp · pp · cp)");
  map_sequence_parallel();
  map_experts();
  map_schedule();
}

void Mapper::map_sequence_parallel() {
  Strategy& s = run_.strategy;
  if (s.tp == 1) return;
  std::string kind = base::lower(r_.sp_kind);
  if (kind.empty() && r_.sp) kind = *r_.sp ? "megatron" : "none";
  if (kind.empty() && r_.mixture.network.stated()) {
    kind = "none";
    used("sp", kind, "Megatron-LM's --sequence-parallel is off by default (megatron/training/arguments.py)");
  }
  if (kind.empty()) {
    const auto* d = framework_default("sp");
    if (!d) return skip("sp missing");
    kind = d->value;
  }
  if (kind == "megatron")
    s.sp = SequenceParallel::megatron;
  else if (kind == "ulysses")
    s.sp = SequenceParallel::ulysses;
  else if (kind != "none")
    skip("sp unknown", kind);
}

void Mapper::map_experts() {
  Strategy& s = run_.strategy;
  const auto routed = [](const Operator& op) { return op.kind == OperatorKind::expert_linear; };
  const auto has_experts = [&](const LayerKind& k) { return std::any_of(k.operators.begin(), k.operators.end(), routed); };
  if (std::none_of(run_.job.model.kinds.begin(), run_.job.model.kinds.end(), has_experts)) return;
  s.ep = expert_degree();
  std::optional<std::int64_t> etp = r_.etp;
  if (!etp && arguments_) etp = arguments_->expert_tp;
  if (etp) {
    s.etp = degree(etp, "etp");
  } else if (s.tp > 1) {
    const auto* d = framework_default("etp");
    if (!d) return skip("etp missing");
    s.etp = d->value == "tp" ? s.weight_tp() : static_cast<std::int32_t>(parse_count(d->value));
    split_experts_that_fit();
  }
}

/// Switches off expert tensor parallelism where ep · etp does not divide the devices of a stage.
void Mapper::split_experts_that_fit() {
  Strategy& s = run_.strategy;
  const std::int64_t data = s.dp > 0 ? s.dp : run_.job.cluster.devices() / (std::int64_t{s.tp} * s.cp * run_.schedule.stages);
  const std::int64_t devices = std::int64_t{s.tp} * s.cp * data;
  if (s.etp == 1 || devices % (std::int64_t{s.ep} * s.etp) == 0) return;
  s.etp = 1;
  used("etp", "1", "tp and ep together would not divide the devices of a stage");
}

std::int32_t Mapper::expert_degree() {
  if (r_.ep.value_or(1) == 1 && r_.techniques.deepep) {
    if (const auto* d = framework_default("ep"))
      return static_cast<std::int32_t>(std::min(parse_count(d->value), run_.job.cluster.devices()));
  }
  return unused_degree(r_.ep, "ep");
}

std::int64_t Mapper::chunks_per_stage() {
  // "1f1b" names the family. Where vpp is not given either, the recipe decides between plain and interleaved 1F1B.
  const Schedule& plain = run_.schedule;
  const std::int64_t blocks = run_.job.model.blocks();
  // The fork's "1F1B-I" has one block per chunk. Where blocks do not divide, the published vpp is rounded down.
  if (r_.vpp.value_or(1) > 1 && blocks % (plain.stages * *r_.vpp) != 0)
    if (const auto* d = framework_default("vpp"); d != nullptr && d->value == "blocks")
      return (blocks + plain.stages - 1) / plain.stages;
  if (r_.vpp || (!r_.schedule.empty() && base::lower(r_.schedule) != "1f1b")) return r_.vpp.value_or(0);
  const Schedule& c = run_.schedule;
  const std::int64_t samples = std::int64_t{c.micro_batch} * std::max<std::int64_t>(1, r_.dp.value_or(1));
  if (run_.job.model.blocks() % c.stages != 0 || run_.job.training.global_batch / samples % c.stages != 0) return 0;
  const auto* d = framework_default("vpp");
  if (!d) return 0;
  return d->value == "blocks" ? run_.job.model.blocks() / c.stages : parse_count(d->value);
}

void Mapper::map_schedule() {
  Schedule& c = run_.schedule;
  if (c.stages == 1) return;  // one stage is written as 1F1B
  const std::int64_t chunks = chunks_per_stage();
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  std::string name = r_.schedule;
  if (name.empty() && chunks <= 1) {
    const auto* d = framework_default("schedule");
    name = d ? d->value : "1f1b";
    if (!d) used("schedule", name, "1F1B, the default of Megatron-LM, DeepSpeed and torchtitan pipelines");
  }
  if (!name.empty()) {
    const auto known = read_schedule_words(name);
    if (!known) return skip("schedule unknown", name);
    kind = *known;
  }
  if (kind == ScheduleKind::one_f_one_b && chunks > 1) kind = ScheduleKind::interleaved;  // "1f1b" names the family
  if (kind == ScheduleKind::interleaved && chunks <= 1) return skip("vpp missing");
  // Two chunks make the V of ZB-V; the others have one.
  const std::int64_t own = kind == ScheduleKind::zb_v ? 2 : 1;
  if (kind != ScheduleKind::interleaved && chunks > 1 && chunks != own)
    return skip("vpp does not fit the schedule", cat(name, " with ", std::to_string(chunks), " chunks per stage"));
  c.kind = kind;
  c.virtual_stages = static_cast<std::int32_t>(kind == ScheduleKind::interleaved ? count(chunks, "vpp") : own);
}

void Mapper::map_zero() {
  Strategy& s = run_.strategy;
  if (s.dp == 0)
    s.dp = static_cast<std::int32_t>(
        std::max<std::int64_t>(1, run_.job.cluster.devices() / (std::int64_t{s.tp} * s.cp * run_.schedule.stages)));
  std::optional<std::int64_t> stage = r_.zero_stage;
  if (!stage && r_.fsdp.value_or(false)) stage = 3;
  if (!stage && arguments_) stage = arguments_->distributed_optimizer ? 1 : 0;
  if (!stage && s.data_ranks() == 1) stage = 0;
  if (!stage) {
    const auto* d = framework_default("zero_stage");
    if (!d) return skip("zero_stage missing");
    stage = parse_count(d->value);
  }
  const EngineFamily family = find_engine(run_.job.engine)->family;
  if (*stage == 3 && run_.schedule.stages > 1 && (family == EngineFamily::fsdp || family == EngineFamily::torchtitan)) {
    stage = 1;
    used("zero_stage", "1",
         "fully_shard in a pipeline keeps parameters gathered and reduces gradients after the last micro-batch "
         "(torchtitan parallelism.fsdp_reshard_after_forward default; torch.distributed.pipelining stage.py)");
  }
  if (*stage > 3) return skip("zero_stage unknown", std::to_string(*stage));
  s.zero = s.data_ranks() > 1 ? ZeroStage{static_cast<std::int32_t>(*stage)} : ZeroStage::none;
  s.shard = 0;
  const std::int64_t instances = arguments_ ? arguments_->optimizer_instances : 1;
  if (s.shards_optimizer() && instances > 1 && s.data_ranks() % instances == 0)
    s.shard = static_cast<std::int32_t>(s.data_ranks() / instances);
  if (s.shards_gradients() && !r_.shard && r_.gpu.per_node && r_.techniques.hsdp && s.data_ranks() % *r_.gpu.per_node == 0 &&
      *r_.gpu.per_node < s.data_ranks()) {
    s.shard = static_cast<std::int32_t>(*r_.gpu.per_node);
    used("shard", std::to_string(s.shard), "HSDP: sharded inside a node, replicated across nodes");
  }
  if (s.shards_optimizer() && r_.shard && *r_.shard > 1 && *r_.shard < s.data_ranks())
    s.shard = static_cast<std::int32_t>(*r_.shard);
}

void Mapper::recompute_share(double share) {
  const std::int32_t chunks = run_.schedule.chunks();
  const double blocks = static_cast<double>(run_.job.model.blocks()) / chunks;
  const auto again = static_cast<std::int32_t>(std::lround(share * blocks));
  if (again > 0) run_.strategy.recompute = {RecomputeKind::full, again};
  used("recomputed blocks", std::to_string(again), "share of the operators that are recomputed according to the record");
}

void Mapper::map_recompute() {
  std::string kind = base::lower(r_.recompute);
  const std::vector<std::string>& options = r_.techniques.options;
  if (kind.empty() && std::find(options.begin(), options.end(), "recompute-modules") != options.end()) kind = "selective";
  if (kind.empty()) {
    const auto* d = framework_default("recompute");
    if (!d) return skip("recompute missing");
    kind = d->value;
  }
  if (framework_ && std::find(framework_->unsupported_recompute.begin(), framework_->unsupported_recompute.end(), kind) !=
                        framework_->unsupported_recompute.end()) {
    if (!r_.recomputed_share) return skip("recompute outside the uniform space", framework_->unsupported_recompute_reason);
    run_.memory_comparable = false;
    return recompute_share(*r_.recomputed_share);
  }
  Recompute& recompute = run_.strategy.recompute;
  const auto is = [&](std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), kind) != words.end();
  };
  if (kind == "if needed") {
    run_.recompute_if_needed = base::lower(r_.status).empty() || base::lower(r_.status) == "ok";
    return;
  }
  if (is({"none", "false", "no", "off", "disabled", "0"})) return;
  if (kind.find("subset") != std::string::npos) {
    recompute.kind = RecomputeKind::full;
    run_.recompute_what_does_not_fit = true;
    used("recomputed blocks", "the number that memory requires", "the record names a subset of the blocks, not its size");
  } else if (const auto every = every_nth(kind)) {
    recompute.kind = RecomputeKind::full;
    recompute.layers = static_cast<std::int32_t>(std::max<std::int64_t>(1, run_.job.model.blocks() / *every));
  } else if (is({"full", "true", "yes", "on", "all", "block", "full_remat", "save_nothing", "save_out_proj"})) {
    recompute.kind = RecomputeKind::full;
    // All blocks are recomputed. Under the uniform method, --recompute-num-layers counts layers of a checkpointed
    // unit.
    recompute.layers = 0;
  } else if (const auto modules = named_modules(kind)) {
    recompute = {RecomputeKind::selective, 0, *modules};
  } else if (recomputes_attention_alone(kind) && attention_alone()) {
    recompute = {// the default of --recompute-modules is core_attn
                 RecomputeKind::selective,
                 0,
                 {RecomputeModule::core_attn}};
  } else if (recomputes_attention_alone(kind) || kind.rfind("minimal", 0) == 0 || kind.rfind("save_dot", 0) == 0 ||
             is({"op", "sac", "core_attn", "dots_saveable"})) {
    recompute.kind = RecomputeKind::selective;  // matrix products are kept, the operators between them are recomputed
  } else {
    skip("recompute outside the uniform space", r_.recompute);
  }
}

/// Returns the modules in "selective:layernorm,moe_act" or "selective (moe_act)".
std::optional<RecomputeModules> Mapper::named_modules(const std::string& kind) {
  constexpr std::string_view kSelective = "selective";
  if (kind.rfind(kSelective, 0) != 0) return std::nullopt;
  std::string names = kind.substr(kSelective.size());
  for (char& c : names)
    if (c == ':' || c == '(' || c == ')' || c == '+') c = ' ';
  return parse_recompute_modules(names);
}

/// Returns whether "selective" is Megatron's, which recomputes attention unless an option of the engine names
/// modules.
bool Mapper::attention_alone() const {
  const EngineFamily family = find_engine(run_.job.engine)->family;
  const std::vector<std::string>& options = r_.techniques.options;
  return (family == EngineFamily::megatron || family == EngineFamily::megatron_deepspeed) &&
         std::find(options.begin(), options.end(), "recompute-modules") == options.end();
}

std::optional<std::int64_t> Mapper::every_nth(const std::string& kind) {
  for (const std::string_view word : {"every ", "1/"}) {
    const std::size_t at = kind.find(word);
    if (at == std::string::npos) continue;
    const std::int64_t n = parse_count(kind.substr(at + word.size()));
    if (n >= 1 && n <= 1024) return n;
  }
  return std::nullopt;
}

void Mapper::map_overlap() {
  Strategy& s = run_.strategy;
  const EngineModel* engine = find_engine(run_.job.engine);
  if (!framework_) return;
  Overlap wanted = framework_->overlap;
  if (arguments_) {
    wanted.grad_reduce = arguments_->overlap_grad;
    wanted.param_gather = arguments_->overlap_param;
  }
  s.overlap.grad_reduce = wanted.grad_reduce && engine->runs.fused_bucket_overlap &&
                          replicates_weights(has_experts(run_.job.model), s) &&
                          (engine->runs.zero_grad_overlap || !s.shards_optimizer());
  s.overlap.param_gather = wanted.param_gather && engine->runs.overlap_param_gather && s.shards_optimizer();
  // Megatron overlaps messages only under interleaving.
  const bool any_schedule = engine->family == EngineFamily::generic || !engine->runs.chooses_overlap;
  s.overlap.p2p = wanted.p2p && engine->runs.overlap_p2p && run_.schedule.stages > 1 &&
                  (any_schedule || run_.schedule.kind == ScheduleKind::interleaved);
  s.overlap.tp = wanted.tp && engine->runs.overlap_tp && s.sp == SequenceParallel::megatron;
  std::string names;
  if (s.overlap.grad_reduce) names += "grad ";
  if (s.overlap.param_gather) names += "param ";
  if (s.overlap.p2p) names += "p2p ";
  if (s.overlap.tp) names += "tp ";
  if (names.empty()) names = "none ";
  names.pop_back();
  used("overlap", names, arguments_ ? "flags of the record" : framework_->overlap_source);
}

}  // namespace espalier::runs
