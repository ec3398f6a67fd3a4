// SPDX-License-Identifier: Apache-2.0
#include "exchange/megatron_import.h"

#include <algorithm>
#include <sstream>

#include "base/format.h"
#include "exchange/assertions.h"
#include "exchange/flag_lines.h"
#include "plan/engine.h"
#include "runlog/argument_block.h"

namespace espalier::exchange {
namespace {

constexpr const char* kMegatronArgs = "megatron-args";

// ---- the file -----------------------------------------------------------------------------------------------------

/// Returns the arguments with the launcher's numbers. A launcher's number proves only the cluster; under a condition
/// of the script it proves nothing.
std::vector<Setting> arguments_of(const FlagLines& lines) {
  std::vector<Setting> out;
  for (const Setting& setting : lines.flags) {
    const KeyRow* row = key_table(kMegatronArgs).find(setting.key);
    const bool launcher = row != nullptr && row->text.starts_with("launcher_");
    if (!launcher || setting.condition == 0) out.push_back(setting);
  }
  return out;
}

struct MegatronFile {
  std::vector<Setting> settings;
  std::vector<ImportedKey> variables;
  std::vector<ShellScript::Source> sources;
  /// Each sentence describes one setting that programs around Megatron-LM make by themselves.
  std::vector<std::string> programs;
};

/// Applies settings of a program where its user gives none.
void set_by_programs(MegatronFile& file) {
  const auto has = [&](const std::string& key) {
    return std::any_of(file.settings.begin(), file.settings.end(), [&](const Setting& s) {
      const KeyRow* row = key_table(kMegatronArgs).find(s.key);
      return (row == nullptr ? s.key : row->key) == key;
    });
  };
  for (const KeyTable::Program& program : key_table("programs").programs) {
    if (std::none_of(program.signs.begin(), program.signs.end(), has)) continue;
    std::string set;
    for (const auto& [key, value] : program.sets) {
      if (has(key) || (key == "bf16" && has("fp16"))) continue;
      file.settings.push_back({key, value});
      set += cat(set.empty() ? "" : ", ", key, " = ", value);
    }
    if (!set.empty()) file.programs.push_back(cat(program.name, " sets what the file leaves unset: ", set));
  }
}

Result<MegatronFile> read_megatron_file(const ConfigurationRequest& request) {
  const auto block = runlog::read_argument_block(request.text, request.name);
  if (!block) return block.error();
  MegatronFile file;
  if (!block->empty()) {
    for (const auto& [name, argument] : *block) file.settings.push_back({name, argument.value, argument.line});
    return file;
  }
  auto lines = read_flag_lines(request.text, request.name, shell_context(request));
  if (!lines) return lines.error();
  file.settings = arguments_of(*lines);
  file.variables = std::move(lines->variables);
  file.sources = std::move(lines->sources);
  set_by_programs(file);
  return file;
}

// ---- the plan -----------------------------------------------------------------------------------------------------

/// Splits "['p2p']", "[a, b]" or "a b" into words.
std::vector<std::string> words_without_brackets(std::string text) {
  for (char& c : text)
    if (c == '[' || c == ']' || c == '\'' || c == '"' || c == ',') c = ' ';
  std::istringstream stream(text);
  std::vector<std::string> out;
  for (std::string word; stream >> word;) out.push_back(word);
  return out;
}

/// Returns Megatron's name of a type that it printed as one of torch: "torch.bfloat16" is bf16, and "torch.uint8" holds
/// fp8.
std::string type_name(const std::string& printed) {
  const std::string name = printed.substr(printed.rfind('.') + 1);
  for (const auto& [torch, own] : std::initializer_list<std::pair<std::string_view, const char*>>{
           {"float32", "fp32"}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"uint8", "fp8"}})
    if (name == torch) return own;
  return name;
}

/// Returns the value that an option of an engine gives a flag; empty: it does not write the flag.
std::string value_of_flag(const EngineOption& option, std::string_view flag) {
  for (const std::string& written : option.flags)
    if (written.starts_with(flag)) return written.substr(flag.size());
  return "";
}

class MegatronReader {
 public:
  MegatronReader(const ConfigurationRequest& request, MegatronFile file)
      : request_(request), in_(request, std::move(file.settings), key_table(kMegatronArgs)), sources_(std::move(file.sources)) {
    for (ImportedKey& variable : file.variables) in_.list(std::move(variable));
    for (const std::string& program : file.programs) out_.notes.push_back(program);
  }

  Result<ImportedConfiguration> run() {
    out_.name = request_.name;
    out_.engine = "megatron-core";
    world();
    layers();
    degrees();
    experts();
    context();
    data();
    batch();
    stages();
    recomputation();
    precision();
    attention();
    options();
    MegatronModel model = megatron_model(in_, layers_);
    out_.model = std::move(model.config);
    out_.why_no_model = std::move(model.why_not);
    out_.sizes = std::move(model.sizes);
    const bool unread = in_.failed("num_layers") || in_.failed("hidden_size") || in_.failed("num_attention_heads");
    if (request_.model_state == ConfigurationRequest::ModelState::absent && out_.model.empty() && !unread)
      in_.lacks(out_.why_no_model, "a model", "--model config.json");
    sources();
    auto keys = in_.finish();
    if (!keys) return keys.error();
    out_.keys = std::move(*keys);
    return std::move(out_);
  }

 private:
  std::int64_t degree(std::string_view key, std::int64_t fallback, std::string_view meaning) {
    return in_.integer(key, 0, kMostDegree, fallback, meaning);
  }
  std::int32_t small(std::string_view key, std::string_view meaning) {
    return static_cast<std::int32_t>(in_.integer(key, 1, kMostDegree, 1, meaning));
  }

  /// Reads the number of layers, from the model file where the arguments have none.
  void layers() {
    if (in_.has("num_layers") || !request_.model_layers) {
      layers_ = degree("num_layers", 0, "layers");
      return;
    }
    layers_ = *request_.model_layers;
    in_.list({ImportedKey::Kind::read, "num_layers", std::to_string(layers_), cat("layers ", layers_, ", of --model"), 0});
  }
  /// Checks that the number of layers is known, since a share of them needs it.
  bool has_layers() {
    if (layers_ == 0) in_.lacks("no --num-layers", "the number of layers to divide into stages", "--model config.json");
    return layers_ > 0;
  }
  /// Lists sourced files, which may hold the missing flags.
  void sources() {
    for (const ShellScript::Source& source : sources_) {
      const std::string name = source.path.substr(source.path.rfind('/') + 1);
      if (!in_.ok())
        in_.lacks_file(cat(source.path, ", which line ", source.line, " sources"), cat("--with ", name));
      else
        out_.notes.push_back(cat("line ", source.line, " sources ", source.path, ", which is not read: --with ", name));
    }
  }

  void of_cluster(std::string_view key, std::int64_t count) {
    if (count > 0 && count != request_.devices && in_.ok())
      in_.fail(key, std::to_string(count), cat(request_.devices, " devices, those of the cluster"),
               "give the cluster on which it runs: --set cluster.nodes=N");
  }
  void world() {
    if (in_.has("world_size")) of_cluster("world_size", degree("world_size", 0, "devices"));
    const Setting* processes = in_.find("launcher_processes");
    const Setting* nodes = in_.find("launcher_nodes");
    const auto is_number = [](const Setting* s) {
      return s != nullptr && !s->value.empty() &&
             std::all_of(s->value.begin(), s->value.end(), [](char c) { return c >= '0' && c <= '9'; });
    };
    if (is_number(processes) && is_number(nodes))
      of_cluster("launcher_nodes", in_.number_of(*processes, 1, kMostDegree) * in_.number_of(*nodes, 1, kMostDegree));
  }

  void degrees() {
    Strategy& s = out_.strategy;
    s.tp = small("tensor_model_parallel_size", "tp");
    out_.schedule.stages = small("pipeline_model_parallel_size", "pp");
    s.cp = small("context_parallel_size", "cp");
    s.ep = small("expert_model_parallel_size", "ep");
    if (in_.flag("sequence_parallel", false, "sp megatron") && s.tp > 1) s.sp = SequenceParallel::megatron;
    if (in_.has("sequence_parallel") && s.tp == 1) idle("sequence_parallel", "--tensor-model-parallel-size is 1");
    const bool mapped = in_.flag("use_tp_pp_dp_mapping", false, "order tp-cp-pp-dp");
    if (mapped && out_.schedule.stages > 1) s.order = RankOrder::tp_cp_pp_dp;
    if (mapped && out_.schedule.stages == 1) idle("use_tp_pp_dp_mapping", "--pipeline-model-parallel-size is 1");
    s.overlap.tp = in_.flag("tp_comm_overlap", false, "overlap tp");
    s.dp = 0;
  }
  /// Lists a flag that the framework ignores here.
  void idle(std::string_view key, std::string_view why) { out_.notes.push_back(cat(in_.spelled(key), " has no effect: ", why)); }
  void experts() {
    out_.strategy.etp = 0;  // the tensor degree, where the model has experts
    const Setting* etp = in_.find("expert_tensor_parallel_size");
    if (etp == nullptr) return;
    out_.strategy.etp = static_cast<std::int32_t>(in_.number_of(*etp, 1, kMostDegree));
    in_.list({ImportedKey::Kind::read, etp->key, etp->value, cat("etp ", etp->value, ", where there are experts"), etp->line,
              etp->written});
  }
  void context() {
    const Setting* kinds = in_.find("cp_comm_type");
    if (out_.strategy.cp == 1 || kinds == nullptr) return;
    const std::vector<std::string> words = words_without_brackets(kinds->value);
    const auto all = [&](const char* word) {
      return !words.empty() && std::all_of(words.begin(), words.end(), [&](const std::string& w) { return w == word; });
    };
    if (all("a2a")) out_.strategy.cp_kind = ContextParallelKind::all_to_all;
    if (!all("a2a") && !all("p2p"))
      in_.fail("cp_comm_type", kinds->value, "p2p (a ring) or a2a, for all layers", "others cannot be priced here");
    in_.list({ImportedKey::Kind::read, kinds->key, kinds->value, cat("cp_kind ", to_string(out_.strategy.cp_kind)), kinds->line,
              kinds->written});
  }

  void data() {
    Strategy& s = out_.strategy;
    if (in_.flag("use_distributed_optimizer", false, "zero 1")) s.zero = ZeroStage::optimizer;
    const std::int64_t instances =
        in_.integer("num_distributed_optimizer_instances", 1, kMostDegree, 1, "groups that shard states");
    const std::int64_t inner = std::int64_t{s.tp} * out_.schedule.stages;
    const std::int64_t ranks = std::max<std::int64_t>(1, request_.devices / inner);  // dp · cp
    s.shard = 0;
    if (s.shards_optimizer() && instances > 1) s.shard = static_cast<std::int32_t>(std::max<std::int64_t>(1, ranks / instances));
    s.overlap.grad_reduce = in_.flag("overlap_grad_reduce", false, "overlap grad");
    s.overlap.param_gather = in_.flag("overlap_param_gather", false, "overlap param");
    offload();
    in_.pass_over("data_parallel_size", "follows from the others");
  }
  /// Reads the offloaded blocks. Transformer Engine offloads blocks from the first on, at most all but one.
  void offload() {
    const char* key = "cpu_offloading_num_layers";
    const std::int64_t blocks = in_.has(key) ? in_.integer(key, 0, kMostDegree, 0, "blocks whose activations are offloaded") : 0;
    if (blocks > 0 && blocks != layers_ - 1)
      in_.fail(key, std::to_string(blocks),
               cat("0 or ", std::max<std::int64_t>(0, layers_ - 1), ": host activations of only some blocks cannot be priced"));
    if (blocks > 0) out_.strategy.offload = Offload::activations;
    offload_of_optimizer();
  }
  void offload_of_optimizer() {
    if (!in_.flag("optimizer_cpu_offload", false, "offload of the optimizer")) {
      for (const char* key : {"optimizer_offload_fraction", "overlap_cpu_optimizer_d2h_h2d"})
        in_.pass_over(key, "without --optimizer-cpu-offload");
      return;
    }
    Offload& o = out_.strategy.offload;
    o = offloads_activations(o) ? Offload::optimizer_activations : Offload::optimizer;
    const double share = in_.real("optimizer_offload_fraction", 0, 1, 1, "share of the states on the host");
    if (share < 1)
      in_.fail("optimizer_offload_fraction", base::six_digits(share),
               "1: states that are only partly on the host cannot be priced");
    const char* overlap = "overlap_cpu_optimizer_d2h_h2d";
    if (!in_.flag(overlap, false, "copies during the update of the host"))
      in_.list({ImportedKey::Kind::not_modelled, overlap, "False", "copies are predicted during the update of the host", 0});
  }

  void batch() {
    const std::int64_t own = in_.integer("micro_batch_size", 0, kMostDegree, 0, "micro-batch");
    const std::int64_t micro = said_or(in_, "micro_batch_size", own, request_.micro_batch, "--micro-batch");
    const std::int64_t length = in_.integer("seq_length", 0, kMostSamples, 0, "sequence length");
    out_.sequence_length = said_or(in_, "seq_length", length, request_.sequence_length, "--sequence-length");
    const std::int64_t global =
        in_.integer("global_batch_size", 0, kMostSamples, 0, "global batch (0: one micro-batch per replica)");
    out_.global_batch = said_or(in_, "global_batch_size", global, request_.global_batch, "--global-batch");
    if (micro == 0) in_.lacks("no --micro-batch-size", "the samples per micro-batch", "--micro-batch N");
    if (out_.sequence_length == 0) in_.lacks("no --seq-length", "the tokens per sample", "--sequence-length N");
    out_.schedule.micro_batch = static_cast<std::int32_t>(std::max<std::int64_t>(1, micro));
    out_.schedule.microbatches = 0;
    const std::int64_t replicas = request_.devices / capped_product({out_.strategy.tp, out_.strategy.cp, out_.schedule.stages});
    if (out_.global_batch == 0) out_.global_batch = micro * std::max<std::int64_t>(1, replicas);
  }

  // ---- stages -----------------------------------------------------------------------------------------------------

  void stages() {
    const std::int32_t pp = out_.schedule.stages;
    out_.schedule.virtual_stages = static_cast<std::int32_t>(virtual_stages(pp));
    const bool interleaved = out_.schedule.virtual_stages > 1;
    if (interleaved) out_.schedule.kind = ScheduleKind::interleaved;
    const bool p2p = in_.flag("overlap_p2p_comm", interleaved && pp > 1, "overlap p2p");
    out_.strategy.overlap.p2p = p2p && interleaved && pp > 1;
    group_of_microbatches(pp);
    uneven(pp);
  }

  /// Reads how many micro-batches in turn one chunk takes. Megatron-LM takes pp of them.
  void group_of_microbatches(std::int32_t pp) {
    const Setting* group = in_.find("microbatch_group_size_per_vp_stage");
    if (group == nullptr) return;
    const std::int64_t size = in_.number_of(*group, 1, kMostDegree);
    if (out_.schedule.virtual_stages > 1 && size != pp)
      return in_.fail(group->key, group->value, cat(pp, ", the stages: another order of the micro-batches cannot be priced"),
                      "omit it: the number of stages is its default");
    in_.list(
        {ImportedKey::Kind::read, group->key, group->value, "micro-batches in turn, one per stage", group->line, group->written});
  }

  std::int64_t virtual_stages(std::int32_t pp) {
    const std::int64_t chunks = in_.integer("num_virtual_stages_per_pipeline_rank", 0, kMostDegree, 0, "vpp");
    const std::int64_t layers = in_.integer("num_layers_per_virtual_pipeline_stage", 0, kMostDegree, 0, "layers per chunk");
    const std::int64_t printed = in_.integer("virtual_pipeline_model_parallel_size", 0, kMostDegree, 0, "vpp");
    if (chunks > 0) return chunks;
    if (printed > 0) return printed;
    if (layers == 0 || !has_layers()) return 1;
    if (layers_ % (layers * pp) != 0)
      in_.fail("num_layers_per_virtual_pipeline_stage", std::to_string(layers),
               cat("a divisor of the ", layers_, " layers over ", pp, " stages"));
    return std::max<std::int64_t>(1, layers_ / (layers * pp));
  }

  void uneven(std::int32_t pp) {
    const std::string layout = in_.text("pipeline_model_parallel_layout", "", "layout of the stages");
    const std::int64_t first =
        in_.integer("decoder_first_pipeline_num_layers", 0, kMostDegree, 0, "blocks of the first stage (0: like the others)");
    const std::int64_t last =
        in_.integer("decoder_last_pipeline_num_layers", 0, kMostDegree, 0, "blocks of the last stage (0: like the others)");
    const bool embedding = in_.flag("account_for_embedding_in_pipeline_split", false, "the embedding counts as a layer");
    const bool loss = in_.flag("account_for_loss_in_pipeline_split", false, "the loss counts as a layer");
    if (!layout.empty())
      by_layout(layout, pp);
    else if (first > 0 || last > 0)
      by_ends(pp, first, last);
    else if ((embedding || loss) && pp > 1)
      by_weights(pp, embedding ? 1 : 0, loss ? 1 : 0);
  }

  void by_layout(const std::string& text, std::int32_t pp) {
    const MegatronLayout layout = read_megatron_layout(text);
    const auto chunks = static_cast<std::int64_t>(layout.blocks.size());
    if (!layout.fault.empty())
      return in_.fail("pipeline_model_parallel_layout", text, cat("a layout that can be planned: it has ", layout.fault));
    if (chunks % pp != 0) return in_.fail("pipeline_model_parallel_layout", cat(chunks, " stages"), cat("a multiple of pp ", pp));
    out_.schedule.virtual_stages = static_cast<std::int32_t>(chunks / pp);
    if (chunks > pp) {
      out_.schedule.kind = ScheduleKind::interleaved;
      out_.strategy.overlap.p2p = pp > 1;
    }
    out_.blocks = layout.blocks;
  }

  /// Splits the layers between the ends evenly over the inner stages.
  void by_ends(std::int32_t pp, std::int64_t first, std::int64_t last) {
    if (!has_layers()) return;
    const std::int64_t middle = pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0), rest = layers_ - first - last;
    if (out_.schedule.virtual_stages > 1)
      return in_.fail("decoder_first_pipeline_num_layers", cat(first, ", last ", last),
                      "stages without virtual stages, or a layout");
    if (rest < 0 || (middle == 0 ? rest != 0 : rest % middle != 0))
      return in_.fail(
          "decoder_first_pipeline_num_layers", cat(first, ", last ", last),
          middle == 0 ? cat("counts that add up to the ", layers_, " layers: there is no stage between the first and the last")
                      : cat("counts that leave a multiple of ", middle, " of the ", layers_, " layers"));
    for (std::int32_t i = 0; i < pp; ++i) {
      const std::int64_t own = i == 0 && first > 0       ? first
                               : i + 1 == pp && last > 0 ? last
                                                         : rest / std::max<std::int64_t>(1, middle);
      out_.blocks.push_back(static_cast<std::int32_t>(own));
    }
  }

  /// Counts embedding and loss as a layer each.
  void by_weights(std::int32_t pp, std::int64_t embedding, std::int64_t loss) {
    if (!has_layers()) return;
    const std::int64_t all = layers_ + embedding + loss, chunks = std::int64_t{pp} * out_.schedule.virtual_stages;
    if (all % chunks != 0 || all / chunks < 1)
      return in_.fail("account_for_embedding_in_pipeline_split", cat(layers_, " layers"),
                      cat(all, " divisible by ", chunks, " chunks"));
    for (std::int64_t i = 0; i < chunks; ++i)
      out_.blocks.push_back(static_cast<std::int32_t>(all / chunks - (i == 0 ? embedding : 0) - (i + 1 == chunks ? loss : 0)));
  }

  // ---- recomputation, precision, options --------------------------------------------------------------------------

  void recomputation() {
    Recompute& r = out_.strategy.recompute;
    const std::string own = in_.word("recompute_granularity", {"full", "selective", "none"}, "none", "recompute");
    const std::string method = in_.word("recompute_method", {"uniform", "block", "none"}, "none", "recompute method");
    const std::int64_t layers = in_.integer("recompute_num_layers", 0, kMostDegree, 0, "recompute layers");
    const std::string modules = in_.text("recompute_modules", "core_attn", "recomputed modules");
    if (own == "selective") {
      const std::string names = base::joined(words_without_brackets(modules));
      const auto named = parse_recompute_modules(names);
      r.kind = RecomputeKind::selective;
      if (named)
        r.modules = *named;
      else
        in_.fail("recompute_modules", modules, cat("some of ", listed(find_engine("megatron-core")->runs.recompute_modules)));
    }
    if (own != "full") return;
    r.kind = RecomputeKind::full;
    r.layers = method == "block" ? static_cast<std::int32_t>(layers) : 0;  // 0: all blocks of a chunk
    if (method == "block" && layers == 0) r = {};
  }

  void precision() {
    const bool bf16 = in_.flag("bf16", false, "precision bf16"), fp16 = in_.flag("fp16", false, "precision fp16");
    const std::string fp8 = in_.text("fp8", "None", "fp8 products"), fp4 = in_.text("fp4", "None", "fp4 products");
    if (!switched_off(fp4)) {
      in_.word("fp4_recipe", {"nvfp4"}, "nvfp4", "fp4 recipe");
      out_.precision = Precision::nvfp4;
    } else if (!switched_off(fp8)) {
      const std::string recipe = in_.word("fp8_recipe", {"delayed", "tensorwise", "blockwise", "mxfp8"}, "delayed", "fp8 recipe");
      out_.precision = recipe == "mxfp8" ? Precision::mxfp8 : Precision::fp8;
    } else {
      out_.precision = bf16 ? Precision::bf16 : fp16 ? Precision::fp16 : Precision::fp32;
    }
    if (out_.precision == Precision::fp32)
      out_.notes.emplace_back(
          "no --bf16 and no --fp16: Megatron-LM trains in fp32, so fp32 is predicted; --set training.precision=bf16 predicts "
          "bf16");
    const bool sgd = in_.word("optimizer", {"adam", "sgd"}, "adam", "optimizer") == "sgd";
    out_.optimizer = sgd ? Optimizer::sgd : Optimizer::adam;
  }

  /// Reads the attention backend, by whether it keeps scores. Megatron prints it as "AttnBackend.unfused".
  void attention() {
    std::string backend = in_.text("attention_backend", "auto", "attention");
    backend = base::lower(backend.substr(backend.rfind('.') + 1));
    const std::vector<std::string> known = {"auto", "flash", "fused", "unfused", "local"};
    if (std::find(known.begin(), known.end(), backend) == known.end())
      in_.fail("attention_backend", backend, cat("one of ", base::joined(known)));
    if (backend == "unfused" || backend == "local") out_.engine = "megatron-core-unfused";
  }

  void option(std::string_view name) { options_.emplace_back(name); }
  [[nodiscard]] bool chosen(const std::string& option) const {
    return std::find(options_.begin(), options_.end(), option) != options_.end();
  }
  void options() {
    const bool experts = out_.strategy.ep > 1;
    const std::string dispatcher = in_.word("moe_token_dispatcher_type", {"allgather", "alltoall", "flex", "alltoall_seq"},
                                            experts ? "allgather" : "alltoall", "dispatcher of tokens");
    const bool deep = in_.flag("moe_enable_deepep", false, "DeepEP");
    if (dispatcher == "flex" || deep) option("flex-dispatcher");
    if (dispatcher == "allgather" && experts)
      in_.fail("moe_token_dispatcher_type", "allgather", "alltoall or flex: all-gathers of tokens cannot be priced here");
    graphs();
    moments();
    flagged_options();
    for (const EngineOption& known : find_engine("megatron-core")->options)
      if (chosen(known.name)) out_.engine += cat("+", known.name);
  }
  /// Switches on each option whose flags the file has (data/engines.yaml). Flags that several options share were read
  /// before.
  void flagged_options() {
    for (const EngineOption& candidate : find_engine("megatron-core")->options) {
      if (candidate.flags.empty() || chosen(candidate.name)) continue;
      if (in_.flags(candidate.flags, cat("option ", candidate.name))) option(candidate.name);
    }
  }
  /// Adam's moments have the types that the flags of an option write (data/engines.yaml).
  void moments() {
    const bool aware = in_.flag("use_precision_aware_optimizer", false, "types of optimizer states are chosen");
    const std::string first = type_name(in_.text("exp_avg_dtype", "fp32", "first moments")),
                      second = type_name(in_.text("exp_avg_sq_dtype", "fp32", "second moments"));
    if (!aware || (first == "fp32" && second == "fp32")) return;
    std::string known = "fp32";
    for (const EngineOption& candidate : find_engine("megatron-core")->options) {
      const std::string of_first = value_of_flag(candidate, "--exp-avg-dtype "),
                        of_second = value_of_flag(candidate, "--exp-avg-sq-dtype ");
      if (of_first.empty()) continue;
      if (of_first == first && of_second == second) return option(candidate.name);
      known += cat(" or ", of_first);
    }
    in_.fail("exp_avg_dtype", cat(first, " and ", second), cat(known, " for both moments"));
  }
  void graphs() {
    const std::string implementation =
        in_.word("cuda_graph_impl", {"none", "local", "transformer_engine", "full_iteration"}, "none", "CUDA graphs");
    const std::string scope = in_.text("cuda_graph_scope", "full", "contents of CUDA graphs");
    if (implementation == "none") return;
    if (implementation == "full_iteration" || scope.find("full_iteration") != std::string::npos) return option("cuda-graphs");
    if (implementation == "transformer_engine" && scope.find("moe_router") != std::string::npos) return option("moe-graphs");
    in_.fail("cuda_graph_impl", cat(implementation, ", scope ", scope),
             "full_iteration, or transformer_engine with the router in its scope", "graphs of other parts cannot be priced here");
  }

  const ConfigurationRequest& request_;
  SettingReader in_;
  std::vector<ShellScript::Source> sources_;
  ImportedConfiguration out_;
  std::vector<std::string> options_;  ///< engine options that the flags switch on
  std::int64_t layers_ = 0;
};

Result<ImportedConfiguration> read_megatron(const ConfigurationRequest& request) {
  auto file = read_megatron_file(request);
  if (!file) return file.error();
  const Status broken = broken_assertions(assertion_table(kMegatronArgs), request, file->settings);
  return with_assertions(MegatronReader(request, std::move(*file)).run(), broken);
}

}  // namespace

ConfigurationFormat megatron_arguments() {
  return {kMegatronArgs, "Megatron-LM: the arguments it prints (also inside a log), a list of flags, or a launch script",
          read_megatron};
}

}  // namespace espalier::exchange
