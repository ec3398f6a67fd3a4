// SPDX-License-Identifier: Apache-2.0
#include "cost/price.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "base/check.h"
#include "cost/redistribution.h"
#include "cost/rounding.h"
#include "plan/shared_table.h"

namespace espalier::cost {
namespace {

/// Strategies that share states and step-end communication: equal but for recomputation.
bool reduce_together(const Strategy& a, const Strategy& b) {
  if (&a == &b) return true;
  Strategy x = a;
  x.recompute = b.recompute;
  return x == b;
}

/// Layers of one such group in a chunk or stage.
struct Share {
  const Assembly* under = nullptr;
  ParameterElements elements;
  TensorSync sync;
  std::int32_t layers = 0;
};
using Shares = std::vector<Share>;

Share& share_of(Shares& shares, const Assembly& x) {
  for (Share& s : shares)
    if (reduce_together(s.under->s, x.s)) return s;
  shares.push_back({&x, {}, {}, 0});
  return shares.back();
}

/// What is known of a chunk before its stage is.
struct PricedChunk {
  ChunkTotal total;
  Shares shares;           ///< empty where another chunk has the same
  std::int32_t like = -1;  ///< that chunk, or itself
  std::int32_t stage = 0;
  std::int64_t reduce_ns = 0, gather_ns = 0;  ///< of one bucket
  std::int64_t boundary_bytes = 0, transfer_ns = 0;
};

}  // namespace

struct PriceScratch::State {
  ChunkRanges ranges;
  std::vector<PricedChunk> chunks;
  std::vector<Shares> held;  ///< by stage
};

PriceScratch::PriceScratch() : state_(std::make_unique<State>()) {}
PriceScratch::~PriceScratch() = default;
PriceScratch::PriceScratch(PriceScratch&&) noexcept = default;
PriceScratch& PriceScratch::operator=(PriceScratch&&) noexcept = default;

namespace {

class Pricer {
 public:
  /// `split`, `only`: of one strategy for all layers its split and its assembly; else null.
  Pricer(const CostContext& c, const ProgramStructure& structure, const ChunkRanges& chunks, const SplitTable* split,
         const Assembly* only, ChunkEdges edges, PriceScratch::State& scratch, Costs& out, Program* program)
      : c_(c),
        structure_(structure),
        chunks_(chunks),
        split_(split),
        only_(only),
        edges_(edges),
        priced_(scratch.chunks),
        held_(scratch.held),
        out_(out),
        program_(program) {}

  void run() {
    ESPALIER_CHECK(static_cast<std::int32_t>(chunks_.size()) == structure_.chunks());
    ESPALIER_CHECK(program_ == nullptr || program_->structure == structure_);
    out_.reset(structure_);
    out_.allocator_reserve = c_.engine->memory.allocator_reserve;
    priced_.resize(chunks_.size());
    held_.resize(static_cast<std::size_t>(structure_.schedule.stages));
    for (Shares& shares : held_) shares.clear();
    if (program_ != nullptr) program_->parts.clear();
    for (std::int32_t i = 0; i < structure_.chunks(); ++i) priced(i).stage = place_of_chunk(structure_.schedule, i).stage;
    for (std::int32_t i = 0; i < structure_.chunks(); ++i) price_chunk(i);
    exchange_table();
    for (std::int32_t i = 0; i < structure_.schedule.stages; ++i) price_stage(i);
    for (std::int32_t i = 0; i < structure_.chunks(); ++i) {
      wait_for_sums(i);
      wait_for_reduction(i);
      write_chunk(i);
    }
    if (only_ != nullptr) slow_down(*only_);
    for (const Assembly& x : assemblies_) slow_down(x);
  }

 private:
  [[nodiscard]] const std::vector<RangeCost>& ranges(std::int32_t chunk) const {
    return chunks_[static_cast<std::size_t>(chunk)];
  }
  [[nodiscard]] PricedChunk& priced(std::int32_t chunk) { return priced_[static_cast<std::size_t>(chunk)]; }
  [[nodiscard]] std::int32_t stage_of(std::int32_t chunk) const { return priced_[static_cast<std::size_t>(chunk)].stage; }
  [[nodiscard]] std::int32_t kind_of(std::int32_t layer) const {
    return c_.workload.model->layers[static_cast<std::size_t>(layer)];
  }
  [[nodiscard]] PhaseTime& optimizer(std::int32_t stage) { return out_.works[structure_.optimizer(stage)].time; }

  void slow_down(const Assembly& x) {
    out_.compute_slowdown = std::max(out_.compute_slowdown, x.groups.slowdown.compute);
    out_.communication_slowdown = std::max(out_.communication_slowdown, x.groups.slowdown.communication);
  }

  const Assembly& under(const RangeCost& range) {
    if (only_ != nullptr) return *only_;
    for (const Assembly& x : assemblies_)
      if (&x.s == range.strategy) return x;
    assemblies_.push_back(assembly_of(c_, *range.strategy, structure_.schedule.stages, *range.layers, edges_));
    return assemblies_.back();
  }
  const Assembly& under_embedding() { return under(chunks_.front().front()); }

  // ---- chunks ----------------------------------------------------------------------------------------------------------------

  void price_chunk(std::int32_t i) {
    PricedChunk& chunk = priced(i);
    const bool copy = holds_copy(structure_.table_chunks, i);
    chunk.shares.clear();
    chunk.like = i;
    if (const std::int32_t twin = twin_of(i); twin != i && !copy && program_ == nullptr) {
      const PricedChunk& same = priced(twin);
      chunk.total = same.total;
      chunk.reduce_ns = same.reduce_ns;
      chunk.gather_ns = same.gather_ns;
      chunk.like = twin;
    } else {
      sum_layers(i, copy, chunk);
      const double buckets = structure_.buckets[static_cast<std::size_t>(i)];
      chunk.reduce_ns = structure_.reduce_gradients ? step_end_ns(chunk.shares, buckets, structure_.grad_reduce(i), true) : 0;
      chunk.gather_ns = structure_.gather_parameters ? step_end_ns(chunk.shares, buckets, structure_.param_gather(i), false) : 0;
    }
    fill_transfer(i, chunk);
    hold(stage_of(i), priced(chunk.like).shares);
  }

  /// An earlier chunk of the same layers in as many buckets.
  [[nodiscard]] std::int32_t twin_of(std::int32_t i) const {
    if (split_ == nullptr) return i;
    const std::int32_t twin = split_->twin(i);
    const auto buckets = [&](std::int32_t c) { return structure_.buckets[static_cast<std::size_t>(c)]; };
    return buckets(twin) == buckets(i) ? twin : i;
  }

  void sum_layers(std::int32_t i, bool copy, PricedChunk& chunk) {
    ChunkSum sum(chunk.total);
    const RangeCost* before = i > 0 ? &ranges(i - 1).back() : nullptr;
    for (const RangeCost& range : ranges(i)) {
      const Assembly& x = under(range);
      if (before != nullptr && before->strategy != range.strategy) redistribute(*before, range, sum);
      add_range(range, x, sum, share_of(chunk.shares, x));
      before = &range;
    }
    sum.finish(under(ranges(i).front()), kind_of(ranges(i).front().first));
    if (copy) add_copy(i, sum, chunk.shares);
    for (const Share& s : chunk.shares) chunk.total.gradient_sync_ns += round_ns(tensor_sync_s(*s.under, s.sync));
  }

  /// Layers of a range, as runs of one kind; full recomputation for its first blocks.
  void add_range(const RangeCost& range, const Assembly& x, ChunkSum& sum, Share& share) const {
    const Recompute& r = x.s.recompute;
    std::int64_t again = r.layers;
    for (std::int32_t first = range.first; first <= range.last;) {
      const std::int32_t kind = kind_of(first);
      std::int32_t end = first + 1;
      while (end <= range.last && kind_of(end) == kind) ++end;
      const std::int32_t layers = end - first;
      add_share(x.layers[static_cast<std::size_t>(kind)], layers, share);
      const bool block = c_.workload.model->kinds[static_cast<std::size_t>(kind)].role == LayerRole::block;
      const std::int64_t full =
          block && r.kind == RecomputeKind::full ? std::min<std::int64_t>(std::max<std::int64_t>(again, 0), layers) : 0;
      if (full > 0) sum.add(x, kind, full, RecomputeKind::full);
      const RecomputeKind rest = block && r.kind == RecomputeKind::selective ? RecomputeKind::selective : RecomputeKind::none;
      if (full < layers) sum.add(x, kind, layers - full, rest);
      again -= full;
      first = end;
    }
  }

  static void add_share(const LayerCost& layer, std::int32_t layers, Share& share) {
    share.elements.dense += layer.dense_parameters * layers;
    share.elements.expert += layer.expert_parameters * layers;
    share.sync += layer.tensor_sync.times(layers);
    share.layers += layers;
  }

  void redistribute(const RangeCost& before, const RangeCost& range, ChunkSum& sum) {
    const auto kind = static_cast<std::size_t>(kind_of(before.last));
    const std::int64_t samples = std::int64_t{structure_.schedule.micro_batch} * chunks_.front().front().strategy->dp;
    const RangeMove move =
        range_move(c_.workload, c_.fabric, *before.strategy, *range.strategy, c_.workload.model->kinds[kind],
                   (*before.layers)[kind], (*range.layers)[static_cast<std::size_t>(kind_of(range.first))], samples);
    sum.redistribute(move.forward.total_ns(), move.backward.total_ns());
  }

  /// The copy of the token table that chunk i holds beside its layers, laid out as the embedding's strategy says.
  void add_copy(std::int32_t i, ChunkSum& sum, Shares& shares) {
    const std::int32_t user = table_layer(*c_.workload.model, ranges(i).front().first, ranges(i).back().last);
    const auto range = std::find_if(ranges(i).begin(), ranges(i).end(), [&](const RangeCost& r) { return user <= r.last; });
    const LayerCost& cost = (*range->layers)[static_cast<std::size_t>(kind_of(user))];
    const Assembly& embedding = under_embedding();
    const std::int64_t elements = table_elements(*c_.workload.model, *c_.engine, embedding.s);
    sum.add_table(elements, table_zero_time(embedding, cost, elements, edges_), user == ranges(i).front().first);
    share_of(shares, embedding).elements.dense += elements;
  }

  // ---- communication at the end of the step ---------------------------------------------------------------------------------

  /// Nanoseconds of one bucket of a chunk's reduction or gather, a mean over what the ranges' own buckets take.
  std::int64_t step_end_ns(const Shares& shares, double buckets, CollectiveId id, bool reduction) {
    std::int32_t layers = 0;
    for (const Share& s : shares) layers += s.layers;
    double seconds = 0;
    const auto begin = program_ != nullptr ? program_->parts.size() : 0;
    for (const Share& s : shares) {
      if (!(reduction ? reduces_gradients(c_.workload.experts, s.under->s) : gathers_parameters(s.under->s))) continue;
      const double own = std::max(1.0, std::floor(buckets * s.layers / layers));
      const double weight = shares.size() == 1 ? 1.0 : own / buckets;
      double t = 0;
      const auto emit = [&](const Message& m) {
        t += message_s(c_.fabric, m);
        if (program_ != nullptr) record(*s.under, m, weight, reduction);
      };
      const auto dense = static_cast<double>(s.elements.dense), expert = static_cast<double>(s.elements.expert);
      if (reduction)
        each_reduction(*s.under, dense, expert, own, emit);
      else
        each_gather(*s.under, dense, expert, own, emit);
      seconds += weight * t;
    }
    if (program_ != nullptr) {
      program_->collectives[id].parts_begin = static_cast<std::int32_t>(begin);
      program_->collectives[id].parts_end = static_cast<std::int32_t>(program_->parts.size());
    }
    // A mean of several is rounded up, so that all buckets together are never shorter than what they are made of.
    return shares.size() == 1 ? round_ns(seconds) : static_cast<std::int64_t>(std::ceil(seconds * 1e9 - 1e-6));
  }

  void record(const Assembly& x, const Message& m, double weight, bool reduction) {
    if (m.placed.size <= 1) return;
    CollectivePart part;
    part.kind = m.kind;
    part.group = m.group;
    part.strategy = strategy_index(x.s);
    part.bytes = m.bytes;
    part.message_bytes = m.message_bytes;
    part.share = weight;
    part.element_bytes = reduction ? x.states.reduce : x.states.gather;
    program_->parts.push_back(part);
  }

  [[nodiscard]] std::int32_t strategy_index(const Strategy& s) const {
    const auto at = std::find(program_->strategies.begin(), program_->strategies.end(), s);
    ESPALIER_CHECK(at != program_->strategies.end());
    return static_cast<std::int32_t>(at - program_->strategies.begin());
  }

  /// The gradient of a table that several stages hold.
  void exchange_table() {
    if (structure_.table_chunks.empty()) return;
    const Assembly& embedding = under_embedding();
    out_.collectives[structure_.tied_reduce()] = Nanoseconds(round_ns(table_exchange_s(embedding, structure_)));
    if (program_ == nullptr) return;
    Collective& exchange = program_->collectives[structure_.tied_reduce()];
    exchange.parts_begin = static_cast<std::int32_t>(program_->parts.size());
    CollectivePart part;
    part.kind = structure_.table_chunks.size() == 2 ? CollectiveKind::point_to_point : CollectiveKind::all_reduce;
    part.group = GroupKind::table_copies;
    part.strategy = strategy_index(embedding.s);
    part.bytes = table_exchange_bytes(embedding);
    part.element_bytes = embedding.states.reduce;
    program_->parts.push_back(part);
    exchange.parts_end = static_cast<std::int32_t>(program_->parts.size());
  }

  // ---- messages between chunks ----------------------------------------------------------------------------------------------

  void fill_transfer(std::int32_t i, PricedChunk& chunk) {
    chunk.boundary_bytes = chunk.transfer_ns = 0;
    if (i == 0 || stage_of(i) == stage_of(i - 1)) return;
    const RangeCost& sender = ranges(i - 1).back();
    const std::int32_t kind = kind_of(sender.last);
    chunk.boundary_bytes = (*sender.layers)[static_cast<std::size_t>(kind)].boundary_bytes;
    chunk.transfer_ns = known_transfer_ns(i, sender, chunk.boundary_bytes);
    if (chunk.transfer_ns < 0) chunk.transfer_ns = transfer_ns(under(sender), kind, structure_.schedule, i);
    largest_message_ = std::max(largest_message_, chunk.boundary_bytes);
  }

  /// An interleaved round repeats the one before. −1: not known.
  [[nodiscard]] std::int64_t known_transfer_ns(std::int32_t i, const RangeCost& sender, std::int64_t bytes) {
    const std::int32_t earlier = i - structure_.schedule.stages;
    if (structure_.schedule.kind != ScheduleKind::interleaved || earlier <= 0) return -1;
    const bool same = ranges(earlier - 1).back().strategy == sender.strategy && priced(earlier).boundary_bytes == bytes;
    return same ? priced(earlier).transfer_ns : -1;
  }

  // ---- stages ---------------------------------------------------------------------------------------------------------------

  void hold(std::int32_t stage, const Shares& shares) {
    for (const Share& s : shares) {
      Share& all = share_of(held_[static_cast<std::size_t>(stage)], *s.under);
      all.elements.dense += s.elements.dense;
      all.elements.expert += s.elements.expert;
      all.layers += s.layers;
    }
  }

  /// Elements of the largest layer whose states are sharded from `zero` on, anywhere in the plan.
  [[nodiscard]] std::int64_t largest_layer(ZeroStage zero) const {
    std::int64_t most = 0;
    if (only_ != nullptr) {
      for (const LayerCost& l : only_->layers) most = std::max(most, l.dense_parameters + l.expert_parameters);
      return most;
    }
    for (const auto& chunk : chunks_)
      for (const RangeCost& range : chunk) {
        if (range.strategy->zero < zero) continue;
        for (std::int32_t i = range.first; i <= range.last; ++i) {
          const LayerCost& l = (*range.layers)[static_cast<std::size_t>(kind_of(i))];
          most = std::max(most, l.dense_parameters + l.expert_parameters);
        }
      }
    return most;
  }

  /// Stages between the first and the last that hold as much as the one before cost as much.
  [[nodiscard]] bool like_before(std::int32_t i) const {
    if (i == 0 || i == structure_.schedule.stages - 1) return false;
    const Shares &a = held_[static_cast<std::size_t>(i)], &b = held_[static_cast<std::size_t>(i) - 1];
    if (a.size() != 1 || b.size() != 1 || a.front().under != b.front().under) return false;
    return a.front().elements.dense == b.front().elements.dense && a.front().elements.expert == b.front().elements.expert;
  }

  void price_stage(std::int32_t i) {
    if (like_before(i)) {
      out_.stages[static_cast<std::size_t>(i)] = out_.stages[static_cast<std::size_t>(i) - 1];
      optimizer(i) = optimizer(i - 1);
      return;
    }
    StageCost& stage = out_.stages[static_cast<std::size_t>(i)];
    const StatePolicy states = states_of(*c_.engine, c_.workload.training);
    double bytes = 0;
    bool gathers = false, scatters = false;
    for (const Share& s : held_[static_cast<std::size_t>(i)]) {
      stage.dense_parameters += s.elements.dense;
      stage.expert_parameters += s.elements.expert;
      const StaticMemory memory = state_memory(s.elements, states, s.under->s);
      stage.memory.parameters += memory.parameters;
      stage.memory.gradients += memory.gradients;
      stage.memory.optimizer += memory.optimizer;
      stage.reduced_elements += reduced_elements(s.elements, s.under->s);
      bytes += update_bytes(*c_.engine, states, s.elements, s.under->s);
      gathers |= shards_parameters(s.under->s.zero);
      scatters |= shards_gradients(s.under->s.zero);
    }
    stage.memory.framework = c_.device.workspace_bytes;
    stage.memory.communication_buffers = 2 * largest_message_;
    if (scatters && largest_scattered_ < 0) largest_scattered_ = largest_layer(ZeroStage::gradients);
    if (gathers && largest_gathered_ < 0) largest_gathered_ = largest_layer(ZeroStage::parameters);
    // The layer in use and the one being gathered; the whole gradient before its reduce-scatter.
    if (gathers) stage.memory.communication_buffers += 2 * largest_gathered_ * states.gather;
    if (scatters) stage.memory.communication_buffers += largest_scattered_ * states.reduce;
    if (i == structure_.schedule.stages - 1)
      stage.memory.framework +=
          deferred_bytes(*c_.workload.model, *c_.engine, structure_.schedule, *chunks_.back().back().layers);
    optimizer(i) = optimizer_time(c_.device, *c_.engine, bytes, stage.step_host);
    out_.message = Bytes(largest_message_);
  }

  /// Sums inside tensor groups, after the backward passes of a stage and before its update.
  void wait_for_sums(std::int32_t i) { optimizer(stage_of(i)).exposed_ns += priced(i).total.gradient_sync_ns; }

  /// What the end of the step waits for of a reduction beside the backward pass.
  void wait_for_reduction(std::int32_t i) {
    if (!structure_.reduce_gradients || !structure_.overlap_reduce) return;
    PricedChunk& chunk = priced(i);
    const double share = c_.engine->coefficients.exposed_share;
    const bool shared_table = c_.workload.model->tied_embeddings && chunks_.size() == 1;
    const double table =
        shared_table ? static_cast<double>(table_elements(*c_.workload.model, *c_.engine, *chunks_.front().front().strategy))
                     : 0.0;
    const ChunkTotal& t = chunk.total;
    const double all = static_cast<double>(std::max<std::int64_t>(1, t.dense_parameters + t.expert_parameters));
    const double late = share + (1.0 - share) * std::min(1.0, table / all);
    const auto waited = static_cast<std::int64_t>(late * static_cast<double>(chunk.reduce_ns));
    chunk.reduce_ns -= waited;
    optimizer(stage_of(i)).exposed_ns += waited * structure_.buckets[static_cast<std::size_t>(i)];
  }

  // ---- columns --------------------------------------------------------------------------------------------------------------

  void write_chunk(std::int32_t i) {
    const PricedChunk& chunk = priced(i);
    const ChunkTotal& t = chunk.total;
    const bool apart = splits_backward(structure_.schedule.kind);
    out_.works[structure_.forward(i)].time = t.forward;
    out_.works[structure_.backward(i)].time = apart ? t.backward_input : t.backward;
    if (apart) out_.works[structure_.backward_weight(i)].time = t.backward_weight;
    out_.set_bytes(structure_, i, t.bytes);
    if (structure_.reduce_gradients) out_.collectives[structure_.grad_reduce(i)] = Nanoseconds(chunk.reduce_ns);
    if (structure_.gather_parameters) out_.collectives[structure_.param_gather(i)] = Nanoseconds(chunk.gather_ns);
    if (i == 0) return;
    for (const bool gradient : {false, true}) {
      out_.transfers[structure_.transfer(i, gradient)] = Nanoseconds(chunk.transfer_ns);
      if (program_ != nullptr) program_->transfers[structure_.transfer(i, gradient)].bytes = chunk.boundary_bytes;
    }
  }

  const CostContext& c_;
  const ProgramStructure& structure_;
  const ChunkRanges& chunks_;
  const SplitTable* split_;
  const Assembly* only_;
  const ChunkEdges edges_;
  std::vector<PricedChunk>& priced_;
  std::vector<Shares>& held_;
  Costs& out_;
  Program* program_;
  std::deque<Assembly> assemblies_;  // a deque: their addresses stay
  std::int64_t largest_message_ = 0, largest_scattered_ = -1, largest_gathered_ = -1;
};

}  // namespace

void price(const CostContext& c, const ProgramStructure& structure, const ChunkRanges& chunks, Costs& out, Program* program) {
  PriceScratch scratch;
  Pricer(c, structure, chunks, nullptr, nullptr, ChunkEdges::exposed, scratch.state(), out, program).run();
}

void price(const CostContext& c, const ProgramStructure& structure, const Strategy& s, const SplitTable& split,
           const std::vector<LayerCost>& layers, PriceScratch& scratch, Costs& out, ChunkEdges edges) {
  ChunkRanges& ranges = scratch.state().ranges;
  ranges.resize(static_cast<std::size_t>(split.chunks()));
  for (std::int32_t i = 0; i < split.chunks(); ++i)
    ranges[static_cast<std::size_t>(i)].assign(1, {split.first(i), split.last(i), &s, &layers});
  const Assembly only = assembly_of(c, s, structure.schedule.stages, layers, edges);
  Pricer(c, structure, ranges, &split, &only, edges, scratch.state(), out, nullptr).run();
}

void price(const CostContext& c, const ProgramStructure& structure, const std::vector<std::vector<LayerRange>>& chunks,
           std::int64_t samples, Costs& out, Program* program) {
  std::deque<std::pair<const Strategy*, std::vector<LayerCost>>> priced;  // a deque: their addresses stay
  const auto layers_of = [&](const Strategy& s) -> const std::pair<const Strategy*, std::vector<LayerCost>>& {
    for (const auto& known : priced)
      if (*known.first == s) return known;
    priced.emplace_back(&s, std::vector<LayerCost>{});
    layer_costs(c, s, structure.schedule.stages, static_cast<std::int32_t>(samples / s.dp), priced.back().second);
    return priced.back();
  };
  ChunkRanges ranges;
  for (const auto& chunk : chunks) {
    ranges.emplace_back();
    for (const LayerRange& r : chunk) {
      const auto& known = layers_of(r.strategy);
      ranges.back().push_back({r.first, r.last, known.first, &known.second});
    }
  }
  price(c, structure, ranges, out, program);
}

Costs price(const CostContext& c, const Plan& plan, Program& program) {
  const Schedule& schedule = plan.schedule;
  std::vector<std::vector<LayerRange>> chunks(static_cast<std::size_t>(program.structure.chunks()));
  for (std::int32_t i = 0; i < schedule.stages; ++i)
    for (std::int32_t k = 0; k < schedule.virtual_stages; ++k)
      chunks[static_cast<std::size_t>(pipeline_chunk(schedule, i, k))] =
          plan.stages[static_cast<std::size_t>(i)].chunks[static_cast<std::size_t>(k)].ranges;
  Costs costs;
  price(c, program.structure, chunks, plan.samples_per_microbatch(), costs, &program);
  return costs;
}

void static_bytes(const CostContext& c, const Strategy& s, const std::vector<LayerCost>& layers, const Costs& costs,
                  std::vector<std::int64_t>& out) {
  const StatePolicy states = states_of(*c.engine, c.workload.training);
  std::int64_t largest = 0;
  for (const LayerCost& l : layers) largest = std::max(largest, l.dense_parameters + l.expert_parameters);
  out.clear();
  for (const StageCost& stage : costs.stages) {
    StaticMemory memory = state_memory({stage.dense_parameters, stage.expert_parameters}, states, s);
    memory.framework = stage.memory.framework;  // does not depend on how states are sharded
    memory.communication_buffers = 2 * costs.message.count();
    if (shards_parameters(s.zero)) memory.communication_buffers += 2 * largest * states.gather;
    if (shards_gradients(s.zero)) memory.communication_buffers += largest * states.reduce;
    out.push_back(memory.total());
  }
}

}  // namespace espalier::cost
