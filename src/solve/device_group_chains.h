// SPDX-License-Identifier: Apache-2.0
// Plans pipelines over groups of heterogeneous devices. It chooses which units of which kind form a stage, with which
// degrees, the order of the stages, and the layers of each.
//
// A plan is a chain of p stages. Stage i (0-based, in pipeline order) is an option and a contiguous non-empty range
// of layers. All stages together take at most the available units of each kind. The schedule is
// one-forward-one-backward (1F1B) with m micro-batches. Stage i keeps k_i = min(m, p − i) of them in flight. Its
// memory on a device is
//     fixed + Σ static + k_i·Σ saved + max_l (transient_l − Σ saved of the stage's layers behind l) + [k_i > 1]·message
//     ≤ memory.
// While a layer runs, its transients are held, and the saved activations of later layers are already freed. A stage
// with another behind it sends and receives. A stage's forward pass of one micro-batch takes f_i and its backward
// pass b_i (layers and pass), and w_i = f_i + b_i. Between stages i and i + 1 an activation takes d_i, its gradient
// r_i. After its last backward pass the stage needs e_i (its `end`). Its first forward pass ends no earlier than s_i
// + f_i after the start of the step, where s_i is its `begin`. All times are nanoseconds.
//
// Begin, end and the stretch of the last backward pass follow from communication that overlaps compute in n equal
// parts, n = min(layers, parts). Gathers that take G in total start with the step, and part j of the first forward
// pass waits for gather j. Reductions take R in total, and reduction j follows part j of the last backward pass.
// While either runs, compute takes κ ≥ 1 times as long. An update that takes u follows the reductions.
//     s = max( G/n + G·(1 − 1/n)·(1 − 1/κ),  G − f·(1 − 1/n) )
//     v = (1 − 1/n)·min( b·(κ − 1),  R·(1 − 1/κ) )                           the last backward takes b + v
//     e = max( R/n,  R − b·(1 − 1/n) − v ) + u
// - s: the first part waits for the first gather. After it, compute loses 1 − 1/κ of the time of the remaining
//   gathers. If these last longer than compute, its last part follows them all.
// - v: between the parts of the last backward pass there are two cases. Either reductions run all the time (and n − 1
//   parts take κ times as long), or each ends during the next part, which then loses R/n·(1 − 1/κ).
// - e: the last reduction follows the last part, and all of them follow the first.
// A first forward pass that starts later ends no sooner.
//
// The bound uses trips. S_i(q) = Σ_{i≤j≤i+q} w_j + Σ_{i≤j<i+q} (d_j + r_j) is a *trip* of depth q. It goes from stage
// i down to stage i + q and back, with a forward and a backward pass of each stage. A_i is the trip to the last
// stage. G_i is a lower bound of the time from the start of the first forward pass of stage i to the end of its last
// backward pass. Where k_i = m it is
//     G_i = max( m·w_i,  A_i + (m − 1)·b_i,  A_i + Σ_{j>i} v_j + (m − 1)·f_i ).
// Where k = k_i < m, it is the sum of a first, a middle and a last part:
//     first  = max( A_i,  S_i(q) + (k − 1 − q)·f_i )
//     middle = longest total time of trips that make m − k − 1 steps together
//     last   = max( A_i + Σ_{j>i} v_j,  S_i(q) + (k − 1 − q)·b_i ).
// Here q = 0, 1, 2 (q < k), and a trip of depth q makes q + 1 steps. The middle uses trips of one of these depths or
// to the last stage. Its remaining steps have depth 0 (1, where two are left and that is more). Then, from the last
// stage to the first,
//     X_i = max(G_i, w_i + d_i + r_i + X_{i+1}) + v_i     first forward of stage i to its last backward,
//     Y_i = max(X_i + e_i, f_i + d_i + Y_{i+1})           first forward of stage i to the end of the step on stages i
//                                                         and later,
//     Z_i = max(s_i + X_i, Z_{i+1} + r_i + b_i + v_i)     start of the step to the last backward of stage i.
// The bound is bound(plan) = max_i max(s_i + Y_i, Z_i + e_i).
//
// Proof. 1F1B runs F_1 … F_k on stage i, then B_1 F_{k+1} B_2 F_{k+2} … B_{m−k} F_m, then B_{m−k+1} … B_m (k = k_i).
// It runs them one at a time, so that m·w_i holds. F_t waits for the activation from the stage before, B_t for the
// gradient from the stage behind. Sends that block or wait for each other only add delay.
//
// Let k < m, so that k_{i+q} = k − q. A trip of depth q that begins with F_t goes down to F_t of stage i + q. There
// it is followed by B_{t−(k−q)+1}, whose gradient goes up to stage i. From the start of F_t to the end of B_{t−k+q+1}
// this takes S_i(q). After the end of B_t of stage i, t ≤ m − k, the next pass is F_{t+k}. A trip with it ends with
// B_{t+q+1}, which is q + 1 steps. So three chains follow each other:
// - F_1 … F_{k−q−1} of stage i, f_i each, and a trip of depth q with F_{k−q}, which ends with B_1 (to the last stage
//   it is F_1's own: q = k − 1);
// - trips from B_1 to B_{m−k}, which are m − k − 1 steps;
// - a trip with F_m, which ends with B_{m−k+q+1} and is followed by the remaining k − 1 − q backward passes.
// The last trip of all, with F_m to the last stage, passes the last backward pass of every stage, each with its v.
// Where k = m, the first trip to the last stage is followed by m − 1 backward passes, or the trip of F_m is preceded
// by as many forward passes.
//
// X: the first forward pass of stage i + 1 waits for f_i + d_i. The last backward pass of stage i starts r_i after
// that of stage i + 1 and takes b_i. Y: stage i ends e_i after its last backward pass, and the statement for the
// later stages starts f_i + d_i later. The sum W_<i + e_i of a later stage's end and the earlier stages' backward
// passes is *not* a bound. The end of a stage overlaps the backward passes of the stages before it.
//
// Each term counts the last backward pass as its last piece and the first forward pass as its first. So it holds from
// the end of the first forward pass less f_i to the start of the last backward pass plus b_i, whatever stretches
// these two. Hence v_i is added, and s_i + X_i and s_i + Y_i count from the start of the step. ∎
//
// The estimate (m − 1)·max w + Σ (w + d + r) + max e only orders plans of equal bound.
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

/// Describes one way to make a stage: on `units` units of a device kind, with fixed degrees. No figure is negative.
struct StageOption {
  std::int32_t kind = 0, units = 1;                        ///< kind: index into DeviceGroupsProblem::units; units ≥ 1
  std::vector<std::int64_t> forward_ns, backward_ns;       ///< [layer type], per micro-batch
  std::int64_t pass_forward_ns = 0, pass_backward_ns = 0;  ///< once per stage and micro-batch
  std::vector<std::int64_t> static_bytes, saved_bytes;     ///< [layer type]; saved: per micro-batch in flight
  std::vector<std::int64_t> transient_bytes;               ///< [layer type] while it runs; empty: none
  std::int64_t fixed_bytes = 0;                            ///< once per stage
  std::int64_t message_bytes = 0;                          ///< buffers of messages in transit
  std::int64_t memory_bytes = 0;                           ///< memory of a device
  std::vector<std::int64_t> end_ns;                        ///< [layer type] u: once per step, after the stage's reductions
  std::int64_t end_fixed_ns = 0;                           ///< like end_ns, once per stage
  std::vector<std::int64_t> gather_ns, reduce_ns;          ///< [layer type] G and R; empty: none
  std::int32_t parts = 1;                                  ///< most parts into which they are cut
  std::int64_t slowdown_millionths = 1'000'000;            ///< κ
  std::int32_t port = -1;                                  ///< row and column of send_ns; −1: its kind
};

/// Lists the rules that reduce the search; none of them changes the result.
enum class GroupRule : std::uint32_t {
  options = 1,  ///< options that another with as many units of the kind beats, for a range of layers
  room = 2,     ///< the remaining units cannot hold the remaining layers in time
  work = 4,     ///< with the least remaining work the bound is not below the limit
  labels = 8,   ///< partial plans that another beats
};

struct DeviceGroupsProblem {
  std::vector<std::int32_t> units;   ///< units of each kind, for example nodes or halves of nodes
  bool all_units = false;            ///< a plan must take every unit; otherwise it may leave units out
  std::vector<std::int32_t> layers;  ///< type of each layer, in order
  std::vector<StageOption> options;
  std::int64_t microbatches = 1;
  /// [from port][to port] is the time of one micro-batch, one way; empty: 0. A port belongs to options of one kind.
  std::vector<std::vector<std::int64_t>> send_ns;
  std::int32_t max_stages = 64;
  /// Plans whose bound is not below it are ignored.
  std::int64_t cutoff_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t floor_ns = 0;         ///< lower bound of all plans, from another call; 0: unknown
  std::size_t candidates = 32;       ///< number of plans to return
  std::int32_t slack_permille = 20;  ///< candidates may exceed the best bound by up to this much
  /// Limits the cells of the table over counts of units. With more cells, it distinguishes more numbers of stages.
  std::int64_t table_cells = 1'000'000;
  std::uint32_t without = 0;  ///< bits of GroupRule: disabled rules, to measure their effect
  bool prove = true;          ///< false: narrow passes only
  std::size_t width = 60;     ///< partial plans of narrow passes, for each number of stages and first layer
  std::int32_t depth = 24;    ///< numbers of stages that the tables distinguish
  /// Limits the partial plans kept, without those of narrow passes. If only a part of them can be kept, the answer is
  /// not exact.
  std::int64_t states = 3'000'000;
  /// Polled often, if set. Once it returns true, the results so far are returned soon, and the answer is not exact.
  std::function<bool()> stop;
};

/// Holds layers [first, last], both included.
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
  std::int64_t states = 0;           ///< partial plans kept, over all passes
  std::int64_t tried = 0;            ///< attempts to put a stage in front of a partial plan
  std::int64_t no_room = 0;          ///< attempts for which the remaining units cannot hold the remaining layers in time
  std::int64_t too_late = 0;         ///< attempts whose bound with the least remaining work is not below the limit
  std::int64_t beaten = 0;           ///< attempts where another partial plan is no worse in every figure
};

struct DeviceGroupsOutcome {
  /// At most bound(plan) of every feasible plan; the largest 64-bit number if no plan is feasible at all.
  std::int64_t lower_bound_ns = 0;
  /// Whether nothing was cut. Then the first candidate has the least bound of all plans, and lower_bound_ns is that
  /// bound. Or there is no candidate, and no plan has a bound below the cutoff.
  bool exact = false;
  /// Candidates are sorted by (bound, estimate, number of stages, stages). For each number of stages, units used and
  /// kind of the first stage, only plans that no other beats are included.
  std::vector<GroupedPipeline> candidates;
  DeviceGroupsCounters counters;
};

/// Holds the tables that follow from the units, layers and options of a problem. They are built once for several
/// calls that differ in `cutoff_ns`, `floor_ns`, `prove`, `width` and similar fields. Only one call at a time may use
/// them.
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

/// Returns the same answer each time. Permuting kinds or scaling times permutes and scales the answer, up to plans of
/// equal rank.
DeviceGroupsOutcome plan_device_groups(const DeviceGroupsProblem& problem);
/// Runs the same search with existing tables of the problem.
DeviceGroupsOutcome plan_device_groups(const DeviceGroupsProblem& problem, const DeviceGroupsTables& tables);

/// Returns the plan with these stages, its bound and its estimate. Returns nullopt if it takes more units or memory
/// than available, or leaves out a unit that it must take.
std::optional<GroupedPipeline> evaluate_stages(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages);

/// Evaluates the stages under ZB-H1. The backward pass of a layer has two parts; its weight gradients run when the
/// stage is otherwise idle. The bound is
///     max_i ( Σ_{j<i} (f_j + d_j) + m·w_i + end of stage i )
/// It holds because nothing of stage i begins before its first micro-batch has come down, and the stage computes
/// m·w_i, one pass at a time. Each pass in two parts may be rounded down by kSplitRoundingNs per layer more than in
/// one part. Memory is that of 1F1B without transients, because as many micro-batches wait for their input gradient.
/// Trips do not apply: a gradient goes up before the weight gradients of its stage, and these may be arbitrarily
/// late.
std::optional<GroupedPipeline> evaluate_zero_bubble(const DeviceGroupsProblem& problem, const std::vector<GroupedStage>& stages);
inline constexpr std::int64_t kSplitRoundingNs = 8;

}  // namespace espalier::solve
