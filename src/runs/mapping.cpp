// SPDX-License-Identifier: Apache-2.0
#include "runs/mapping.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/document.h"
#include "base/format.h"
#include "job/configuration.h"
#include "plan/engine.h"
#include "plan/lowering_facts.h"
#include "plan/rules.h"
#include "runs/arguments.h"
#include "runs/model.h"
#include "runs/record_words.h"

namespace espalier::runs {
namespace {

using base::cat;

std::string lower(std::string_view s) {
  std::string out(s);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// Builds one run; the first reason to skip it wins.
class Mapper {
 public:
  Mapper(const RunRecord& record, const job::RunDefaults& defaults)
      : r_(record), all_(defaults), arguments_(megatron_arguments(record)) {}

  Mapping map() {
    check_status();
    choose_framework();
    if (!skip_) map_cluster();
    if (!skip_) map_model();
    if (!skip_) map_training();
    if (!skip_) map_degrees();
    if (!skip_) map_zero();
    if (!skip_) map_recompute();
    if (!skip_) map_overlap();
    if (!skip_) finish();
    if (skip_) return *skip_;
    return std::move(run_);
  }

 private:
  // ---- helpers -------------------------------------------------------------------------------------------------------------

  void skip(std::string reason, std::string detail = "") {
    if (!skip_) skip_ = Skip{std::move(reason), std::move(detail)};
  }
  void used(const char* field, std::string value, std::string source) {
    run_.defaults.push_back({field, std::move(value), std::move(source)});
  }

  /// The framework's default for `field`, noted; nullptr when there is none.
  const job::FrameworkDefault::Value* framework_default(const char* field) {
    if (!framework_) return nullptr;
    const auto* table = &framework_->defaults;
    for (const auto& recipe : framework_->recipes)
      if (recipe.defaults.contains(field) && job::mentions(r_.model.name, recipe.model)) {
        table = &recipe.defaults;
        break;
      }
    const auto it = table->find(field);
    if (it == table->end()) return nullptr;
    used(field, it->second.value, it->second.source);
    return &it->second;
  }

  static std::int64_t parse_count(const std::string& s) {
    std::int64_t value = 0;
    std::from_chars(s.data(), s.data() + s.size(), value);
    return value;
  }

  /// The record's count, or the framework's, or a skip.
  std::int64_t count(const std::optional<std::int64_t>& value, const char* field) {
    if (!value) {
      if (const auto* d = framework_default(field)) return parse_count(d->value);
      skip(cat(field, " missing"));
      return 1;
    }
    if (*value < 1 || *value > (1 << 20)) skip(cat(field, " out of range"), std::to_string(*value));
    return std::max<std::int64_t>(1, *value);
  }
  std::int32_t degree(const std::optional<std::int64_t>& value, const char* field) {
    return static_cast<std::int32_t>(count(value, field));
  }

  /// CP, EP: a record that does not name the technique does not use it.
  std::int32_t unused_degree(const std::optional<std::int64_t>& value, const char* field) {
    if (value) return degree(value, field);
    used(field, "1", "not named in the record: not used");
    return 1;
  }

  // ---- parts ---------------------------------------------------------------------------------------------------------------

  void check_status() {
    const std::string status = lower(r_.status);
    if (status.empty())
      used("status", "ok", "a record with a measurement and no status");
    else if (status != "ok" && status != "oom" && status != "crashed_or_oom")
      skip(cat("status ", status));
    if (!r_.irregular.empty()) skip("not uniform", cat(r_.irregular, " has several values"));
    if (arguments_ && !arguments_->unsupported.empty()) skip("outside the uniform space", arguments_->unsupported);
    if (r_.offloaded || says(cat(r_.notes, " ", r_.recompute), {"offload"}))
      skip("outside the uniform space", "activations or states are kept in host memory");
  }

  /// Heading and remarks of the source.
  [[nodiscard]] std::string remarks() const { return cat(r_.framework, " ", r_.table, " ", r_.notes); }

  [[nodiscard]] bool compiled() const { return r_.compiled.value_or(says(remarks(), {"torch.compile", "torch compile"})); }

  void choose_framework() {
    const std::string details = cat(r_.framework, " ", r_.precision, compiled() ? " torch.compile" : "");
    for (const job::FrameworkDefault& f : all_.frameworks) {
      if (!job::mentions(r_.framework, f.match) || (!f.gpu.empty() && !job::mentions(r_.gpu.type, f.gpu))) continue;
      if (!f.with.empty() && !says(details, f.with)) continue;
      framework_ = &f;
      break;
    }
    run_.job.engine = framework_ ? framework_->engine : "generic";
    choose_memory();
    if (!framework_) {
      used("engine", "generic", r_.framework.empty() ? "no framework named" : cat("no engine modelled for ", r_.framework));
      return;
    }
    if (arguments_ && arguments_->unfused_attention && run_.job.engine == "megatron-core" && r_.cp.value_or(1) == 1) {
      run_.job.engine = "megatron-core-unfused";
      used("engine", run_.job.engine, "--attention-backend unfused or local keeps the scores");
    }
    if (!arguments_) return;
    auto engine = std::make_shared<EngineModel>(*find_engine(run_.job.engine));
    apply_memory_flags(r_, *engine);
    run_.job.engine_model = std::move(engine);
    used("engine flags", run_.job.engine, "flags of the record: attention, gradients, padding of the vocabulary, workspaces");
  }

  /// Which rank's peak was measured, how and in what unit: the record's words, else the framework's habit.
  void choose_memory() {
    if (framework_) {
      run_.memory_rank = framework_->memory_rank;
      run_.memory_kind = framework_->memory_kind;
      run_.memory_unit_bytes = framework_->memory_unit_bytes;
    }
    if (!r_.measured.memory_rank.empty()) run_.memory_rank = lower(r_.measured.memory_rank);
    const std::string& words = r_.measured.memory_kind;
    if (const auto kind = read_memory_words(words.empty() ? said_of_memory(r_.notes) : words))
      run_.memory_kind = to_string(*kind);
    else if (!words.empty())
      unknown_memory("memory kind", words);
    if (run_.memory_rank != "fullest" && run_.memory_rank != "first" && run_.memory_rank != "last")
      unknown_memory("memory rank", run_.memory_rank);
    if (r_.measured.memory_unit == "GiB") run_.memory_unit_bytes = 1073741824.0;
    if (r_.measured.memory_unit == "GB") run_.memory_unit_bytes = 1e9;
  }

  /// A peak that may be anything is not compared; the step time is.
  void unknown_memory(const char* what, const std::string& words) {
    run_.peak_comparable = false;
    used("peak memory", "not compared", cat(what, " not known: ", words));
  }

  /// The clause of the remarks that speaks of memory.
  static std::string said_of_memory(const std::string& notes) {
    std::string out;
    for (std::size_t at = 0; at < notes.size();) {
      const std::size_t end = std::min(notes.find_first_of(";.", at), notes.size());
      const std::string clause = notes.substr(at, end - at);
      if (job::mentions(clause, {"memory", "peak_mem", "nvidia-smi"})) out += clause;
      at = end + 1;
    }
    return out;
  }

  const job::DeviceDefault* choose_device() {
    const bool pcie = job::mentions(cat(r_.gpu.type, " ", r_.intra), {"pcie"});
    const auto named = [this](const std::string& word) { return names_device(r_.gpu.type, word); };
    for (const job::DeviceDefault& d : all_.devices) {
      if (std::none_of(d.match.begin(), d.match.end(), named) || (d.pcie && !pcie)) continue;
      if (r_.gpu.mem_gb ? d.memory_gb == 0 || std::fabs(*r_.gpu.mem_gb - d.memory_gb) < 1 : d.silent) return &d;
    }
    return nullptr;
  }

  /// Devices of a node: the record's, or of the device's usual node.
  std::int64_t devices_per_node(const job::DeviceDefault& device) {
    if (r_.gpu.per_node) return count(r_.gpu.per_node, "gpu.per_node");
    auto usual = load_cluster(cat("{\"nodes\": 1, \"device\": \"", device.device, "\"}"), "device");
    const std::int64_t n = usual ? usual->groups.front().devices_per_node : 8;
    used("gpu.per_node", std::to_string(n), cat("usual node of ", device.device));
    return n;
  }

  void map_cluster() {
    const job::DeviceDefault* device = choose_device();
    if (!device) {
      const std::string size = r_.gpu.mem_gb ? cat(" of ", base::fixed(*r_.gpu.mem_gb, 0), " GB") : "";
      return skip(r_.gpu.type.empty() ? "gpu.type missing" : "device not in the catalogue", cat(r_.gpu.type, size));
    }
    used("device", device->device, device->source);
    run_.memory_known = (r_.gpu.mem_gb.has_value() || device->memory_gb == 0) && !device->other_memory;
    const std::int64_t devices = device_count();
    const std::int64_t usual = devices_per_node(*device);
    if (skip_) return;
    const std::int64_t per_node = std::min(usual, devices);
    if (devices % per_node != 0)
      return skip("gpu.count is no multiple of gpu.per_node",
                  cat(std::to_string(devices), " on nodes of ", std::to_string(per_node)));
    base::JsonWriter w;
    w.compact_next().begin_object();
    w.key("nodes").value(devices / per_node);
    w.key("devices_per_node").value(per_node);
    w.key("device").value(device->device);
    if (!device->intra_bandwidth.empty() && per_node > 1)
      w.key("intra_node").compact_next().begin_object().key("bandwidth").value(device->intra_bandwidth).end_object();
    if (devices > per_node) write_network(w, per_node);
    if (skip_) return;
    w.end_object();
    auto cluster = load_cluster(w.text(), r_.id);
    if (!cluster) return skip("cluster cannot be built", cluster.error().message());
    run_.job.cluster = std::move(cluster).value();
    run_.job.cluster_source = w.text();
    check_links();
  }

  /// A card on PCIe is another device than the module of that name on NVLink, where the catalogue has the module alone.
  void check_links() {
    const std::string words = cat(r_.gpu.type, " ", r_.intra);
    const std::vector<FabricLevel>& intra = run_.job.cluster.groups.front().intra;
    const auto nvlink = [](const FabricLevel& l) {
      return l.kind == FabricKind::nvswitch || l.kind == FabricKind::nvlink_mesh || l.kind == FabricKind::nvl72;
    };
    if (job::mentions(words, {"pcie"}) && !job::mentions(words, {"nvlink", "nvswitch", "sxm", "nvl72"}) &&
        std::any_of(intra.begin(), intra.end(), nvlink))
      skip("device not in the catalogue", cat(r_.gpu.type, " on PCIe"));
  }

  void write_network(base::JsonWriter& w, std::int64_t per_node) {
    const NetworkReading words = read_network_words(r_.inter, per_node);
    if (!words.unknown.empty()) return skip("interconnect.inter unknown", words.unknown);
    if (!words.network) {
      used("interconnect.inter", "usual network", "usual node of the device (data/devices.yaml)");
      return;
    }
    w.key("inter_node").compact_next().begin_object();
    w.key("bandwidth").value(cat(base::fixed(words.network->gbits, 3), "Gb/s"));
    if (words.network->nics) w.key("nics_per_node").value(*words.network->nics);
    w.end_object();
    if (!words.network->nics) used("interconnect.inter", "NICs of the usual node", "the record names the rate of one port");
  }

  std::int64_t device_count() {
    if (r_.gpu.count) return count(r_.gpu.count, "gpu.count");
    if (!r_.dp && arguments_ && !arguments_->distributed_optimizer && r_.zero_stage.value_or(0) == 0) {
      // Without sharding a rank's memory does not depend on how many replicas there are; its step time does.
      const std::int64_t model = r_.tp.value_or(1) * r_.pp.value_or(1) * r_.cp.value_or(1);
      const std::int64_t n = model >= 1 && model < 8 && 8 % model == 0 ? 8 : model;
      if (n < 1 || n > (1 << 20)) skip("gpu.count missing and degrees out of range");
      used("gpu.count", std::to_string(n), "for memory alone: one node, or tp · pp · cp; nothing is sharded over replicas");
      run_.time_known = false;
      return std::max<std::int64_t>(1, n);
    }
    if (!r_.dp) {
      skip("gpu.count and dp missing");
      return 1;
    }
    const std::int64_t n = r_.tp.value_or(1) * r_.pp.value_or(1) * r_.dp.value_or(1) * r_.cp.value_or(1);
    if (n < 1 || n > (1 << 20)) skip("gpu.count missing and degrees out of range");
    used("gpu.count", std::to_string(n), "tp · pp · dp · cp of the record");
    return std::max<std::int64_t>(1, n);
  }

  void map_model() {
    if (!r_.model.config.empty()) return map_config();
    const job::ArchitectureDefault* architecture = architecture_of(r_, all_);
    if (!architecture) return map_sizes();
    if (!architecture->unsupported.empty()) return skip("architecture not supported", architecture->unsupported);
    if (!architecture->config.empty()) return load_published(*architecture);
    DecoderShape s = architecture->shape;
    if (arguments_) {
      const bool encoder = s.encoder_only;
      s = arguments_->flags;
      s.encoder_only = encoder;
      used("architecture flags", "as the command line", "Megatron-LM megatron/training/arguments.py, flags of the record");
    } else {
      used("architecture", architecture->match.front(), architecture->source);
    }
    fill_sizes(s);
    if (skip_) return;
    build_model(s);
  }

  /// A model whose dimensions do not describe it: its published configuration, if the record does not contradict it.
  void load_published(const job::ArchitectureDefault& architecture) {
    take_model(load_model(architecture.config, r_.model.name), "model.layers differ from the published model");
    used("architecture", architecture.match.front(), architecture.source);
  }

  /// `model: {config: FILE}`.
  void map_config() {
    auto text = base::read_file(r_.model.config);
    if (!text) return skip("model.config cannot be read", text.error().message());
    take_model(load_model(*text, r_.model.config), "model.layers differ from model.config");
    used("architecture", r_.model.config, "model.config of the record");
  }

  void take_model(Result<Model> model, const char* contradiction) {
    if (!model) return skip("model cannot be built", model.error().message());
    if (r_.model.layers && *r_.model.layers != model->blocks()) return skip(contradiction, std::to_string(*r_.model.layers));
    run_.job.model = std::move(model).value();
  }

  /// A name that says nothing, or none: the sizes decide between the two kinds of decoders that are trained.
  void map_sizes() {
    const bool sizes = r_.model.layers && r_.model.hidden && r_.model.heads;
    if (!sizes) return skip("architecture unknown", r_.model.name.empty() ? "no model.name" : r_.model.name);
    if (arguments_) {
      DecoderShape s = arguments_->flags;
      used("architecture flags", "as the command line", "Megatron-LM megatron/training/arguments.py, flags of the record");
      fill_sizes(s);
      return skip_ ? void() : build_model(s);
    }
    const SizesChoice choice = architecture_of_sizes(r_);
    used("architecture", choice.name, choice.source);
    DecoderShape s = choice.shape;
    fill_sizes(s);
    if (!skip_) build_model(s);
  }

  void fill_sizes(DecoderShape& s) {
    s.layers = count(r_.model.layers, "model.layers");
    s.hidden = count(r_.model.hidden, "model.hidden");
    s.heads = count(r_.model.heads, "model.heads");
    s.ffn = r_.model.ffn ? count(r_.model.ffn, "model.ffn") : 4 * s.hidden;
    if (!r_.model.ffn) {
      if (s.gated) skip("model.ffn missing");
      used("model.ffn", std::to_string(s.ffn), "4 · hidden (Vaswani et al. 2017)");
    }
    s.kv_heads = r_.model.kv_heads ? count(r_.model.kv_heads, "model.kv_heads") : s.heads;
    if (!r_.model.kv_heads) used("model.kv_heads", std::to_string(s.heads), "not named in the record: every head has its own");
    if (r_.model.head_dim) s.head_dim = count(r_.model.head_dim, "model.head_dim");
    std::optional<std::int64_t> vocabulary = r_.model.vocab;
    if (!vocabulary && arguments_) vocabulary = arguments_->vocabulary;
    s.vocabulary = count(vocabulary, "vocab");
    if (r_.model.experts && *r_.model.experts > 1) {
      s.experts = degree(r_.model.experts, "model.experts");
      s.top_k = degree(r_.model.topk, "model.topk");
    }
    const std::int64_t sequence = std::max<std::int64_t>(1, r_.seq.value_or(1));
    if (s.learned_positions) s.max_positions = std::max(s.max_positions, sequence);
  }

  /// With a stated parameter count, tied or separate embeddings are what comes closer to it.
  void build_model(DecoderShape s) {
    auto model = make_decoder(s, r_.model.name);
    if (!model) return skip("model cannot be built", model.error().message());
    if (r_.model.params && *r_.model.params > 0 && !arguments_) {
      DecoderShape other = s;
      other.tied = !s.tied;
      auto alternative = make_decoder(other, r_.model.name);
      const auto miss = [&](const Model& m) { return std::fabs(static_cast<double>(parameter_count(m)) - *r_.model.params); };
      if (alternative && miss(*alternative) < miss(*model)) {
        model = std::move(alternative);
        used("tied embeddings", other.tied ? "yes" : "no", "closer to the record's model.params");
      }
    }
    run_.job.model = std::move(model).value();
  }

  void map_training() {
    Training& t = run_.job.training;
    t.sequence.main = count(r_.seq, "seq");
    if (framework_ && t.sequence.main == framework_->binned_from) {
      t.sequence.main = framework_->binned_to;
      used("seq", std::to_string(framework_->binned_to), framework_->binned_source);
    }
    t.global_batch = count(r_.global_batch, "global_batch");
    if (says(remarks(), {"lora"})) {
      t.optimizer = "lora";
      used("trained weights", "adapters", "LoRA in the record's table, notes or framework: Hu et al. 2021 (arXiv 2106.09685)");
    }
    std::string precision = lower(r_.precision);
    if (precision.empty()) {
      const auto* d = framework_default("precision");
      if (!d) return skip("precision missing");
      precision = d->value;
    }
    const PrecisionReading words = read_precision_words(precision);
    if (!words.unknown.empty()) return skip("precision unknown", words.unknown);
    t.precision = *words.precision;
    if (run_.job.cluster.groups.front().device.peak_of(t.precision).count() <= 0) {
      skip("precision not supported by the device",
           cat(to_string(t.precision), " on ", run_.job.cluster.groups.front().device.name));
    }
  }

  void map_degrees() {
    Strategy& s = run_.strategy;
    Schedule& c = run_.schedule;
    s.tp = degree(r_.tp, "tp");
    c.stages = degree(r_.pp, "pp");
    s.cp = unused_degree(r_.cp, "cp");
    c.micro_batch = degree(r_.microbatch, "microbatch");
    c.microbatches = 0;
    s.dp = r_.dp ? degree(r_.dp, "dp") : 0;
    if (!r_.dp) used("dp", "what is left of the devices", "gpu.count / (tp · pp · cp)");
    map_sequence_parallel();
    map_experts();
    map_schedule();
  }

  void map_sequence_parallel() {
    Strategy& s = run_.strategy;
    if (s.tp == 1) return;
    std::string kind = lower(r_.sp_kind);
    if (kind.empty() && r_.sp) kind = *r_.sp ? "megatron" : "none";
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

  void map_experts() {
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
    }
  }

  /// A dispatcher that exists only between expert-parallel ranks says more than an ep of 1: the recipe's degree.
  std::int32_t expert_degree() {
    if (r_.ep.value_or(1) == 1 && says(r_.notes, {"deepep", "hybridep"})) {
      if (const auto* d = framework_default("ep"))
        return static_cast<std::int32_t>(std::min(parse_count(d->value), run_.job.cluster.devices()));
    }
    return unused_degree(r_.ep, "ep");
  }

  /// Chunks a stage: the record's, or the recipe's ("blocks": one block a chunk) where the micro-batches allow it.
  std::int64_t chunks_per_stage() {
    // "1f1b" names the family: where vpp is unsaid too, the recipe decides between plain and interleaved 1F1B
    if (r_.vpp || (!r_.schedule.empty() && lower(r_.schedule) != "1f1b")) return r_.vpp.value_or(0);
    const Schedule& c = run_.schedule;
    const std::int64_t samples = std::int64_t{c.micro_batch} * std::max<std::int64_t>(1, r_.dp.value_or(1));
    if (run_.job.model.blocks() % c.stages != 0 || run_.job.training.global_batch / samples % c.stages != 0) return 0;
    const auto* d = framework_default("vpp");
    if (!d) return 0;
    return d->value == "blocks" ? run_.job.model.blocks() / c.stages : parse_count(d->value);
  }

  void map_schedule() {
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
      return skip("vpp does not fit the schedule", cat(name, " with ", std::to_string(chunks), " chunks a stage"));
    c.kind = kind;
    c.virtual_stages = static_cast<std::int32_t>(kind == ScheduleKind::interleaved ? count(chunks, "vpp") : own);
  }

  void map_zero() {
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
           "fully_shard under a pipeline keeps parameters gathered and reduces gradients after the last micro-batch "
           "(torchtitan parallelism.fsdp_reshard_after_forward default; torch.distributed.pipelining stage.py)");
    }
    if (*stage > 3) return skip("zero_stage unknown", std::to_string(*stage));
    s.zero = s.data_ranks() > 1 ? static_cast<std::int32_t>(*stage) : 0;
    s.shard = 0;
    const std::int64_t instances = arguments_ ? arguments_->optimizer_instances : 1;
    if (s.zero > 0 && instances > 1 && s.data_ranks() % instances == 0)
      s.shard = static_cast<std::int32_t>(s.data_ranks() / instances);
    if (s.zero > 1 && !r_.shard && r_.gpu.per_node && says(cat(r_.framework, " ", r_.notes), {"hsdp"}) &&
        s.data_ranks() % *r_.gpu.per_node == 0 && *r_.gpu.per_node < s.data_ranks()) {
      s.shard = static_cast<std::int32_t>(*r_.gpu.per_node);
      used("shard", std::to_string(s.shard), "HSDP: sharded inside a node, replicated across nodes");
    }
    if (s.zero > 0 && r_.shard && *r_.shard > 1 && *r_.shard < s.data_ranks()) s.shard = static_cast<std::int32_t>(*r_.shard);
  }

  /// Recomputation chosen operator by operator: as many blocks of every chunk as the share of its operators comes to.
  void recompute_share(double share) {
    const std::int32_t chunks = run_.schedule.stages * run_.schedule.virtual_stages;
    const double blocks = static_cast<double>(run_.job.model.blocks()) / chunks;
    const auto again = static_cast<std::int32_t>(std::lround(share * blocks));
    if (again > 0) run_.strategy.recompute = {RecomputeKind::full, again};
    used("recomputed blocks", std::to_string(again), "share of the operators that the record says are computed again");
  }

  void map_recompute() {
    std::string kind = lower(r_.recompute);
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
      run_.recompute_if_needed = lower(r_.status).empty() || lower(r_.status) == "ok";
      return;
    }
    if (is({"none", "false", "no", "off", "disabled", "0"})) return;
    if (kind.find("subset") != std::string::npos) {
      recompute.kind = RecomputeKind::full;
      run_.recompute_what_does_not_fit = true;
      used("recomputed blocks", "as many as memory requires", "the record names a subset of the blocks, not its size");
    } else if (const auto every = every_nth(kind)) {
      recompute.kind = RecomputeKind::full;
      recompute.layers = static_cast<std::int32_t>(std::max<std::int64_t>(1, run_.job.model.blocks() / *every));
    } else if (is({"full", "true", "yes", "on", "all", "block", "full_remat", "save_nothing", "save_out_proj"})) {
      recompute.kind = RecomputeKind::full;
      recompute.layers = 0;  // all blocks; --recompute-num-layers counts layers of a checkpointed unit under the uniform method
    } else if (recomputes_attention_alone(kind) || kind.rfind("minimal", 0) == 0 || kind.rfind("save_dot", 0) == 0 ||
               is({"op", "sac", "core_attn", "dots_saveable"})) {
      recompute.kind = RecomputeKind::selective;  // matrix products are kept, what lies between them is computed again
    } else {
      skip("recompute outside the uniform space", r_.recompute);
    }
  }

  /// "every 2nd block", "1/2 of the blocks" -> 2.
  static std::optional<std::int64_t> every_nth(const std::string& kind) {
    for (const std::string_view word : {"every ", "1/"}) {
      const std::size_t at = kind.find(word);
      if (at == std::string::npos) continue;
      const std::int64_t n = parse_count(kind.substr(at + word.size()));
      if (n >= 1 && n <= 1024) return n;
    }
    return std::nullopt;
  }

  void map_overlap() {
    Strategy& s = run_.strategy;
    const EngineModel* engine = find_engine(run_.job.engine);
    if (!framework_) return;
    Overlap wanted = framework_->overlap;
    if (arguments_) {
      wanted.grad_reduce = arguments_->overlap_grad;
      wanted.param_gather = arguments_->overlap_param;
    }
    s.overlap.grad_reduce = wanted.grad_reduce && engine->fused_bucket_overlap &&
                            replicates_weights(has_experts(run_.job.model), s) && (engine->zero_grad_overlap || s.zero == 0);
    s.overlap.param_gather = wanted.param_gather && engine->overlap_param_gather && s.zero > 0;
    s.overlap.p2p =
        wanted.p2p && engine->overlap_p2p && run_.schedule.kind == ScheduleKind::interleaved && run_.schedule.stages > 1;
    s.overlap.tp = wanted.tp && engine->overlap_tp && s.sp == SequenceParallel::megatron;
    std::string names;
    if (s.overlap.grad_reduce) names += "grad ";
    if (s.overlap.param_gather) names += "param ";
    if (s.overlap.p2p) names += "p2p ";
    if (s.overlap.tp) names += "tp ";
    if (names.empty()) names = "none ";
    names.pop_back();
    used("overlap", names, arguments_ ? "flags of the record" : framework_->overlap_source);
  }

  void finish() {
    job::complete_configuration(run_.job, run_.strategy, run_.schedule);
    run_.job.model_source = cat("{\"record\": \"", content_name(), "\"}");
    run_.job.cluster.name = r_.gpu.type;
    const auto broken = violations(run_.job.model, run_.job.cluster, run_.job.training, run_.strategy, run_.schedule,
                                   find_engine(run_.job.engine)->split);
    if (!broken.empty()) skip(cat("rule ", broken.front().rule), job::joined_violations(broken));
  }

  /// The record's id, safe inside a JSON string.
  [[nodiscard]] std::string content_name() const {
    std::string out;
    for (char c : r_.id) {
      if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.') out += c;
    }
    return out;
  }

  const RunRecord& r_;
  const job::RunDefaults& all_;
  std::optional<MegatronArguments> arguments_;
  const job::FrameworkDefault* framework_ = nullptr;
  MappedRun run_;
  std::optional<Skip> skip_;
};

}  // namespace

Mapping map_run(const RunRecord& record, const job::RunDefaults& defaults) { return Mapper(record, defaults).map(); }

}  // namespace espalier::runs
