// SPDX-License-Identifier: Apache-2.0
// Which settings of a plan may be applied freely, and which the user has to agree to.
#include <algorithm>
#include <vector>

#include "base/format.h"
#include "cli/mcp_call.h"
#include "plan/engine.h"

namespace espalier::cli {
namespace {

/// Lists values of the job that the search never changes: "precision bf16, global batch 64, …".
std::string training_knobs(const Node& training) {
  const std::vector<std::pair<std::string, std::string>> fields = {{"precision", "precision"},
                                                                   {"global_batch", "global batch"},
                                                                   {"sequence_length", "sequence length"},
                                                                   {"optimizer", "optimizer"}};
  std::vector<std::string> out;
  for (const auto& [key, name] : fields)
    if (const Node* value = training.find(key); value != nullptr && !value->text.empty())
      out.push_back(cat(name, " ", value->text));
  const Node* lengths = training.find("lengths");
  const Node* packing = lengths == nullptr ? nullptr : lengths->find("packing");
  out.push_back(cat("packing ", packing == nullptr ? "none" : packing->text));
  out.emplace_back("expert capacity factor (MoE)");
  return base::joined(out);
}

/// Returns true if an option of the engine changes what is computed.
bool changes_numerics(std::string_view engine, const std::string& option) {
  const EngineModel* model = find_engine(base_engine(engine));
  return model != nullptr && std::any_of(model->options.begin(), model->options.end(),
                                         [&](const EngineOption& known) { return known.name == option && known.numerics; });
}

std::string option_line(const std::string& option, bool numerics, const char* state) {
  return cat("  engine option ", option, " (", state, "): ", numerics ? "changes training" : "execution only", "\n");
}

/// Lists the options in the name of the engine: "megatron-core+cuda-graphs".
std::string options_in_force(const std::string& engine) {
  std::string out;
  for (std::size_t at = engine.find('+'); at != std::string::npos;) {
    const std::size_t end = engine.find('+', at + 1);
    const std::string option = engine.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    out += option_line(option, changes_numerics(engine, option), "in force");
    at = end;
  }
  return out;
}

/// Lists the options that the answer offers because they would gain.
std::string options_offered(const Node& result, const std::string& engine) {
  std::string out;
  std::vector<std::string> seen;
  const Node* offers = result.find("options");
  if (offers == nullptr) return out;
  for (const Node& offer : offers->items) {
    const Node* names = offer.find("options");
    if (names == nullptr) continue;
    for (const Node& name : names->items) {
      if (std::find(seen.begin(), seen.end(), name.text) != seen.end()) continue;
      seen.push_back(name.text);
      out += option_line(name.text, changes_numerics(engine, name.text), "offered, not applied");
    }
  }
  return out;
}

}  // namespace

std::string knobs_text(const std::string& result_json) {
  const auto document = base::read_json(result_json, "result");
  const Node* plan = document ? document->root.find("plan") : nullptr;
  const Node* engine = plan == nullptr ? nullptr : plan->find("engine");
  const Node* training = plan == nullptr ? nullptr : plan->find("training");
  if (engine == nullptr || training == nullptr) return {};
  return cat("\nKnobs\n  execution only: parallel degrees, micro-batch split, recomputation, ZeRO, schedule, overlap, offload\n",
             "  changes training: ", training_knobs(*training), "\n", options_in_force(engine->text),
             options_offered(document->root, engine->text));
}

}  // namespace espalier::cli
