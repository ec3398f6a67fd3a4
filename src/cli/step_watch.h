// SPDX-License-Identifier: Apache-2.0
// Detects when the steps of a run have become permanently slower, from their seconds alone.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace espalier::cli {

/// Watches steps. The usual step is the median of the first kUsual after the first. The run has changed when kInRow
/// consecutive steps each take more than `factor` times that; one slow step is noise.
class StepWatch {
 public:
  static constexpr std::size_t kUsual = 5, kInRow = 3;
  explicit StepWatch(double factor) : factor_(factor) {}

  /// Returns whether this step makes it a change.
  bool changed(double seconds) {
    if (first_) {
      first_ = false;  // warms up
      return false;
    }
    if (usual_.size() < kUsual) {
      usual_.push_back(seconds);
      return false;
    }
    slow_ = seconds > factor_ * usual_s() ? slow_ + 1 : 0;
    return slow_ == kInRow;
  }
  /// Accepts the present step time as usual: the next kUsual steps set it.
  void accept() {
    usual_.clear();
    slow_ = 0;
  }
  /// Returns the usual time; 0 while it is unknown.
  [[nodiscard]] double usual_s() const {
    std::vector<double> sorted = usual_;
    std::sort(sorted.begin(), sorted.end());
    return sorted.empty() ? 0 : sorted[sorted.size() / 2];
  }

 private:
  double factor_;
  bool first_ = true;
  std::vector<double> usual_;
  std::size_t slow_ = 0;
};

}  // namespace espalier::cli
