// SPDX-License-Identifier: Apache-2.0
// Builds a small llama on a cluster given as text, for the tests of searches on heterogeneous devices.
#pragma once

#include <string>

#include "cost/cluster_costs.h"
#include "espalier/cluster.h"
#include "espalier/model.h"
#include "plan/engine.h"
#include "search/search.h"

namespace espalier::search::test {

/// Holds a model of six blocks of hidden size 1024 on sequences of 512, with its problem.
struct Fixture {
  Model model = load_model(R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816, "num_attention_heads": 8,
    "num_key_value_heads": 8, "num_hidden_layers": 6, "vocab_size": 8192, "max_position_embeddings": 2048})",
                           "test")
                    .value();
  Cluster cluster;
  Problem problem;
  explicit Fixture(const std::string& text, std::int64_t batch = 16) : cluster(load_cluster(text, "test").value()) {
    problem.model = &model;
    problem.cluster = &cluster;
    problem.training.sequence.main = 512;
    problem.training.global_batch = batch;
    problem.training.precision = Precision::fp16;
    problem.engine = find_engine("generic");
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  [[nodiscard]] cost::ClusterCosts costs() const { return {model, cluster, problem.training, *problem.engine}; }
};

}  // namespace espalier::search::test
