// SPDX-License-Identifier: Apache-2.0
#include "reference/decision_tree.h"

#include "base/invariant.h"

namespace espalier::reference {
namespace {

constexpr std::array<TreeDimension, 3> kDimensions = {TreeDimension::dp, TreeDimension::sdp, TreeDimension::tp};

std::string_view name(TreeDimension dimension) {
  switch (dimension) {
    case TreeDimension::dp: return "dp";
    case TreeDimension::sdp: return "sdp";
    case TreeDimension::tp: return "tp";
  }
  ESPALIER_CHECK(false);
}

/// Appends the leaves below `path`, with `left` devices still to be split.
void grow(TreeLeaf& path, std::int32_t left, std::vector<TreeLeaf>& leaves) {
  if (left == 1) {
    leaves.push_back(path);
    return;
  }
  for (const TreeDimension dimension : kDimensions) {
    if (path.degree(dimension) > 1) continue;
    for (std::int32_t degree = 2; degree <= left; degree *= 2) {
      path.levels.push_back({dimension, degree});
      grow(path, left / degree, leaves);
      path.levels.pop_back();
    }
  }
}

bool mixes_dp_and_sdp(const TreeLeaf& leaf) { return leaf.degree(TreeDimension::dp) > 1 && leaf.degree(TreeDimension::sdp) > 1; }

}  // namespace

std::int32_t TreeLeaf::degree(TreeDimension dimension) const {
  for (const TreeLevel& level : levels)
    if (level.dimension == dimension) return level.degree;
  return 1;
}

std::string TreeLeaf::label() const {
  std::string out = "pp" + std::to_string(pp);
  for (const TreeLevel& level : levels) out.append(" ").append(name(level.dimension)).append(std::to_string(level.degree));
  return recompute ? out + " ckpt" : out;
}

const std::array<TreeRuleRow, kTreeRules>& tree_rules() {
  static constexpr std::array<TreeRuleRow, kTreeRules> rules = {{
      {TreeRule::no_dp_sdp_mix, "no-dp-sdp-mix",
       "data parallelism with and without sharding in one strategy (not proven to be useless)"},
  }};
  return rules;
}

bool TreeRules::disable(std::string_view name) {
  for (const TreeRuleRow& rule : tree_rules()) {
    if (rule.name != name) continue;
    enabled_[static_cast<std::size_t>(rule.id)] = false;
    return true;
  }
  return false;
}

std::vector<TreeLeaf> decision_tree(std::int32_t devices, bool with_recompute, TreeRules& rules) {
  ESPALIER_CHECK(devices >= 1 && (devices & (devices - 1)) == 0);
  std::vector<TreeLeaf> out;
  const std::int64_t forms = with_recompute ? 2 : 1;
  for (std::int32_t pp = 1; pp <= devices && pp > 0; pp *= 2) {
    std::vector<TreeLeaf> leaves;
    TreeLeaf root;
    root.pp = pp;
    grow(root, devices / pp, leaves);
    for (TreeLeaf& leaf : leaves) {
      if (rules.enabled(TreeRule::no_dp_sdp_mix) && mixes_dp_and_sdp(leaf)) {
        rules.count(TreeRule::no_dp_sdp_mix, forms);
        continue;
      }
      out.push_back(leaf);
      leaf.recompute = true;
      if (with_recompute) out.push_back(leaf);
    }
  }
  return out;
}

}  // namespace espalier::reference
