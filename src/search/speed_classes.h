// SPDX-License-Identifier: Apache-2.0
// Turns devices of unequal speed into node groups of their own. The search over heterogeneous devices then handles
// each as a device kind.
//
// A *class* is the part of a node group with one speed. It consists of nodes all of whose devices are equally fast.
// From other nodes it takes the largest aligned blocks of a power of two of equally fast devices. The classes make a
// cluster that has no speeds (DeviceKind::at_speed of their devices). The phases on heterogeneous devices search in
// it. Plans are judged and reported on the original devices. A class on nodes that are not neighbours is priced like
// stages on devices in any order (cost/scattered_stages.h).
//
// Equal one-node groups joined by one level also form a class where a cluster has more groups than the search can
// distinguish (kMostKinds). For example, a rack of sixty workstations is one kind of node, not sixty.
//
// A class may join nodes that are not neighbours, or blocks that share a node. The network of the cluster of classes
// is then an approximation and no bound (exact() is false). Time is judged on the cluster itself, and the bound of
// all work (work_bound.h) proves an answer.
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "search/search.h"

namespace espalier::search {

inline constexpr std::size_t kMostKinds = 8;

/// Returns whether a cluster is searched by classes: it has devices of unequal speed, or more groups than kMostKinds.
bool has_classes(const Cluster& cluster);

class SpeedClasses {
 public:
  /// Requires a cluster for which has_classes is true.
  explicit SpeedClasses(const Cluster& cluster);

  /// Returns the cluster of classes. Its node groups are ordered by the place of their original group, then from the
  /// fastest to the slowest, then from the largest node to the smallest.
  [[nodiscard]] const Cluster& cluster() const { return classes_; }
  /// Returns the original device of each device of cluster().
  [[nodiscard]] const std::vector<std::int64_t>& devices() const { return devices_; }
  /// Maps stages on devices of cluster() to the original devices.
  [[nodiscard]] std::vector<Pipeline> on_devices(std::vector<Pipeline> pipelines) const;
  /// Returns whether a plan takes as long on cluster() as on the devices. This needs a single group whose classes are
  /// runs of neighbouring whole nodes under one level of the network.
  [[nodiscard]] bool exact() const { return exact_; }

 private:
  void add_group(const Cluster& cluster, std::size_t group);
  void join(const Cluster& cluster);
  void merge_equal_groups(const Cluster& cluster);

  Cluster classes_;
  std::vector<std::size_t> group_of_;  ///< original group of each class
  std::vector<std::int64_t> devices_;
  bool exact_ = true;
};

/// Evaluates plans of the classes on the original devices.
class JudgeOfClasses : public Evaluator {
 public:
  /// Keeps references: all arguments must outlive this value.
  JudgeOfClasses(const Problem& problem, Evaluator& judge, const SpeedClasses& classes);

  std::int64_t peak_bytes(const ProgramStructure& structure, const cost::Costs& costs, int worker) override;
  std::int64_t iteration_ns(const ProgramStructure& structure, const cost::Costs& costs, const CandidatePlan& plan,
                            int worker) override;
  const std::vector<std::int64_t>* pass_ends(const ProgramStructure& structure, const cost::Costs& costs, int worker) override;
  std::optional<PlanEvaluation> evaluate(const Problem& problem, const cost::ClusterCosts& costs, const Plan& plan) override;
  [[nodiscard]] bool exact() const override { return classes_->exact(); }
  [[nodiscard]] std::int64_t lowered() const override { return judge_->lowered(); }

 private:
  const Problem* problem_;
  Evaluator* judge_;
  const SpeedClasses* classes_;
  cost::ClusterCosts costs_;
};

}  // namespace espalier::search
