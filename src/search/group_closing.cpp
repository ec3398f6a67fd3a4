// SPDX-License-Identifier: Apache-2.0
#include "search/group_closing.h"

#include <algorithm>

#include "search/budgets.h"

namespace espalier::search {
namespace {

class ChainEnumeration {
 public:
  ChainEnumeration(const solve::DeviceGroupsProblem& problem, std::int64_t below_ns, std::int64_t& left, ChainSchedule schedule)
      : problem_(problem), below_ns_(below_ns), left_(left), schedule_(schedule), free_(problem.units) {}

  std::optional<std::vector<solve::GroupedPipeline>> run() {
    fill_shapes();
    if (!extend(0)) return std::nullopt;
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.bound_ns < b.bound_ns; });
    return std::move(found_);
  }

 private:
  /// Holds an option that may begin with some layer, and the last layer that it may reach from there.
  struct Reach {
    std::int32_t option = 0, last = 0;
  };

  /// Holds the options of one kind and number of units.
  struct Shape {
    std::int32_t kind = 0, units = 0;
    std::vector<Reach> reach;
  };

  /// Fills the shapes of each first layer. More layers need more time and more memory.
  void fill_shapes() {
    const auto layers = static_cast<std::int32_t>(problem_.layers.size());
    shapes_.resize(problem_.layers.size());
    for (std::int32_t first = 0; first < layers; ++first)
      for (std::size_t o = 0; o < problem_.options.size(); ++o) {
        const solve::StageOption& option = problem_.options[o];
        const std::int32_t last = last_of(option, first);
        if (last < first) continue;
        std::vector<Shape>& shapes = shapes_[static_cast<std::size_t>(first)];
        if (shapes.empty() || shapes.back().kind != option.kind || shapes.back().units != option.units)
          shapes.push_back({option.kind, option.units, {}});
        shapes.back().reach.push_back({static_cast<std::int32_t>(o), last});
      }
  }

  [[nodiscard]] std::int32_t last_of(const solve::StageOption& option, std::int32_t first) const {
    const std::int64_t rounding = schedule_ == ChainSchedule::zero_bubble ? solve::kSplitRoundingNs : 0;
    std::int64_t work = option.pass_forward_ns + option.pass_backward_ns, bytes = option.fixed_bytes;
    for (std::int32_t last = first; last < static_cast<std::int32_t>(problem_.layers.size()); ++last) {
      const auto type = static_cast<std::size_t>(problem_.layers[static_cast<std::size_t>(last)]);
      work += option.forward_ns[type] + option.backward_ns[type] - rounding;
      bytes += option.static_bytes[type];
      if (problem_.microbatches * work >= below_ns_ || bytes > option.memory_bytes) return last - 1;
    }
    return static_cast<std::int32_t>(problem_.layers.size()) - 1;
  }

  /// Returns whether all chains that continue from layer `first` were enumerated.
  bool extend(std::int32_t first) {
    if (first == static_cast<std::int32_t>(problem_.layers.size())) return keep();
    if (static_cast<std::int32_t>(stages_.size()) >= problem_.max_stages) return true;
    for (const Shape& shape : shapes_[static_cast<std::size_t>(first)]) {
      std::int32_t& free = free_[static_cast<std::size_t>(shape.kind)];
      if (free < shape.units) continue;
      free -= shape.units;
      const bool all =
          std::all_of(shape.reach.begin(), shape.reach.end(), [&](const Reach& reach) { return extend_by(reach, first); });
      free += shape.units;
      if (!all) return false;
    }
    return true;
  }

  bool extend_by(const Reach& reach, std::int32_t first) {
    for (std::int32_t last = first; last <= reach.last; ++last) {
      if (--left_ < 0) return false;
      stages_.push_back({reach.option, first, last});
      const bool all = extend(last + 1);
      stages_.pop_back();
      if (!all) return false;
    }
    return true;
  }

  bool keep() {
    const std::optional<solve::GroupedPipeline> whole = bounded(problem_, stages_, schedule_);
    if (!whole || whole->bound_ns >= below_ns_) return true;
    found_.push_back(*whole);
    return static_cast<std::int64_t>(found_.size()) * problem_.microbatches <= kMostClosingPasses;
  }

  const solve::DeviceGroupsProblem& problem_;
  const std::int64_t below_ns_;
  std::int64_t& left_;
  const ChainSchedule schedule_;
  std::vector<std::vector<Shape>> shapes_;  ///< [first layer]
  std::vector<std::int32_t> free_;
  std::vector<solve::GroupedStage> stages_;
  std::vector<solve::GroupedPipeline> found_;
};

}  // namespace

std::optional<solve::GroupedPipeline> bounded(const solve::DeviceGroupsProblem& problem,
                                              const std::vector<solve::GroupedStage>& stages, ChainSchedule schedule) {
  return schedule == ChainSchedule::zero_bubble ? solve::evaluate_zero_bubble(problem, stages)
                                                : solve::evaluate_stages(problem, stages);
}

std::optional<std::vector<solve::GroupedPipeline>> chains_below(const solve::DeviceGroupsProblem& problem, std::int64_t below_ns,
                                                                std::int64_t& left, ChainSchedule schedule) {
  return ChainEnumeration(problem, below_ns, left, schedule).run();
}

}  // namespace espalier::search
