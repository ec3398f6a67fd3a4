// SPDX-License-Identifier: Apache-2.0
// Galvatron's cost model of versions 2.0 to main over what its profilers measured (profile_files.h). These are
// predictions by published formulas; Espalier's own model has no part in them.
//
// A step of B samples in m micro-batches on P stages of N/P devices. A layer has a group of g ranks (tensor parallel t
// = g, or Ulysses with t = 1), dp = N/(P·g), b = B/(m·dp) samples of a micro-batch on a rank, and d ranks with the same
// weights: dp, with Ulysses g·dp.
//
// memory, MB of 2^20 bytes, of a layer on stage i
//     p = parameters (fp32) / t,    states = 4·p·ratio(d)
//     ratio     ddp 1; with r = 1/d + 0.003 and one micro-batch:   ZeRO-3 r,           ZeRO-2 7/8·r + 1/8   (fp32 3/4·r + 1/4)
//               several, gradients reduced in each:                ZeRO-3 7/8·r + 1/8, ZeRO-2 6/8·r + 2/8
//                                                          (fp32:  ZeRO-3 3/4·r + 1/4, ZeRO-2 2/4·r + 2/4)
//               several, gradients reduced at the end:             as one micro-batch, times 5/4 (ZeRO-2 in fp32: as it
//                                                                  is)
//     kept      activation[g]·b, recomputed checkpoint·b (divided by g with Megatron's sequence parallelism), for P − i
//               micro-batches at once (one forward, one backward)
//     a layer takes ⌈states + kept⌉
//   embedding and head with a group of v ranks, v' = v if tensor parallel, 1 with Ulysses, on the first and the last
//   stage:
//     states[v']·ratio(N/(P·v')) + activation[v]·B/(m·N/(P·v))·(P on the first stage, 1 on the last), 1024 MB for the
//     framework on every stage
//   with tensor groups up to g, every stage: gathered input B/(m·N/(P·g))·sequence·hidden·4/2^20, half of it in mixed
//   precision
//   of budgets above 20 GiB one fifth is kept free for the allocator
//
// time of a micro-batch, ms
//     forward   f(b/g), linear in samples, fitted to the profile;   backward 2·f, recomputed 3·f
//     group     M = b·sequence·hidden·4/2^20 MB (2 in mixed precision); 6 all-gathers of M (with Megatron's sequence
//               parallelism; half an all-reduce each), 4 all-reduces of M (without), 4 all-to-alls of M (Ulysses); ×1.5
//               recomputed
//     gradients G = 2·(d − 1)/d·p MB, half of it in mixed precision, at c = 1/(all-reduce GB/s of d ranks) ms/MB.
//     Beside backward
//               both slow down by κ: overlap(G, w) = min(G·c·κ, w·κ) + what is left of either at full speed.
//               dp = 1: nothing is reduced. g = 1 or dp > 2: beside all of backward; else beside half of it
//     ZeRO-3    + G/2·c for gathered weights
//     P > 1     + P·2·M·(1/GB/s of P stages)/L, where L counts the model's layers
//   embedding and head (with P > 1 half of the time on each end): F = f_other(B/(m·N/P)), gradients G' = states[v']/4
//   at
//     c·(d − 1)/d; forward F + hidden(G'/2 if ZeRO-3), backward 2F + hidden(G'/2 for gradients, once more if ZeRO-3)
//     where
//     communication q hidden under work w costs max(w + q·(1 − 1/κ), q); two all-gathers of M of v ranks, one on each
//     end
//   between layers of unlike groups, g the larger, n = B/(m·N/(P·g)): (g − 1)/g·n·sequence·hidden·(2 or 4
//   bytes)·c_g·1e-7 s, and
//     biases of 1e-10 to 3e-9 s that settle the order of what costs the same (recomputed and ZeRO-3 layers first)
//   of P stages: main_pipeline_seconds()
//
// Sources: PKU-DAIR/Hetu-Galvatron, galvatron/core/cost_model and core/search_engine. Its versions differ in details:
// where they do, docs/galvatron.md says what is taken.
#pragma once

#include "espalier/model.h"
#include "espalier/plan.h"
#include "galvatron/profile_files.h"
#include "galvatron/strategy_document.h"

namespace espalier::galvatron {

struct ProfileFiles {
  ComputationProfile computation;
  MemoryProfile memory;
  AllReduceBandwidth all_reduce;
  P2pBandwidth p2p;             ///< may be empty: one stage only
  CollectiveTimes collectives;  ///< may be empty: times follow from the all-reduce bandwidth
  double overlap_slowdown = 1;  ///< κ
};

/// ms of a number of samples.
struct LinearTime {
  double per_sample = 0, start = 0;
  [[nodiscard]] double at(double samples) const { return per_sample * samples + start; }
};

struct ProfiledLayerType {
  LayerMemory memory;
  LinearTime forward;
  std::int64_t sequence = 0, hidden = 0;
};

/// A model on a machine, as the formulas want it.
struct ProfiledModel {
  std::int64_t devices = 1, batch = 1;
  bool mixed_precision = true, sequence_parallel = true;
  bool reduce_every_microbatch = true;  ///< Galvatron's async_grad_reduce
  std::vector<ProfiledLayerType> types;
  std::vector<std::int32_t> layers;  ///< type of each block
  std::int64_t heads = 0;            ///< a group divides them; 0: any
  OtherMemory one_stage, first_stage, last_stage;
  LinearTime other_forward;
  AllReduceBandwidth all_reduce;
  P2pBandwidth p2p;
  CollectiveTimes collectives;
  double overlap_slowdown = 1;
};

/// Types are the model's kinds of blocks in order of appearance: "layertype_0" is the first. bad_input if the files
/// lack one of them, or its sequence length. Memory with Megatron's sequence parallelism ("_sp") is taken where the
/// file has it.
Result<ProfiledModel> profiled_model(const ProfileFiles& files, const Model& model, const Training& training,
                                     std::int64_t devices);

/// Stages and micro-batches.
struct ProfiledPipeline {
  std::int32_t pp = 1;
  std::int64_t chunks = 1;
};

struct ProfiledStrategy {
  std::int32_t group = 1;
  bool ulysses = false;  ///< else tensor parallel
  std::int32_t dp = 1;
  DataParallelType type = DataParallelType::ddp;
  bool checkpoint = false;
  friend bool operator==(const ProfiledStrategy&, const ProfiledStrategy&) = default;
};
/// pp-g[s]-dp[f][-c]: "1-1-8f-c", "2-4s-1"; s Ulysses, f ZeRO-3, c recomputed.
std::string to_string(const ProfiledStrategy& strategy, std::int32_t pp);

/// Embedding and head. `type` ZeRO-3 or the default.
struct VocabularyStrategy {
  std::int32_t group = 1;
  bool ulysses = false;
  DataParallelType type = DataParallelType::ddp;
  friend bool operator==(const VocabularyStrategy&, const VocabularyStrategy&) = default;
};

/// ratio(d) above.
double states_ratio(const ProfiledModel& model, DataParallelType type, std::int64_t ranks, std::int64_t chunks);

double layer_memory_mb(const ProfiledModel& model, const ProfiledLayerType& type, const ProfiledStrategy& strategy,
                       const ProfiledPipeline& pipeline, std::int32_t stage);
/// Of each stage.
std::vector<double> other_memory_mb(const ProfiledModel& model, const VocabularyStrategy& strategy,
                                    const ProfiledPipeline& pipeline);
/// The gathered input of tensor groups up to `group`; 0 for `group` 0: no tensor groups.
double buffer_mb(const ProfiledModel& model, std::int32_t group, const ProfiledPipeline& pipeline);
/// What the reserve leaves.
std::int64_t usable_mb(std::int64_t budget_mb);

/// Seconds of a micro-batch, and what reducing gradients adds in one.
struct ProfiledSeconds {
  double steady = 0, sync = 0;
};
ProfiledSeconds layer_seconds(const ProfiledModel& model, const ProfiledLayerType& type, const ProfiledStrategy& strategy,
                              const ProfiledPipeline& pipeline);
/// Of each stage.
std::vector<ProfiledSeconds> other_seconds(const ProfiledModel& model, const VocabularyStrategy& strategy,
                                           const ProfiledPipeline& pipeline);
double transition_seconds(const ProfiledModel& model, const ProfiledLayerType& type, const ProfiledStrategy& from,
                          const ProfiledStrategy& to, const ProfiledPipeline& pipeline);

/// A step of stages with steady times s_i and s_i + sync_i in the micro-batch that reduces, as the main branch scores
/// it, with q = min(P − 1, m − 1):
///     max( Σ s + s_last·(m − 1),
///          max(q·s_0/3, Σ_{i≥1} s_i/3) + max(2q·s_0/3, Σ_{i≥1} 2·s_i/3) + s_0·max(0, m + 1 − P) )
///     + max(0, max_i (s_i + sync_i − Σ_{j≤i} s_j))
/// It reads only the first and the last stage in the steady state.
double main_pipeline_seconds(const std::vector<ProfiledSeconds>& stages, std::int64_t chunks);

}  // namespace espalier::galvatron
