// SPDX-License-Identifier: Apache-2.0
// Implements Galvatron's cost model of versions 2.0 to main over the results of its profilers (profile_files.h).
// These are predictions by published formulas; Espalier's own model has no part in them.
//
// A step has B samples in m micro-batches on P stages of N/P devices. A layer has a group of g ranks (tensor parallel
// t = g, or Ulysses with t = 1), dp = N/(P·g), b = B/(m·dp) samples of a micro-batch on a rank. There are d ranks
// with the same weights: dp, or g·dp with Ulysses.
//
// Memory, MB of 2^20 bytes, of a layer on stage i:
//
//     p = parameters (fp32) / t,    states = 4·p·ratio(d)
//     ratio       ddp 1; with r = 1/d + 0.003
//                 one micro-batch:                        ZeRO-3 r,           ZeRO-2 7/8·r + 1/8   (fp32 3/4·r + 1/4)
//                 several, gradients reduced in each:     ZeRO-3 7/8·r + 1/8, ZeRO-2 6/8·r + 2/8
//                                                 (fp32:  ZeRO-3 3/4·r + 1/4, ZeRO-2 2/4·r + 2/4)
//                 several, gradients reduced at the end:  as one micro-batch, times 5/4 (ZeRO-2 in fp32: unchanged)
//     kept        activation[g]·b, recomputed checkpoint·b (divided by g with Megatron's sequence parallelism),
//                 for P − i micro-batches at once (one forward, one backward).
//     A layer takes ⌈states + kept⌉.
//
//   Embedding and head have a group of v ranks, v' = v if tensor parallel, 1 with Ulysses. On the first and the last
//   stage they add states[v']·ratio(N/(P·v')) + activation[v]·B/(m·N/(P·v))·(P on the first stage, 1 on the last).
//   On every stage, the framework takes 1024 MB.
//
//   With tensor groups up to g, every stage has gathered input B/(m·N/(P·g))·sequence·hidden·4/2^20, half of it in
//   mixed precision. One fifth of budgets above 20 GiB is kept free for the allocator.
//
// Time of a micro-batch, ms:
//
//     forward     f(b/g), linear in samples, fitted to the profile;   backward 2·f, recomputed 3·f
//     group       M = b·sequence·hidden·4/2^20 MB (2 in mixed precision). 6 all-gathers of M (with Megatron's sequence
//                 parallelism; half an all-reduce each), 4 all-reduces of M (without), 4 all-to-alls of M (Ulysses);
//                 ×1.5 recomputed
//     gradients   G = 2·(d − 1)/d·p MB, half of it in mixed precision, at c = 1/(all-reduce GB/s of d ranks) ms/MB.
//                 While they overlap with backward, both slow down by κ: overlap(G, w) = min(G·c·κ, w·κ) + the rest of
//                 either at full speed. With dp = 1 nothing is reduced. With g = 1 or dp > 2 all of backward overlaps,
//                 else half of it.
//     ZeRO-3      + G/2·c for gathered weights
//     P > 1       + P·2·M·(1/GB/s of P stages)/L, where L counts the model's layers.
//
//   Embedding and head (with P > 1 half of the time on each end) take F = f_other(B/(m·N/P)), with gradients
//   G' = states[v']/4 at c·(d − 1)/d. Their forward is F + hidden(G'/2 if ZeRO-3). Their backward is
//   2F + hidden(G'/2 for gradients, once more if ZeRO-3). Each end adds an all-gather of M of v ranks.
//   Communication q hidden under work w costs max(w + q·(1 − 1/κ), q).
//
//   Between layers of unlike groups, g the larger, n = B/(m·N/(P·g)), the cost is
//   (g − 1)/g·n·sequence·hidden·(2 or 4 bytes)·c_g·1e-7 s. Biases of 1e-10 to 3e-9 s order equal costs (recomputed and
//   ZeRO-3 layers first). P stages take main_pipeline_seconds().
//
// Sources: PKU-DAIR/Hetu-Galvatron, galvatron/core/cost_model and core/search_engine. Its versions differ in details;
// docs/galvatron.md lists the choices made here.
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

/// Gives the ms of a number of samples.
struct LinearTime {
  double per_sample = 0, start = 0;
  [[nodiscard]] double at(double samples) const { return per_sample * samples + start; }
};

struct ProfiledLayerType {
  LayerMemory memory;
  LinearTime forward;
  std::int64_t sequence = 0, hidden = 0;
};

/// Describes a model on a machine, as the formulas need it.
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

/// Builds the model. Its types are the kinds of blocks in order of appearance: "layertype_0" is the first. Fails
/// (bad_input) if the files lack one of them, or its sequence length. Memory with Megatron's sequence parallelism
/// ("_sp") is used where the file has it.
Result<ProfiledModel> profiled_model(const ProfileFiles& files, const Model& model, const Training& training,
                                     std::int64_t devices);

/// Counts stages and micro-batches.
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
/// Returns pp-g[s]-dp[f][-c], such as "1-1-8f-c" or "2-4s-1": s is Ulysses, f ZeRO-3, c recomputed.
std::string to_string(const ProfiledStrategy& strategy, std::int32_t pp);

/// Describes embedding and head. `type` is ZeRO-3 or the default.
struct VocabularyStrategy {
  std::int32_t group = 1;
  bool ulysses = false;
  DataParallelType type = DataParallelType::ddp;
  friend bool operator==(const VocabularyStrategy&, const VocabularyStrategy&) = default;
};

/// Returns ratio(d) above.
double states_ratio(const ProfiledModel& model, DataParallelType type, std::int64_t ranks, std::int64_t chunks);

double layer_memory_mb(const ProfiledModel& model, const ProfiledLayerType& type, const ProfiledStrategy& strategy,
                       const ProfiledPipeline& pipeline, std::int32_t stage);
/// Returns the memory of embedding and head on each stage.
std::vector<double> other_memory_mb(const ProfiledModel& model, const VocabularyStrategy& strategy,
                                    const ProfiledPipeline& pipeline);
/// Returns the size of the gathered input of tensor groups up to `group`; 0 for `group` 0, without tensor groups.
double buffer_mb(const ProfiledModel& model, std::int32_t group, const ProfiledPipeline& pipeline);
/// Returns the budget less the reserve.
std::int64_t usable_mb(std::int64_t budget_mb);

/// Holds the seconds of a micro-batch, and the additional seconds of reducing gradients in one.
struct ProfiledSeconds {
  double steady = 0, sync = 0;
};
ProfiledSeconds layer_seconds(const ProfiledModel& model, const ProfiledLayerType& type, const ProfiledStrategy& strategy,
                              const ProfiledPipeline& pipeline);
/// Returns the times of embedding and head on each stage.
std::vector<ProfiledSeconds> other_seconds(const ProfiledModel& model, const VocabularyStrategy& strategy,
                                           const ProfiledPipeline& pipeline);
double transition_seconds(const ProfiledModel& model, const ProfiledLayerType& type, const ProfiledStrategy& from,
                          const ProfiledStrategy& to, const ProfiledPipeline& pipeline);

/// Returns a step of stages with steady times s_i, and s_i + sync_i in the micro-batch that reduces. It is the score
/// of the main branch, with q = min(P − 1, m − 1). In the steady state it reads only the first and the last stage:
///
///     max( Σ s + s_last·(m − 1),
///          max(q·s_0/3, Σ_{i≥1} s_i/3) + max(2q·s_0/3, Σ_{i≥1} 2·s_i/3) + s_0·max(0, m + 1 − P) )
///     + max(0, max_i (s_i + sync_i − Σ_{j≤i} s_j))
double main_pipeline_seconds(const std::vector<ProfiledSeconds>& stages, std::int64_t chunks);

}  // namespace espalier::galvatron
