// SPDX-License-Identifier: Apache-2.0
// Pipelines over groups of unlike devices: which units of which kind form a stage, with which degrees, in which order
// the stages stand, and which layers each gets.
//
// A plan is a chain of p stages; stage i (0-based, in pipeline order) is an option and a contiguous non-empty range of
// layers. The units of a kind that all stages take together are at most what there is. The schedule is
// one-forward-one-backward (1F1B) with m
// micro-batches: stage i keeps k_i = min(m, p − i) of them in flight, so its memory on a device is
//     fixed + Σ static + k_i·Σ saved + max_l (transient_l − Σ saved of the stage's layers behind l) + [k_i > 1]·message
//     ≤ memory:
// while a layer runs its transients are there, and what later layers keep is not; a stage that has another behind it
// sends and receives. A stage's forward of one micro-batch takes f_i, its backward b_i (layers and pass), w_i = f_i +
// b_i; between stage i and i + 1 an activation takes d_i, its gradient r_i; after its own last backward the stage needs
// e_i (its `end`), and before s_i (its `begin`) after the start of the step its first forward cannot start, or not in
// such a way that it ends before s_i + f_i. All times are nanoseconds.
//
// Begin, end and what stretches the last backward follow from communication beside compute in n equal parts, n =
// min(layers, parts). Gathers that take G in all begin with the step, and part j of the first forward waits for gather
// j; reduction j of those that take R in all follows part j of the last backward. While either runs, compute takes κ ≥
// 1 times as long. An update that takes u comes after the reductions:
//     s = max( G/n + G·(1 − 1/n)·(1 − 1/κ),  G − f·(1 − 1/n) )
//     v = (1 − 1/n)·min( b·(κ − 1),  R·(1 − 1/κ) )                           the last backward takes b + v
//     e = max( R/n,  R − b·(1 − 1/n) − v ) + u
// s: the first part waits for the first gather, and behind that compute loses 1 − 1/κ of the time of the gathers that
// are left, or, where they last longer than compute, its last part follows them all. v: between the parts of the last
// backward either reductions run all the time (and n − 1 parts take κ times as long) or each ends beside the next part,
// which then loses R/n·(1 − 1/κ). e: the last reduction comes after the last part, and all of them after the first. A
// first forward that starts later ends no sooner.
//
// The bound. S_i(q) = Σ_{i≤j≤i+q} w_j + Σ_{i≤j<i+q} (d_j + r_j) is a *trip* of depth q: from stage i down to stage i +
// q and back, a forward and a backward of each; A_i is the trip to the last stage. The time from the start of the first
// forward of stage i to the end of its last backward is at least G_i: where k_i = m
//     G_i = max( m·w_i,  A_i + (m − 1)·b_i,  A_i + Σ_{j>i} v_j + (m − 1)·f_i ),
// and where k = k_i < m the sum of a first, a middle and a last part,
//     first  = max( A_i,  S_i(q) + (k − 1 − q)·f_i )
//     middle = the most that trips can take which make m − k − 1 steps together, one of depth q making q + 1
//     last   = max( A_i + Σ_{j>i} v_j,  S_i(q) + (k − 1 − q)·b_i )
// with q = 0, 1, 2 (q < k) and trips of one of these depths or to the last stage in the middle, the rest of the steps
// of depth 0 (1, where two are left and that is more). Then, from the last stage to the first,
//     X_i = max(G_i, w_i + d_i + r_i + X_{i+1}) + v_i     first forward of stage i to its last backward,
//     Y_i = max(X_i + e_i, f_i + d_i + Y_{i+1})           first forward of stage i to the end of the step on stages i
//                                                         and later,
//     Z_i = max(s_i + X_i, Z_{i+1} + r_i + b_i + v_i)     begin of the step to the last backward of stage i,
// and bound(plan) = max_i max(s_i + Y_i, Z_i + e_i).
//
// Proof. 1F1B runs on stage i: F_1 … F_k, then B_1 F_{k+1} B_2 F_{k+2} … B_{m−k} F_m, then B_{m−k+1} … B_m (k = k_i),
// one at a time, so that m·w_i holds. F_t waits for the activation from the stage before, B_t for the gradient from the
// stage behind; sends that block or wait for each other only delay. Let k < m, so that k_{i+q} = k − q. A trip of depth
// q that begins with F_t goes down to F_t of stage i + q; what follows that there is B_{t−(k−q)+1}, whose gradient goes
// up to stage i: from the begin of F_t to the end of B_{t−k+q+1} it takes S_i(q). At the end of B_t of stage i, t ≤ m −
// k, the next is F_{t+k}: a trip with it ends with B_{t+q+1}, which is q + 1 steps. So three chains follow each other:
// F_1 … F_{k−q−1} of stage i, f_i each, and a trip of depth q with F_{k−q}, which ends with B_1 (to the last stage it
// is F_1's own:
// q = k − 1); trips from B_1 to B_{m−k}, which are m − k − 1 steps; and a trip with F_m, which ends with B_{m−k+q+1}
// and is followed by the k − 1 − q backwards left. The last trip of all, with F_m to the last stage, passes the last
// backward of every stage, each with its v. Where k = m the first trip to the last stage is followed by m − 1
// backwards, or that of F_m preceded by as many forwards. X: the first forward of stage i + 1 waits for f_i + d_i, and
// the last backward of stage i comes r_i after that of stage i + 1 and takes b_i. Y: stage i ends e_i after its last
// backward, and what is true of the later stages begins f_i + d_i later. The sum W_<i + e_i of a later stage's end and
// the earlier stages' backwards is *not* a bound: the end of a stage runs beside the backwards of the stages before it.
// Each term counts the last backward as its last piece and the first forward as its first, so that it holds from the
// end of the first forward less f_i, and to the start of the last backward plus b_i, whatever stretches these two:
// hence v_i, and s_i + X_i and s_i + Y_i count from the begin of the step. ∎
//
// The estimate (m − 1)·max w + Σ (w + d + r) + max e orders plans of equal bound and says no more.
//
// The method is in docs/search.md, "Stages on device groups". Every sum must stay below 2^62.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

namespace espalier::solve {

/// One way to make a stage: on `units` units of a device kind, with fixed degrees. Nothing is negative.
struct StageOption {
  std::int32_t kind = 0, units = 1;                        ///< kind: index into DeviceGroupsProblem::units; units ≥ 1
  std::vector<std::int64_t> forward_ns, backward_ns;       ///< [layer type], of one micro-batch
  std::int64_t pass_forward_ns = 0, pass_backward_ns = 0;  ///< once a stage and micro-batch
  std::vector<std::int64_t> static_bytes, saved_bytes;     ///< [layer type]; saved: of each micro-batch in flight
  std::vector<std::int64_t> transient_bytes;               ///< [layer type] while it runs; empty: none
  std::int64_t fixed_bytes = 0;                            ///< once a stage
  std::int64_t message_bytes = 0;                          ///< of messages on their way
  std::int64_t memory_bytes = 0;                           ///< what a device has
  std::vector<std::int64_t> end_ns;                        ///< [layer type] u: once a step, after the stage's
                                                           ///< reductions
  std::int64_t end_fixed_ns = 0;                           ///< the same, once a stage
  std::vector<std::int64_t> gather_ns, reduce_ns;          ///< [layer type] G and R; empty: none
  std::int32_t parts = 1;                                  ///< into which they are cut at most
  std::int64_t slowdown_millionths = 1'000'000;            ///< κ
  std::int32_t port = -1;                                  ///< its row and column of send_ns; −1: its kind
};

/// What makes the search small; none of them changes what it finds.
enum class GroupRule : std::uint32_t {
  options = 1,  ///< options that another of as many units of the kind beats, for a range of layers
  room = 2,     ///< the units left cannot hold the layers left in time
  work = 4,     ///< with the least work left the bound is not below the limit
  labels = 8,   ///< partial plans that another beats
};

struct DeviceGroupsProblem {
  std::vector<std::int32_t> units;   ///< of each kind, for example nodes or halves of nodes
  bool all_units = false;            ///< a plan must take every unit; else it may leave units out
  std::vector<std::int32_t> layers;  ///< type of each layer, in order
  std::vector<StageOption> options;
  std::int64_t microbatches = 1;
  /// [from port][to port] of one micro-batch, one way; empty: 0. A port belongs to options of one kind.
  std::vector<std::vector<std::int64_t>> send_ns;
  std::int32_t max_stages = 64;
  std::int64_t cutoff_ns = std::numeric_limits<std::int64_t>::max();  ///< plans whose bound is not below it are of no
                                                                      ///< interest
  std::int64_t floor_ns = 0;             ///< no plan has a bound below it, as another call said; 0: not known
  std::size_t candidates = 32;           ///< how many plans to return
  std::int32_t slack_permille = 20;      ///< candidates are looked for up to this much above the best bound
  std::int64_t table_cells = 1'000'000;  ///< of the table over counts of units; with more, more stages are told apart
  std::uint32_t without = 0;             ///< of GroupRule: those that are left out, to see what they are worth
  bool prove = true;                     ///< false: plans of narrow passes alone
  std::size_t width = 60;                ///< partial plans of narrow passes, for each number of stages and first layer
  std::int32_t depth = 24;               ///< numbers of stages that the tables tell apart
  /// Partial plans that may be kept, narrow passes aside; with a part of them, the answer is not exact.
  std::int64_t states = 3'000'000;
  std::function<bool()>
      stop;  ///< polled often, if there is one; when true, what was found is returned soon, and the answer is not exact
};

/// Layers [first, last], both included.
struct GroupedStage {
  std::int32_t option = 0, first = 0, last = 0;
  bool operator==(const GroupedStage&) const = default;
};

struct GroupedPipeline {
  std::vector<GroupedStage> stages;
  std::int64_t bound_ns = 0, estimate_ns = 0;
};

struct DeviceGroupsCounters {
  std::int64_t options_dropped = 0;  ///< options that another of the same kind and units is no worse than
  std::int64_t passes = 0;           ///< label searches, with and without a limit on their width
  std::int64_t states = 0;           ///< partial plans that were kept, over all passes
  std::int64_t tried = 0;            ///< ways to put a stage in front of a partial plan
  std::int64_t no_room = 0;          ///< of these: the units left cannot hold the layers left in time
  std::int64_t too_late = 0;         ///< of these: the bound with the least work left is not below the limit
  std::int64_t beaten = 0;           ///< of these: another partial plan is no worse in all
};

struct DeviceGroupsOutcome {
  /// At most bound(plan) of every feasible plan; the largest 64-bit number when no plan is feasible at all.
  std::int64_t lower_bound_ns = 0;
  /// Nothing was cut: the first candidate has the least bound of all plans and lower_bound_ns is that bound; or there
  /// is no candidate, and no plan has a bound below the cutoff.
  bool exact = false;
  /// By (bound, estimate, number of stages, stages); for each number of stages, units used and kind of the first stage
  /// only plans that no other beats.
  std::vector<GroupedPipeline> candidates;
  DeviceGroupsCounters counters;
};

/// What follows from the units, layers and options of a problem, whatever is asked about them: made once for several
/// calls that differ in `cutoff_ns`, `floor_ns`, `prove`, `width` and the like. Calls share it one after the other.
class DeviceGroupsTables {
 public:
  explicit DeviceGroupsTables(const DeviceGroupsProblem& problem);
  ~DeviceGroupsTables();
  DeviceGroupsTables(const DeviceGroupsTables&) = delete;
  DeviceGroupsTables& operator=(const DeviceGroupsTables&) = delete;

  struct Parts;
  [[nodiscard]] Parts& parts() const { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

/// The same answer each time; permuting kinds or scaling times permutes and scales it, up to plans of equal rank.
DeviceGroupsOutcome plan_device_groups(const DeviceGroupsProblem& problem);
/// The same with tables of the problem.
DeviceGroupsOutcome plan_device_groups(const DeviceGroupsProblem& problem, const DeviceGroupsTables& tables);

/// The plan with these stages, its bound and its estimate; nothing if it takes more units or memory than there is, or
/// leaves out a unit that it must take.
std::optional<GroupedPipeline> evaluate_stages(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages);

/// The same stages under ZB-H1: the backward of a layer in two parts, its weight gradients when there is nothing else
/// to do. Its bound is
///     max_i ( Σ_{j<i} (f_j + d_j) + m·w_i + end of stage i )
/// where nothing of stage i begins before its first micro-batch has come down, and it computes m·w_i, one pass at a
/// time. Each pass in two parts may be rounded down by kSplitRoundingNs a layer more than in one. Memory is what 1F1B
/// holds without transients: as many micro-batches wait for their input gradient. No trips: a gradient goes up before
/// the weight gradients of its stage, and how late these are is free.
std::optional<GroupedPipeline> evaluate_zero_bubble(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages);
inline constexpr std::int64_t kSplitRoundingNs = 8;

}  // namespace espalier::solve
