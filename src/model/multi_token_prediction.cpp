// SPDX-License-Identifier: Apache-2.0
// Implements multi-token prediction: modules after the last block that predict the tokens after the next one.
#include <algorithm>
#include <string>
#include <utility>

#include "base/invariant.h"
#include "model/family.h"

namespace espalier::model {
namespace {

/// Returns the operators of one module, named "mtp.…" (the second: "mtp2.…").
Operators module_operators(const Model& model, std::int64_t index, const LayerKind& block) {
  const std::int64_t h = block.hidden;
  const std::string prefix = index == 0 ? "mtp." : "mtp" + std::to_string(index + 1) + ".";
  Operators list;
  add_token_embedding(list, model.vocabulary, h);
  list.back().parameters = list.back().parameters_unsplit = 0;  // the embedding's table
  // The norms of the tokens and of the hidden state are one operator.
  Operator norms = norm("norms", 2 * h, 1);
  list.push_back(std::move(norms));
  list.push_back(linear("projection", 2 * h, h, TpSplit::none, false));
  list.insert(list.end(), block.operators.begin(), block.operators.end());
  list.push_back(norm("norm", h, 1));
  add_logits(list, h, model.vocabulary, true);  // the head's matrix
  for (Operator& op : list) op.name.insert(0, prefix);
  return list;
}

}  // namespace

void add_prediction(Model& model, std::int64_t modules, const LayerKind& block) {
  if (modules == 0) return;
  ESPALIER_CHECK(!model.layers.empty());
  LayerKind& head = model.kinds[static_cast<std::size_t>(model.layers.back())];
  for (std::int64_t i = 0; i < modules; ++i) {
    const Operators list = module_operators(model, i, block);
    head.operators.insert(head.operators.end(), list.begin(), list.end());
    for (const Operator& op : list) model.mtp_parameters = std::min(model.mtp_parameters + op.parameters, kHuge);
  }
}

}  // namespace espalier::model
