// SPDX-License-Identifier: Apache-2.0
// Devices of unequal speed as node groups of their own, so that the search over unlike devices knows them as it knows
// kinds.
//
// A *class* is what a node group has at one speed: nodes all of whose devices are equally fast, and of other nodes the
// largest aligned blocks of a power of two of equally fast devices. The classes make a cluster that has no speeds
// (DeviceKind::at_speed of their devices), in which the phases on unlike devices search; plans are judged, and
// answered, on the devices that the classes are made of. One that lies on nodes with others in between is priced as
// stages on devices in any order are (cost/scattered_stages.h).
//
// Equal one-node groups joined by one level are such a class too where a cluster has more groups than the search can
// tell apart (kMostKinds): a rack of sixty workstations is one kind of node, not sixty.
//
// Where a class joins nodes that are not neighbours, or blocks that share a node, what the cluster of classes says of
// its network is near the truth and no bound (exact() is false): time is judged on the cluster itself, and what proves
// an answer is the bound of all work (work_bound.h).
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/cluster.h"
#include "espalier/plan.h"
#include "search/search.h"

namespace espalier::search {

inline constexpr std::size_t kMostKinds = 8;

/// Whether a cluster is searched by classes: it has devices of unequal speed, or more groups than kMostKinds.
bool has_classes(const Cluster& cluster);

class SpeedClasses {
 public:
  /// Needs a cluster that has_classes.
  explicit SpeedClasses(const Cluster& cluster);

  /// Node groups by place of the group they are of, then from the fastest to the slowest, then from the largest node to
  /// the smallest.
  [[nodiscard]] const Cluster& cluster() const { return classes_; }
  /// Of each device of cluster() the one that it is.
  [[nodiscard]] const std::vector<std::int64_t>& devices() const { return devices_; }
  /// Stages on devices of cluster() on those that they are.
  [[nodiscard]] std::vector<Pipeline> on_devices(std::vector<Pipeline> pipelines) const;
  /// Whether a plan takes as long on cluster() as on the devices: a single group whose classes are runs of neighbouring
  /// whole nodes under one level of the network.
  [[nodiscard]] bool exact() const { return exact_; }

 private:
  void add_group(const Cluster& cluster, std::size_t group);
  void join(const Cluster& cluster);
  void merge_equal_groups(const Cluster& cluster);

  Cluster classes_;
  std::vector<std::size_t> group_of_;  ///< of each class
  std::vector<std::int64_t> devices_;
  bool exact_ = true;
};

/// Judges plans of the classes on the devices that they are made of.
class JudgeOfClasses : public Evaluator {
 public:
  /// All of them live longer than this value.
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
