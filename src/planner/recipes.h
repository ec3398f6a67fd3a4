// SPDX-License-Identifier: Apache-2.0
// Published recipes as baselines: what the authors of a framework run for a model of this size. Degrees, schedule, ZeRO and recomputation
// are the recipe's; data parallelism takes the rest of the devices, and of micro-batches 1 … 16 the fastest that fits stands for it.
//
//   Megatron-LM   TP and PP by model size: Narayanan et al. 2021 (arXiv 2104.04473), Table 1. Sequence parallelism, selective recomputation
//                 and three chunks a stage at 175B and 530B: Korthikanti et al. 2022 (arXiv 2205.05198), Table 3 and section 6. Distributed
//                 optimizer with overlap: Megatron-LM's README, "Distributed Optimizer".
//   torchtitan    8B: FSDP, selective recomputation; 70B: FSDP with TP 8, full; 405B: FSDP with TP 8 and PP 8, interleaved 1F1B, full
//                 (benchmarks/llama3_h100_202412_torchtitan.md, Tables 1, 4, 5).
//   DeepSeek-V3   PP 16, EP 64, ZeRO 1, no TP (arXiv 2412.19437, section 3.2); its DualPipe schedule is written as 1F1B. For mixtures of experts
//                 of 300B parameters and more.
// The recipe of the nearest size (on a logarithmic scale) whose groups divide the devices counts. Text models of one sequence only.
#pragma once

#include <vector>

#include "planner/baselines.h"

namespace espalier::planner {

std::vector<Baseline> recipes(const Job& job, const RuleFacts& facts);

}  // namespace espalier::planner
