// SPDX-License-Identifier: Apache-2.0
// Lists the jobs whose random configurations are estimated. They cover every model family with its own kinds of
// layers, and fabrics of each shape.
#pragma once

#include <string>
#include <vector>

#include "data/source_dir.h"
#include "espalier/planner.h"

namespace espalier::golden {

struct EstimateJob {
  std::string name, model, cluster, training;
  std::vector<std::string> overrides;
};

inline const std::vector<EstimateJob>& estimate_jobs() {
  static const std::vector<EstimateJob> jobs = {
      {"gpt2", "gpt2", "{nodes: 2, devices_per_node: 4, device: rtx-4090}", "{sequence_length: 1024, global_batch: 64}", {}},
      {"bert",
       "bert-base-uncased",
       "{nodes: 1, devices_per_node: 8, device: v100-sxm-32gb}",
       "{sequence_length: 512, global_batch: 64, precision: fp16}",
       {}},
      {"llama3-8b",
       "llama-3-8b",
       "{nodes: 2, devices_per_node: 8, device: h100-sxm-80gb}",
       "{sequence_length: 8192, global_batch: 64}",
       {}},
      {"llama3.2-1b",
       "llama-3.2-1b",
       "{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}",
       "{sequence_length: 2048, global_batch: 96, optimizer: sgd}",
       {}},
      {"mixtral",
       "mixtral-8x7b",
       "{nodes: 4, devices_per_node: 8, device: a100-sxm-80gb}",
       "{sequence_length: 4096, global_batch: 128, moe_imbalance: 1.1}",
       {}},
      {"mixtral-small",
       "mixtral-8x7b",
       "{nodes: 2, devices_per_node: 8, device: h100-sxm-80gb}",
       "{sequence_length: 4096, global_batch: 64}",
       {"model.num_hidden_layers=8"}},
      {"t5",
       "t5-base",
       "{nodes: 2, devices_per_node: 4, device: titan-rtx, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1, latency: 5us}}",
       "{sequence_length: {encoder: 512, decoder: 128}, global_batch: 64, precision: fp16}",
       {}},
      {"deepseek-v3-9-layers",
       "deepseek-v3",
       "{nodes: 4, devices_per_node: 8, device: h100-sxm-80gb}",
       "{sequence_length: 4096, global_batch: 128}",
       {"model.num_hidden_layers=9"}},
      {"swin", "swin-base", "{nodes: 1, devices_per_node: 8, device: a100-sxm-40gb}", "{global_batch: 128}", {}},
      {"flan-t5-untied",
       "flan-t5-xxl",
       "{nodes: 2, devices_per_node: 8, device: a100-sxm-80gb}",
       "{sequence_length: {encoder: 1024, decoder: 256}, global_batch: 64}",
       {}},
      {"gemma2",
       "gemma-2-9b",
       "{nodes: 2, devices_per_node: 6, device: h100-pcie-80gb}",
       "{sequence_length: 8192, global_batch: 48}",
       {}},
      {"llama3-70b-nvl72",
       "llama-3-70b",
       "{nodes: 8, devices_per_node: 4, device: gb200-nvl72}",
       "{sequence_length: 8192, global_batch: 64}",
       {}},
      {"qwen-slow",
       "qwen2.5-7b",
       "{nodes: 4, devices_per_node: 4, device: l40s, inter_node: {bandwidth: 25Gb/s, nics_per_node: 1, latency: 20us}}",
       "{sequence_length: 4096, global_batch: 64}",
       {}},
      {"deepseek-v3",
       "deepseek-v3",
       "{nodes: 32, devices_per_node: 8, device: h100-sxm-80gb}",
       "{sequence_length: 4096, global_batch: 512}",
       {}},
      {"vit", "vit-base-patch16-224", "{nodes: 1, devices_per_node: 4, device: a10g}", "{global_batch: 64}", {}},
  };
  return jobs;
}

/// Returns jobs whose blocks can be partitioned operator by operator: dense decoders.
inline const std::vector<EstimateJob>& partition_jobs() {
  static const std::vector<EstimateJob> jobs = {
      {"opt-6.7b",
       "opt-6.7b",
       "{nodes: 4, devices_per_node: 4, device: v100-sxm-32gb, inter_node: {bandwidth: 100Gb/s, nics_per_node: 1}}",
       "{sequence_length: 2048, global_batch: 32, precision: fp16}",
       {}},
      {"llama3-8b",
       "llama-3-8b",
       "{nodes: 2, devices_per_node: 8, device: h100-sxm-80gb}",
       "{sequence_length: 8192, global_batch: 64}",
       {}},
      {"gpt2", "gpt2", "{nodes: 2, devices_per_node: 4, device: rtx-4090}", "{sequence_length: 1024, global_batch: 64}", {}},
  };
  return jobs;
}

inline Result<Job> load(const EstimateJob& job, const std::string& engine) {
  const std::string text = "model: models/" + job.model + "/config.json\ncluster: " + job.cluster +
                           "\ntraining: " + job.training + "\nengine: " + engine + "\n";
  return load_job(text, job.name, ESPALIER_SOURCE_DIR, job.overrides);
}

}  // namespace espalier::golden
