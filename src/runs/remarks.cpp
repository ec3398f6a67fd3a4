// SPDX-License-Identifier: Apache-2.0
#include "runs/remarks.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "job/framework_defaults.h"
#include "plan/engine.h"
#include "runs/record_words.h"

namespace espalier::runs {
namespace {

struct Technique {
  const char* name;
  bool RunTechniques::*used;
};
constexpr std::array<Technique, 6> kTechniques{{{"lora", &RunTechniques::lora},
                                                {"compile", &RunTechniques::compile},
                                                {"hsdp", &RunTechniques::hsdp},
                                                {"deepep", &RunTechniques::deepep},
                                                {"offload", &RunTechniques::offload},
                                                {"packed", &RunTechniques::packed}}};

std::optional<bool> flag(const Node& extra, const char* key) {
  const Node* node = extra.find(key);
  return node && node->kind == NodeKind::boolean ? std::optional(node->boolean) : std::nullopt;
}

/// Returns "" when there is no text of that name.
std::string text(const Node& extra, const char* key) {
  const Node* node = extra.find(key);
  return node && node->kind == NodeKind::string ? node->text : "";
}

/// Returns whether a list of words holds one.
bool lists(const Node& extra, const char* key, std::string_view word) {
  const Node* node = extra.find(key);
  if (node == nullptr || node->kind != NodeKind::sequence) return false;
  return std::any_of(node->items.begin(), node->items.end(), [&](const Node& item) { return item.text == word; });
}

std::optional<std::int64_t> positive(const Node& extra, const char* key) {
  const Node* node = extra.find(key);
  return node && node->kind == NodeKind::integer && node->integer > 0 ? std::optional(node->integer) : std::nullopt;
}

bool offloads(const Node& extra) {
  const Node* recipe = extra.find("recipe");
  return flag(extra, "act_cpu_offload").value_or(false) ||
         (recipe && recipe->kind == NodeKind::mapping && positive(*recipe, "cpu_offloading_num_layers"));
}

bool is_engine_option(const std::string& name) {
  const auto& engines = engine_catalogue();
  return std::any_of(engines.begin(), engines.end(), [&](const EngineModel& engine) {
    return std::any_of(engine.options.begin(), engine.options.end(), [&](const EngineOption& o) { return o.name == name; });
  });
}

/// Returns the switches of a Megatron-Bridge recipe under the names of engine options.
std::vector<std::string> recipe_options(const Node& recipe) {
  std::vector<std::string> out;
  const std::string dispatcher = text(recipe, "moe_flex_dispatcher_backend"), graphs = text(recipe, "cuda_graph_impl");
  if (dispatcher == "deepep" || dispatcher == "hybridep") out.emplace_back("flex-dispatcher");
  if (flag(recipe, "moe_a2a_overlap").value_or(false)) out.emplace_back("overlap-experts");
  if (graphs == "transformer_engine" && lists(recipe, "cuda_graph_scope", "attn") &&
      lists(recipe, "cuda_graph_scope", "moe_router"))
    out.emplace_back("moe-graphs");
  if (graphs == "full_iteration") out.emplace_back("cuda-graphs");
  if (graphs == "full_iteration" || flag(recipe, "cutedsl_fused_grouped_mlp").value_or(false)) out.emplace_back("fused-experts");
  return out;
}

void read_arguments(const Node* arguments, RunRecord& r) {
  if (!arguments || arguments->kind != NodeKind::mapping) return;
  for (const auto& [name, value] : arguments->members) {
    if (value.kind == NodeKind::boolean)
      r.arguments[name] = value.boolean ? "true" : "false";
    else if (value.kind != NodeKind::mapping && value.kind != NodeKind::sequence)
      r.arguments[name] = value.text;
  }
}

}  // namespace

std::string recomputed_modules(const Node* extra) {
  const Node* recipe = extra && extra->kind == NodeKind::mapping ? extra->find("recipe") : nullptr;
  const Node* list = recipe && recipe->kind == NodeKind::mapping ? recipe->find("recompute_modules") : nullptr;
  if (list == nullptr || list->kind != NodeKind::sequence) return "";
  std::string out;
  for (const Node& item : list->items) out += cat(out.empty() ? "selective:" : ",", item.text);
  return out;
}

RunTechniques listed_techniques(const std::vector<std::string>& names) {
  RunTechniques out;
  for (const std::string& name : names) {
    const auto known =
        std::find_if(kTechniques.begin(), kTechniques.end(), [&](const Technique& t) { return t.name == base::lower(name); });
    if (known != kTechniques.end())
      out.*(known->used) = true;
    else if (is_engine_option(base::lower(name)))
      out.options.push_back(base::lower(name));
    else if (out.unknown.empty())
      out.unknown = name;
  }
  return out;
}

RunTechniques published_techniques(const Remarks& t, const Node* extra) {
  const bool mapped = extra && extra->kind == NodeKind::mapping;
  const std::string all = cat(t.framework, " ", t.table, " ", t.notes);
  const auto named = [](const std::string& text, const std::vector<std::string>& words) {
    return says(text, words, Begins::word);
  };
  RunTechniques out;
  out.lora = named(all, {"lora", "qlora"});
  out.compile = named(all, {"torch.compile", "torch compile"});
  out.hsdp = named(cat(t.framework, " ", t.notes), {"hsdp"});
  out.deepep = named(t.notes, {"deepep", "hybridep"});
  out.offload = named(cat(t.notes, " ", t.recompute), {"offload"}) || (mapped && offloads(*extra));
  out.packed = named(t.notes, {"packed"});
  if (mapped)
    if (const Node* recipe = extra->find("recipe"); recipe && recipe->kind == NodeKind::mapping)
      out.options = recipe_options(*recipe);
  for (const char* key : {"compile", "torch_compile"})
    if (mapped) out.compile = flag(*extra, key).value_or(out.compile);
  return out;
}

std::string said_of_memory(const std::string& notes) {
  std::string out;
  for (std::size_t at = 0; at < notes.size();) {
    const std::size_t end = std::min(notes.find_first_of(";.", at), notes.size());
    const std::string clause = notes.substr(at, end - at);
    if (job::mentions(clause, {"memory", "peak_mem", "nvidia-smi"})) out += clause;
    at = end + 1;
  }
  return out;
}

void read_extra(const Node* extra, RunRecord& r) {
  if (!extra || extra->kind != NodeKind::mapping) return;
  if (const auto bytes = positive(*extra, "peak_mem_bytes")) r.measured.peak_mem_bytes = bytes;
  for (const char* key : {"zero1_size", "fsdp_size"})
    if (const auto size = positive(*extra, key)) r.shard = size;
  if (const Node* share = extra->find("recompute_op_fraction");
      share && (share->kind == NodeKind::real || share->kind == NodeKind::integer) && share->real >= 0 && share->real <= 1)
    r.recomputed_share = share->real;
  for (const char* key : {"mem_kind", "peak_mem_kind", "memory_kind"})
    if (r.measured.memory_kind.empty()) r.measured.memory_kind = text(*extra, key);
  r.measured.memory_unit = text(*extra, "mem_unit");
  r.tokenizer = text(*extra, "tokenizer");
  const Node* recipe = extra->find("recipe");
  r.recipe_stated = recipe != nullptr && recipe->kind == NodeKind::mapping;
  if (r.recipe_stated) r.offloaded_blocks = positive(*recipe, "cpu_offloading_num_layers");
  read_arguments(extra->find("args"), r);
}

}  // namespace espalier::runs
