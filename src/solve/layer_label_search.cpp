// SPDX-License-Identifier: Apache-2.0
#include "solve/layer_label_search.h"

#include <algorithm>
#include <tuple>

#include "solve/label_steps.h"
#include "solve/layer_labels.h"

namespace espalier::solve {
namespace {

/// Searches by labels; a position within a run is (blocks placed, free layers chosen).
class LabelSearch {
 public:
  LabelSearch(const Steps& steps, const Completion& completion) : steps_(steps), completion_(completion) {}

  /// Returns the option of every layer; empty when no choice is below the limit.
  std::vector<std::int32_t> search() {
    std::vector<LayerLabel> open = {LayerLabel{0, 0, 0, 0, -1, -1, 0, 0}};
    for (std::size_t run = completion_.runs().size(); run-- > 0 && !open.empty();) open = pass(run, std::move(open));
    if (open.empty()) return {};
    const auto better = [](const LayerLabel& a, const LayerLabel& b) {
      return std::tuple(a.cost, a.memory, a.layout) < std::tuple(b.cost, b.memory, b.layout);
    };
    return options_of(*std::min_element(open.begin(), open.end(), better), kept_);
  }

 private:
  /// Returns labels with the run placed, from labels of the layers after it.
  std::vector<LayerLabel> pass(std::size_t run, std::vector<LayerLabel> open) {
    const RunPlan& plan = completion_.runs()[run];
    const auto& items = steps_.of_type[static_cast<std::size_t>(plan.type)];
    const std::size_t positions = static_cast<std::size_t>(plan.free) + 1, all = std::size_t{1} << plan.blocks.size();
    std::vector<std::vector<LayerLabel>> at(all * positions);
    std::vector<Rest> rests(all * positions);
    const auto rest_at = [&](std::size_t placed, std::size_t chosen) -> const Rest& {
      Rest& rest = rests[placed * positions + chosen];
      if (rest.any.empty())
        rest = completion_.rest(run, static_cast<std::int32_t>(positions - 1 - chosen), static_cast<std::uint32_t>(placed));
      return rest;
    };
    at[0] = std::move(open);
    for (std::size_t placed = 0; placed < all; ++placed) {
      for (std::size_t chosen = 0; chosen < positions; ++chosen) {
        std::vector<LayerLabel> here = std::move(at[placed * positions + chosen]);
        if (placed + 1 == all && chosen + 1 == positions) {
          drop_superfluous(here, steps_.distance, steps_.layouts);
          return here;
        }
        if (here.empty()) continue;
        drop_superfluous(here, steps_.distance, steps_.layouts);
        const std::size_t first = kept_.size();
        kept_.insert(kept_.end(), here.begin(), here.end());
        if (chosen + 1 < positions) {
          const Rest& rest = rest_at(placed, chosen + 1);
          for (const LabelExtension& step : items) extend(here, first, step, 1, rest, at[placed * positions + chosen + 1]);
        }
        for (std::size_t b = 0; b < plan.blocks.size(); ++b) {
          const std::size_t next = placed | std::size_t{1} << b;
          if (next == placed) continue;
          for (const std::int32_t i : plan.blocks[b].items)
            extend(here, first, items[static_cast<std::size_t>(i)], plan.blocks[b].copies, rest_at(next, chosen),
                   at[next * positions + chosen]);
        }
      }
    }
    return {};
  }

  void extend(const std::vector<LayerLabel>& labels, std::size_t first, const LabelExtension& step, std::int32_t copies,
              const Rest& rest, std::vector<LayerLabel>& out) const {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      const LayerLabel label = extended(steps_, labels[i], step, copies, static_cast<std::int32_t>(first + i));
      if (label.cost < kForbidden && completion_.worthwhile(label, rest)) out.push_back(label);
    }
  }

  const Steps& steps_;
  const Completion& completion_;
  std::vector<LayerLabel> kept_;
};

}  // namespace

std::vector<std::int32_t> cheapest(const Chain& chain, const Multipliers& multipliers, const Scope& scope) {
  const Steps steps = make_steps(chain, scope.limit, 1);
  const Completion completion(chain, multipliers, scope, steps.tick);
  if (completion.hopeless()) return {};
  return LabelSearch(steps, completion).search();
}

}  // namespace espalier::solve
