// SPDX-License-Identifier: Apache-2.0
// Describes samples made of sequences of different lengths: how full they are, how much their tokens attend to each
// other, and how much the samples differ. Lengths l have weights w (Training::lengths) and moments E[lᵏ]; a sample
// has L tokens.
//
//   none      one sequence per sample, padded: E[l]/L of its tokens are real, and all L are computed.
//   packed    sequences fill samples. φ is the real share of the tokens of samples that best-fit decreasing
//             makes from 4096 sequences at the quantiles of the histogram. A sample has n = φL/E[l] of them,
//             each attends to itself alone: a token attends to φ·E[l·s(l)]/E[l] keys on average,
//             with s(l) the mean keys of a sequence of l (a causal half, a window).
//   spread    coefficient of variation cv of the attention of samples. A sample ends with its tokens, not with
//             a number of sequences: a renewal process with reward l² (Wald 1944; Asmussen 2003, V.6),
//             with r = E[l²]/E[l]
//             cv = √(n·Var(l² − r·l)) / (n·E[l²]).
//   excess    the factor by which attention takes longer than with equal samples, for R replicas,
//             m micro-batches of b samples each and p stages:
//             1 + cv·(m·A + (p − 1)·B)/(m + p − 1),   A = z(R)/√(m·b), balanced z(R)/(m·b)^1.5,   B = z(R·m)/√b.
//             z(k) is the expected largest of k normal values (Blom 1958: Φ⁻¹((k − 0.375)/(k + 0.25))).
//             Replicas wait for the slowest one at the end of the step. Stages of a pipeline wait for the slowest
//             micro-batch: for jobs that take equally long on all machines a flow shop takes Σ t + (p − 1)·max t.
//             Balanced: samples of a step are assigned longest first, each to the replica with the least.
//
// Sources: packing: Krell et al. 2021 (arXiv 2107.02027); imbalance: Wang et al. 2025, WLB-LLM (arXiv 2503.17924).
#pragma once

#include <cstdint>
#include <vector>

#include "espalier/plan.h"

namespace espalier {

/// Holds the facts that follow from the lengths of a training alone.
struct LengthFacts {
  bool any = false;          ///< the training has some; else a sample is one whole sequence
  bool packed = false;       ///< several sequences a sample
  double real_tokens = 1.0;  ///< share of all tokens of samples
  double sequences = 1.0;    ///< sequences of a sample
  double longest = 0;        ///< packed: expected longest sequence of a sample, tokens
  double spread = 0;         ///< cv
  bool balanced = false;
  double mean = 0;  ///< E[l]
  std::vector<LengthShare> histogram;
};
LengthFacts length_facts(const Training& training);

/// Returns the mean keys that a token of a packed sample attends to, under a window (0: none) and a causal mask.
double packed_keys(const LengthFacts& facts, double window, bool causal);

/// Returns the factor by which unequal samples lengthen attention.
double length_excess(const LengthFacts& facts, std::int64_t replicas, std::int64_t microbatches, std::int64_t micro_batch,
                     std::int64_t stages);

/// Returns the expected largest of k normal values; 0 for one.
double expected_largest(double k);

/// Returns the share of the tokens of a global batch that are real; 1 without lengths.
double real_token_share(const Training& training);

}  // namespace espalier
