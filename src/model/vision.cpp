// SPDX-License-Identifier: Apache-2.0
#include "model/vision.h"

#include <utility>

namespace espalier::model {

LayerKind fixed_kind(std::string name, LayerRole role, std::int64_t tokens, std::int64_t hidden) {
  LayerKind kind;
  kind.name = std::move(name);
  kind.role = role;
  kind.stream = TokenStream::fixed;
  kind.fixed_tokens = kind.boundary_tokens_fixed = tokens;
  kind.hidden = hidden;
  return kind;
}

Operator patch_embedding(std::int64_t in, std::int64_t hidden) {
  Operator op = linear("embed.patch", in, hidden, TpSplit::none, true);
  op.kind = OperatorKind::patch_embed;
  return op;
}

LayerKind classifier(std::int64_t tokens, std::int64_t hidden, std::int64_t classes) {
  LayerKind kind = fixed_kind("head", LayerRole::head, 1, hidden);
  Operator final_norm = norm("head.norm", tokens * hidden, 0);
  final_norm.parameters = final_norm.parameters_unsplit = 2 * hidden;
  kind.operators = {std::move(final_norm), pool("head.pool", tokens * hidden),
                    linear("head.logits", hidden, classes, TpSplit::none, true), cross_entropy(classes, TpSplit::none)};
  return kind;
}

std::int64_t read_classes(Fields& f) {
  const base::Node* labels = f.reader().find("id2label");
  if (labels != nullptr && !labels->members.empty() && !f.reader().has("num_labels")) {
    return static_cast<std::int64_t>(labels->members.size());
  }
  return f.integer_or({"num_labels"}, SizeLimits::vocabulary, 2);
}

std::int64_t read_side(Fields& f, std::string_view key, std::int64_t fallback) {
  const base::Node* node = f.reader().find(key);
  if (node == nullptr || node->kind != base::NodeKind::sequence) {
    return f.integer_or({key}, SizeLimits::pixels, fallback);
  }
  const auto sides = f.reader().optional_int_list(key, 1, SizeLimits::pixels);
  if (sides.size() == 2 && sides[0] == sides[1]) return sides[0];
  f.fail(key, "a list", "one number, or two equal ones", "only square images are supported");
  return 1;
}

}  // namespace espalier::model
