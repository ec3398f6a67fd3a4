// SPDX-License-Identifier: Apache-2.0
#include "runs/remarks.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "plan/engine.h"

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

/// Returns "" when there is no text of that name.
std::string text(const Node& extra, const char* key) {
  const Node* node = extra.find(key);
  return node && node->kind == NodeKind::string ? node->text : "";
}

std::optional<std::int64_t> positive(const Node& extra, const char* key) {
  const Node* node = extra.find(key);
  return node && node->kind == NodeKind::integer && node->integer > 0 ? std::optional(node->integer) : std::nullopt;
}

bool is_engine_option(const std::string& name) {
  const auto& engines = engine_catalogue();
  return std::any_of(engines.begin(), engines.end(), [&](const EngineModel& engine) {
    return std::any_of(engine.options.begin(), engine.options.end(), [&](const EngineOption& o) { return o.name == name; });
  });
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
