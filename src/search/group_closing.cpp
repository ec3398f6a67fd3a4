// SPDX-License-Identifier: Apache-2.0
#include "search/group_closing.h"

#include <algorithm>

namespace espalier::search {
namespace {

class Chains {
 public:
  Chains(const solve::DeviceGroupsProblem& problem, std::int64_t below_ns, std::int64_t& left)
      : problem_(problem), below_ns_(below_ns), left_(left), free_(problem.units) {}

  std::optional<std::vector<solve::GroupedPipeline>> run() {
    if (!extend(0)) return std::nullopt;
    std::stable_sort(found_.begin(), found_.end(), [](const auto& a, const auto& b) { return a.bound_ns < b.bound_ns; });
    return std::move(found_);
  }

 private:
  /// Whether all chains that go on from layer `first` were looked at.
  bool extend(std::int32_t first) {
    const auto layers = static_cast<std::int32_t>(problem_.layers.size());
    if (first == layers) return keep();
    if (static_cast<std::int32_t>(stages_.size()) >= problem_.max_stages) return true;
    for (std::size_t o = 0; o < problem_.options.size(); ++o) {
      const solve::StageOption& option = problem_.options[o];
      std::int32_t& free = free_[static_cast<std::size_t>(option.kind)];
      if (free < option.units) continue;
      free -= option.units;
      const bool all = extend_by(static_cast<std::int32_t>(o), option, first);
      free += option.units;
      if (!all) return false;
    }
    return true;
  }

  bool extend_by(std::int32_t number, const solve::StageOption& option, std::int32_t first) {
    std::int64_t work = option.pass_forward_ns + option.pass_backward_ns, bytes = option.fixed_bytes;
    for (std::int32_t last = first; last < static_cast<std::int32_t>(problem_.layers.size()); ++last) {
      const auto type = static_cast<std::size_t>(problem_.layers[static_cast<std::size_t>(last)]);
      work += option.forward_ns[type] + option.backward_ns[type];
      bytes += option.static_bytes[type];
      if (problem_.microbatches * work >= below_ns_ || bytes > option.memory_bytes) return true;
      if (--left_ < 0) return false;
      stages_.push_back({number, first, last});
      const bool all = extend(last + 1);
      stages_.pop_back();
      if (!all) return false;
    }
    return true;
  }

  bool keep() {
    const std::optional<solve::GroupedPipeline> whole = solve::evaluate_stages(problem_, stages_);
    if (!whole || whole->bound_ns >= below_ns_) return true;
    found_.push_back(*whole);
    return static_cast<std::int64_t>(found_.size()) * problem_.microbatches <= kMostClosingPasses;
  }

  const solve::DeviceGroupsProblem& problem_;
  const std::int64_t below_ns_;
  std::int64_t& left_;
  std::vector<std::int32_t> free_;
  std::vector<solve::GroupedStage> stages_;
  std::vector<solve::GroupedPipeline> found_;
};

}  // namespace

std::optional<std::vector<solve::GroupedPipeline>> chains_below(const solve::DeviceGroupsProblem& problem, std::int64_t below_ns,
                                                                std::int64_t& left) {
  return Chains(problem, below_ns, left).run();
}

}  // namespace espalier::search
