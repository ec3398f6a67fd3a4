// SPDX-License-Identifier: Apache-2.0
#include "check/layer_time.h"

#include <algorithm>
#include <cmath>

#include "check/arithmetic.h"
#include "check/measured_time.h"
#include "check/packed_lengths.h"
#include "check/partition_text.h"
#include "check/run_again.h"
#include "check/static_memory.h"
#include "plan/engine.h"
#include "plan/transformer_engine.h"

namespace espalier::check {
namespace {

/// Returns the mean number of keys that a query attends to.
double mean_keys(double keys, double window, bool causal) {
  if (window > 0 && window < keys) return causal ? window - window * window / (2 * keys) : window;
  return causal ? keys / 2 : keys;
}

class LayerClock {
 public:
  LayerClock(const View& view, const Kernels& k, const FabricTimes& fabric, const LayerKind& kind, End end)
      : view_(view),
        s_(view.strategy),
        e_(view.engine),
        k_(k),
        fabric_(fabric),
        kind_(kind),
        end_(end),
        again_(run_again(view, kind)) {
    const Sequence& sequence = view.plan->training.sequence;
    keys_ = static_cast<double>(reachable_tokens(kind, sequence));
    const auto own = static_cast<double>(layer_tokens(kind, sequence));
    tokens_ = own * view.micro_batch / s_.cp;
    encoder_keys_ = static_cast<double>(sequence.encoder);
    encoder_share_ = encoder_keys_ / std::max(1.0, own);
    ulysses_ = s_.sp == SequenceParallel::ulysses;
    megatron_ = s_.sp == SequenceParallel::megatron;
    split_tokens_ = ulysses_ ? tokens_ / s_.tp : tokens_;
    sequence_tokens_ = s_.sp == SequenceParallel::none ? tokens_ : tokens_ / s_.tp;
    width_ = s_.weight_tp();
    tp_ = fabric.tensor(view);
    cp_ = fabric.context(view);
    ep_ = fabric.experts(view);
    etp_ = fabric.group(view, s_.etp, 1);
    imbalance_ = std::min(view.plan->training.moe_imbalance, static_cast<double>(s_.ep));
    if (view.model->vocabulary > 0) {
      const std::int64_t unit = std::int64_t{e_.memory.vocabulary_multiple} * s_.weight_tp();
      vocabulary_ = static_cast<double>(ceil_div(view.model->vocabulary, unit) * unit);
    }
  }

  LayerTime run() {
    for (std::size_t i = 0; i < kind_.operators.size(); ++i) {
      const double forward = forward_, exposed = exposed_forward_;
      add_timed(kind_.operators[i]);
      selective_ += again_[i].share * (forward_ - forward);
      // The exchange of Ulysses encloses the attention that runs again.
      const bool of_ulysses = ulysses_ && kind_.operators[i].kind == OperatorKind::attention;
      if (again_[i].communication && !of_ulysses) selective_ += exposed_forward_ - exposed;
    }
    const double wait = end_ == End::most ? e_.coefficients.collective_wait_s : 0;
    const double network = end_ == End::most ? e_.coefficients.network_wait_s : 0;
    const double launch = e_.measured != nullptr ? 0 : k_.launch * e_.eager.eager_launches;
    LayerTime t;
    t.forward =
        std::max(forward_ + exposed_forward_ + network * waits_forward_, launch * starts_forward_ + wait * waits_forward_);
    t.backward = std::max(input_ + weight_ + exposed_backward_ + network * waits_input_,
                          launch * (starts_input_ + starts_weight_) + wait * waits_input_);
    t.backward_input = std::max(input_ + exposed_input_ + network * waits_input_, launch * starts_input_ + wait * waits_input_);
    t.backward_weight = std::max(weight_ + exposed_weight_, launch * starts_weight_);
    t.selective = selective_;
    if (!kind_.backward) t = {t.forward, 0, 0, 0, 0};  // no gradient reaches this layer
    return t;
  }

 private:
  [[nodiscard]] double hide(double communication, double compute) const {
    return end_ == End::most ? communication : std::max(0.0, communication - compute);
  }
  void compute(double forward, double backward, double starts_forward, double starts_input) {
    forward_ += forward;
    input_ += backward;
    starts_forward_ += graphed_ * starts_forward;
    starts_input_ += graphed_ * starts_input;
  }
  void communicate(double forward, double backward, double starts_forward, double starts_input) {
    exposed_forward_ += forward;
    exposed_backward_ += backward;
    exposed_input_ += backward;
    starts_forward_ += graphed_ * starts_forward;
    starts_input_ += graphed_ * starts_input;
  }
  void wait(double forward, double backward) {
    waits_forward_ += forward * static_cast<double>(tp_.size);
    waits_input_ += backward * static_cast<double>(tp_.size);
  }

  /// Adds an operator. Under a profile, measured times replace the kernels; communication is counted as without one.
  void add_timed(const Operator& op) {
    const double forward = forward_, input = input_, weight = weight_;
    graphed_ = depends_on_routing(op.kind) ? 1 : e_.kernels.graphed_launches;
    add(op);
    const auto measured = measured_seconds(view_, kind_, op);
    if (!measured) return;
    forward_ = forward + measured->forward;
    input_ = input + measured->input;
    weight_ = weight + measured->weight;
  }

  static bool depends_on_routing(OperatorKind kind) {
    using enum OperatorKind;
    return kind == dispatch || kind == combine || kind == expert_linear || kind == expert_activation;
  }

  void add(const Operator& op) {
    switch (op.kind) {
      case OperatorKind::linear:
      case OperatorKind::patch_embed: add_linear(op); return;
      case OperatorKind::attention: add_attention(op); return;
      case OperatorKind::embedding: add_embedding(op); return;
      case OperatorKind::cross_entropy: add_loss(op); return;
      case OperatorKind::dispatch:
      case OperatorKind::combine: add_exchange(op); return;
      case OperatorKind::expert_linear: add_expert_linear(op); return;
      case OperatorKind::router: add_router(op); return;
      case OperatorKind::scan: add_channels(op); return;
      case OperatorKind::chunked_scan:
      case OperatorKind::gated_delta: add_chunks(op); return;
      case OperatorKind::expert_activation:
        if (!e_.kernels.fused_experts) add_elementwise(op, gathered_copies(op), s_.etp);
        return;
      default: break;
    }
    const bool split = op.split != TpSplit::none;
    add_elementwise(op, split ? split_tokens_ : sequence_tokens_, split ? width_ : 1);
  }

  [[nodiscard]] bool fused() const { return e_.memory.activations == ActivationPolicy::fused_attention; }
  /// Returns the seconds to accumulate weight gradients in a pass of its own, unless the product adds them up itself.
  [[nodiscard]] double accumulate(double parameters) const {
    return e_.eager.fused_gradient_accumulation ? 0 : k_.move(parameters * (k_.a + 2.0 * e_.memory.states.gradient));
  }
  [[nodiscard]] double accumulated_bytes() const {
    return e_.eager.fused_gradient_accumulation ? 2.0 * e_.memory.states.gradient : 0;
  }

  void add_linear(const Operator& op) {
    double m = op.split == TpSplit::none ? sequence_tokens_ : split_tokens_;
    double n = static_cast<double>(op.out), k = static_cast<double>(op.in);
    if (op.cross && op.split != TpSplit::none) m *= encoder_share_;
    const bool vocabulary = op.split == TpSplit::vocab;
    if (vocabulary && vocabulary_ > 0) n = vocabulary_;
    if (vocabulary || op.split == TpSplit::column || op.split == TpSplit::heads) n /= width_;
    if (op.split == TpSplit::row) k /= width_;
    const bool eight_bit = k_.operand < k_.a && !vocabulary;
    const double element = eight_bit ? k_.operand : k_.a, rate = eight_bit ? k_.product : k_.wide;
    const double forward = k_.multiply(rate, m, n, k, element), input = k_.multiply(rate, m, k, n, element);
    const double weight = op.frozen ? 0 : k_.multiply(rate, n, k, m, element, accumulated_bytes() * n * k);
    compute(forward, input, 1, 1);
    if (!op.frozen) {
      weight_ += weight + accumulate(n * k);
      starts_weight_ += graphed_ * (op.parameters > op.in * op.out ? 4 : 2);
    }
    if (op.adapters > 0) add_adapters(op, m, n, k);
    write_out(op, n * k);
    if (eight_bit) compute(k_.move((k_.cast - 2) * m * k), k_.move(k_.cast * m * n), k_.cast_kernels, k_.cast_kernels);
    if (vocabulary || op.split == TpSplit::column) {
      column_forward_ += forward;
      column_input_ += input;
      column_weight_ += weight;
    }
    if (s_.tp == 1 || ulysses_) return;
    const double row = k_.a * split_tokens_;
    if (op.split == TpSplit::row) close_region(forward, input, row * static_cast<double>(op.out));
    if (vocabulary) output_projection(row * static_cast<double>(op.in));
  }

  /// Adds the narrow products of adapters. Least: the bytes they move. Most: also their compute, and an all-reduce in
  /// the tensor group in both passes.
  void add_adapters(const Operator& op, double m, double n, double k) {
    const double pairs = op.adapters, rank = op.adapter_rank;
    const double out = n * static_cast<double>(op.adapter_out) / static_cast<double>(op.out);
    double pass = 2 * pairs * k_.floor + k_.a * m * (k * pairs + 2 * out) / k_.memory;
    if (end_ == End::most) pass += 2 * m * rank * (k * pairs + out) / k_.wide;
    compute(pass, pass, 2 * pairs, 2 * pairs);
    weight_ += pass;
    starts_weight_ += graphed_ * 2 * pairs;
    if (s_.weight_tp() == 1 || op.split == TpSplit::none) return;
    const double sum = fabric_.reduce(tp_, k_.a * split_tokens_ * rank * pairs);
    communicate(sum, sum, view_.figures.collective_launches, view_.figures.collective_launches);
    wait(1, 1);
  }

  /// Adds the dequantisation of weights that are kept in fewer bits than compute takes, before each product that
  /// reads them.
  void write_out(const Operator& op, double elements) {
    if (!op.frozen || view_.plan->training.adapter.base == FrozenType::compute) return;
    const double held = frozen_element_bytes(view_, kind_, op);
    if (held >= k_.a) return;
    const double pass = k_.move((held + k_.a) * elements);
    compute(pass, pass, 1, 1);
  }

  void output_projection(double bytes) {
    if (megatron_) {
      const double move = fabric_.gather(tp_, bytes);
      communicate(move, move, 1, 1);
      if (e_.communication.blocking_tensor) {  // the weight gradient gathers the input again
        exposed_backward_ += move;
        exposed_weight_ += move;
      }
      wait(1, 1);
    } else {
      communicate(0, fabric_.reduce(tp_, bytes), 0, 1);
      wait(0, 1);
    }
  }

  /// Adds the collectives of the region that a row linear closes.
  void close_region(double row_forward, double row_input, double bytes) {
    if (!megatron_) {
      const double reduce = fabric_.reduce(tp_, bytes);
      exposed_forward_ += reduce;
      exposed_backward_ += hide(reduce, column_weight_);
      exposed_input_ += reduce;
      starts_forward_ += view_.figures.collective_launches;
      starts_input_ += view_.figures.collective_launches;
      wait(1, 1);
    } else {
      const bool eight_bits = of_transformer_engine(e_) && k_.operand < k_.a;
      const double scatter = fabric_.gather(tp_, bytes),
                   gather = eight_bits ? fabric_.gather(tp_, bytes * k_.operand / k_.a) : scatter;
      const bool beside = s_.overlap.tp;
      exposed_forward_ += beside ? hide(gather, column_forward_) + hide(scatter, row_forward) : gather + scatter;
      exposed_backward_ +=
          (beside ? hide(gather, row_input) : gather) + hide(gather, column_input_) + hide(scatter, column_weight_);
      exposed_input_ += beside ? hide(gather, row_input) + hide(scatter, column_input_) : gather + scatter;
      exposed_weight_ += hide(gather, column_weight_);
      starts_forward_ += 2 * view_.figures.collective_launches;
      starts_input_ += 3 * view_.figures.collective_launches;
      wait(2, 3);
    }
    column_forward_ = column_input_ = column_weight_ = 0;
  }

  struct Met {
    double mean = 0, most = 0;  ///< keys per query
  };
  [[nodiscard]] Met met_keys(double all, const Operator& op) const {
    const auto window = static_cast<double>(op.window);
    const Met whole{mean_keys(all, window, op.causal), window > 0 ? std::min(window, all) : all};
    const Training& training = view_.plan->training;
    if (op.cross || !training.lengths.any() || training.lengths.packing == Packing::none) return whole;
    const PackedAttention packed = packed_attention(view_, op, end_ == End::most);
    return {packed.keys, std::min(whole.most, packed.longest)};
  }

  void add_attention(const Operator& op) {
    const double heads = static_cast<double>(op.heads) / s_.tp,
                 kv_heads = std::max(1.0, static_cast<double>(op.kv_heads) / s_.tp);
    const double own = op.chunk > 0 ? std::min(keys_, static_cast<double>(op.chunk)) : keys_;
    const double all = op.cross ? encoder_keys_ : own, kv_tokens = op.cross ? tokens_ * encoder_share_ : tokens_;
    const double qk = op.qk_dim, v = op.v_dim, window = static_cast<double>(op.window);
    const double most = window > 0 ? std::min(window, all) : all;
    const double bytes = k_.a * (tokens_ * heads * (qk + v) + kv_tokens * kv_heads * (qk + v));
    double forward = 0, backward = 0;
    const bool ring = s_.cp_kind == ContextParallelKind::ring;
    if (fused()) {
      const double steps = ring ? s_.cp : 1;
      const double merge = steps > 1 ? (steps - 1) * k_.move(12 * tokens_ * heads * v) : 0;
      const Met met = met_keys(all, op);
      const double keys = met.mean / steps, longest = met.most / steps;
      const double work = 2 * (qk + v + 2 * k_.softmax) * (tokens_ * heads * (keys + k_.prologue) + k_.rows * longest);
      const double moved = bytes / steps / k_.memory;
      forward = steps * (k_.floor + work / k_.attention + moved) + merge;
      backward = steps * (k_.floor + 2.5 * (work / k_.attention_back + moved)) + merge;
      compute(forward, backward, 2 * steps - 1, 4 * steps - 1);
    } else {
      const double scores = heads * tokens_ * most, batch = heads * tokens_ / std::max(1.0, most), read = op.causal ? 0.5 : 1;
      const double rate = op.qk_dim % 8 == 0 && op.v_dim % 8 == 0 ? k_.batched : k_.uneven;
      const double products = k_.multiply_many(rate, batch, most, most, qk) + k_.multiply_many(rate, batch, most, v, most);
      const double drop = op.score_dropout ? k_.move((2 * k_.a + 1) * scores) : 0;
      forward = products + k_.move((read + 1) * k_.a * scores) + drop;
      backward = 2 * products + k_.move((2 * read + 1) * k_.a * scores) + drop;
      compute(forward, backward, op.score_dropout ? 5 : 4, op.score_dropout ? 9 : 8);
    }
    if (ulysses_ && s_.tp > 1) communicate(4 * fabric_.exchange(tp_, bytes / 4), 4 * fabric_.exchange(tp_, bytes / 4), 4, 4);
    if (s_.cp == 1) return;
    if (!ring) {
      communicate(4 * fabric_.exchange(cp_, bytes / 4), 4 * fabric_.exchange(cp_, bytes / 4), 4, 4);
      return;
    }
    const double steps = s_.cp - 1, under = steps / s_.cp, keys_and_values = k_.a * kv_tokens * kv_heads * (qk + v);
    const double back = hide(steps * fabric_.ring_step(cp_, 2 * keys_and_values), backward * under);
    communicate(hide(steps * fabric_.ring_step(cp_, keys_and_values), forward * under), back,
                view_.figures.collective_launches * steps, 2 * view_.figures.collective_launches * steps);
  }

  /// Returns the token copies of the fullest rank, and the copies that its experts process.
  [[nodiscard]] double copies(const Operator& op) const { return sequence_tokens_ * op.top_k * imbalance_; }
  [[nodiscard]] double gathered_copies(const Operator& op) const {
    return copies(op) * (s_.sp == SequenceParallel::none ? 1 : s_.etp);
  }

  /// Returns the share of the copies that is sent if copies for one place travel once: P·(1 − (1 − 1/P)^top_k)/top_k
  /// of P places.
  [[nodiscard]] double sent_share(const Operator& op) const {
    if (!e_.communication.deduplicates_dispatch || ep_.size <= 1 || op.top_k <= 1) return 1;
    const auto inside = static_cast<double>(std::max<std::int64_t>(1, fabric_.by_nvlink(ep_)));
    const double places = static_cast<double>(ep_.size) > inside ? static_cast<double>(ep_.size) / inside : inside;
    const double share = places * (1 - std::pow(1 - 1 / places, op.top_k)) / op.top_k;
    return end_ == End::most ? 1 : share;
  }

  void add_exchange(const Operator& op) {
    const double bytes = k_.a * copies(op) * static_cast<double>(op.in);
    compute(k_.move(2 * bytes), k_.move(2 * bytes), 6, 5);
    // All of it may be hidden under another micro-batch.
    const bool hidden = e_.communication.overlaps_experts && end_ != End::most;
    const double sent = hidden ? 0 : fabric_.exchange(ep_, bytes * sent_share(op));
    double forward = sent, backward = sent;
    if (s_.etp > 1 && s_.sp != SequenceParallel::none) {
      forward += fabric_.gather(etp_, bytes * s_.etp);
      backward += fabric_.gather(etp_, bytes * s_.etp);
    } else if (s_.etp > 1) {
      (op.kind == OperatorKind::combine ? forward : backward) += fabric_.reduce(etp_, bytes);
    }
    const double starts = view_.figures.collective_launches * (s_.etp > 1 ? 2 : 1);
    communicate(forward, backward, starts, starts);
  }

  void add_expert_linear(const Operator& op) {
    const double local = static_cast<double>(op.experts) / s_.ep, m = gathered_copies(op) / local;
    double n = static_cast<double>(op.out), k = static_cast<double>(op.in);
    (op.split == TpSplit::row ? k : n) /= s_.etp;
    const double pass = k_.multiply_many(k_.grouped, local, m, n, k);
    compute(pass, pass, 1, 1);
    // Inputs are scaled and cast to 8 bits, by hosts that have nothing queued.
    if (k_.operand < k_.a && !e_.kernels.fused_experts) {
      const bool one_by_one = of_transformer_engine(e_) && e_.measured == nullptr;
      const double host = one_by_one ? local * eager_share(view_) * k_.launch : 0;
      compute(std::max(host, k_.move(k_.cast * local * m * k)), std::max(host, k_.move(k_.cast * local * m * n)), k_.cast_kernels,
              k_.cast_kernels);
    }
    write_out(op, local * n * k);
    if (op.frozen) return;
    weight_ += k_.multiply_many(k_.grouped, local, m, n, k, local * accumulated_bytes() * n * k) + accumulate(local * n * k);
    starts_weight_ += graphed_;
  }

  void add_router(const Operator& op) {
    const double pass = k_.multiply(k_.wide, sequence_tokens_, op.experts, static_cast<double>(op.in), k_.a);
    compute(pass, pass, 14, 10);
    if (op.frozen) return;
    weight_ += pass;
    starts_weight_ += graphed_;
  }

  /// Adds channels with states of their own: an exponential per state, and the bytes that are read and written.
  void add_channels(const Operator& op) {
    const double channels = static_cast<double>(op.in) / width_, states = op.qk_dim, t = split_tokens_;
    const double exponential = 4 * k_.softmax * t * channels * states / k_.attention;
    compute(k_.floor + exponential + k_.a * t * (3 * channels + 2 * states) / k_.memory,
            k_.floor + 2 * exponential + k_.a * t * (5 * channels + 4 * states) / k_.memory, 1, 1);
  }

  /// Adds the products of each chunk and of its state as one product, which moves inputs, outputs and states.
  /// Backward takes three times as much.
  void add_chunks(const Operator& op) {
    const bool delta = op.kind == OperatorKind::gated_delta;
    const double h = op.heads / static_cast<double>(s_.tp), g = op.kv_heads / static_cast<double>(s_.tp), t = split_tokens_;
    const double q = op.qk_dim, v = op.v_dim, l = static_cast<double>(op.chunk);
    double products = l * q + l * v + 2 * q * v;                   // multiplications per token and head
    if (delta) products += 2 * l * q + l * v + q * v + l * l / 6;  // KKᵀ, W, U, W·state, inverse
    const double work = 2 * t * h * products;
    const double moved = k_.a * t * 2 * (g * q + h * v) + 8 * t / l * h * q * v;
    const double kernels = delta ? view_.figures.delta_scan_kernels : view_.figures.scan_kernels;
    const auto pass = [&](double times) {
      return kernels * k_.floor + std::hypot(times * work / k_.batched, times * moved / k_.stream);
    };
    compute(pass(1), pass(3), kernels, 2 * kernels);
  }

  /// Adds the bytes per token that element-wise operators read and write. Every byte counts as the engine's kernels
  /// move it.
  void add_elementwise(const Operator& op, double tokens, double width) {
    const double a = k_.a, in = static_cast<double>(op.in) / width, out = static_cast<double>(op.out) / width;
    double forward = 2 * a * in, backward = 2 * a * in;
    const bool dropout = op.kind == OperatorKind::dropout;
    if (op.kind == OperatorKind::norm) backward = (fused() ? 3 : 5) * a * in;
    if (op.kind == OperatorKind::activation || op.kind == OperatorKind::expert_activation) {
      forward = a * (in + out);
      backward = a * (2 * in + out);
    }
    if (op.kind == OperatorKind::residual) forward = backward = 3 * a * in;
    if (op.kind == OperatorKind::causal_conv) {
      backward = 3 * a * in;
      starts_weight_ += graphed_ * 2;
    }
    if (dropout) {
      forward = in;
      backward = (2 * a + 1) * in;
    }
    if (op.kind == OperatorKind::norm && !op.frozen) starts_weight_ += graphed_ * (op.parameters > op.in ? 3 : 2);
    const double f = tokens * forward / k_.elementwise + (dropout ? 0 : k_.floor);
    compute(f, k_.floor + tokens * backward / k_.elementwise, dropout ? 0 : 1, 1);
  }

  void add_embedding(const Operator& op) {
    const double bytes = k_.a * split_tokens_ * static_cast<double>(op.out);
    compute(k_.move(2 * bytes), 0, 4, 0);
    const bool vocabulary = op.split == TpSplit::vocab;
    // The gradient of a dense table is cleared, the tokens' rows are added, and all is added to the accumulated one.
    if (!op.frozen) {
      const double columns = std::max(1.0, static_cast<double>(op.out));
      const double rows = vocabulary && vocabulary_ > 0 ? vocabulary_ / width_ : static_cast<double>(op.parameters) / columns;
      weight_ += k_.move(rows * static_cast<double>(op.out) * (2 * k_.a + 2.0 * e_.memory.states.gradient) + 12.5 * bytes);
      starts_weight_ += graphed_ * 4;
    }
    if (!vocabulary || s_.tp == 1 || ulysses_) return;
    if (megatron_) {
      communicate(fabric_.gather(tp_, bytes), fabric_.gather(tp_, bytes), 1, 1);
    } else {
      communicate(fabric_.reduce(tp_, bytes), 0, 1, 0);
    }
  }

  void add_loss(const Operator& op) {
    const bool vocabulary = op.split == TpSplit::vocab;
    double features = vocabulary && vocabulary_ > 0 ? vocabulary_ : static_cast<double>(op.in);
    if (vocabulary) features /= width_;
    const double logits = split_tokens_ * features;
    compute(k_.move(e_.kernels.loss_forward_bytes * logits), k_.move(e_.kernels.loss_backward_bytes * logits), 6, 2);
    if (!vocabulary || s_.tp == 1 || ulysses_) return;
    communicate(3 * fabric_.reduce(tp_, 4 * split_tokens_), 0, 3, 0);
    wait(3, 0);
  }

  const View& view_;
  const Strategy& s_;
  const EngineModel& e_;
  const Kernels& k_;
  const FabricTimes& fabric_;
  const LayerKind& kind_;
  End end_;
  std::vector<RunAgain> again_;  ///< by operator
  RankGroup tp_, cp_, ep_, etp_;
  bool ulysses_ = false, megatron_ = false;
  double keys_ = 0, tokens_ = 0, encoder_keys_ = 0, encoder_share_ = 0, split_tokens_ = 0, sequence_tokens_ = 0;
  double width_ = 1, imbalance_ = 1, vocabulary_ = 0;
  double forward_ = 0, input_ = 0, weight_ = 0, selective_ = 0;
  double exposed_forward_ = 0, exposed_backward_ = 0, exposed_input_ = 0, exposed_weight_ = 0;
  double graphed_ = 1;  // share of the operator's launches that no graph replays
  double starts_forward_ = 0, starts_input_ = 0, starts_weight_ = 0, waits_forward_ = 0, waits_input_ = 0;
  double column_forward_ = 0, column_input_ = 0, column_weight_ = 0;
};

/// Returns the lower bound of a partitioned block: its products, divided evenly over the devices. No partition does
/// less. Measured times of tiles are not derived again.
LayerTime least_of_partitioned(const View& view, const Kernels& k, const LayerKind& kind) {
  if (view.engine.measured != nullptr) return {};
  const double devices = view.strategy.tp,
               tokens = static_cast<double>(layer_tokens(kind, view.plan->training.sequence)) * view.micro_batch;
  double work = 0;
  for (const Operator& op : kind.operators) {
    if (op.kind == OperatorKind::linear) work += 2.0 * static_cast<double>(op.in) * static_cast<double>(op.out) * tokens / k.wide;
  }
  LayerTime t;
  t.forward = t.backward_input = t.backward_weight = work / devices;
  t.backward = 2 * work / devices;
  return t;
}

/// Returns the upper bound of a partitioned block: the whole block on one device, and every tensor gathered twice
/// over the group.
LayerTime most_of_partitioned(const View& view, const Kernels& k, const FabricTimes& fabric, const LayerKind& kind) {
  View alone = view;
  alone.strategy.tp = 1;
  alone.strategy.partition = {};
  LayerTime t = LayerClock(alone, k, fabric, kind, End::most).run();
  const double tokens = static_cast<double>(layer_tokens(kind, view.plan->training.sequence)) * view.micro_batch;
  const RankGroup group = fabric.tensor(view);
  double moved = 0;
  for (const Operator& op : kind.operators) {
    const double bytes = k.a * tokens * static_cast<double>(op.in + op.out) + 4.0 * static_cast<double>(op.parameters);
    // Launches of temporal steps.
    const double starts = 32 * (k.floor + k.launch * view.engine.eager.eager_launches);
    moved += 2 * fabric.gather(group, bytes, Sizes::any) + 32 * fabric.gather(group, 1, Sizes::any) + starts;
  }
  t.forward += moved;
  t.backward += 2 * moved;
  t.backward_input += moved;
  t.backward_weight += moved;
  return t;
}

}  // namespace

LayerTime layer_time(const View& view, const Kernels& kernels, const FabricTimes& fabric, const LayerKind& kind, End end) {
  if (!partitions(view.strategy, kind)) return LayerClock(view, kernels, fabric, kind, end).run();
  return end == End::least ? least_of_partitioned(view, kernels, kind) : most_of_partitioned(view, kernels, fabric, kind);
}

}  // namespace espalier::check
