// SPDX-License-Identifier: Apache-2.0
#include "check/partition_text.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "check/verdict.h"
#include "plan/engine.h"

namespace espalier::check {
namespace {

/// Describes one operator of the text.
struct Cut {
  std::string name, sequence;
  std::int64_t b = 1, m = 1, n = 1, k = 1, h = 1, l = 1;  ///< slices
  std::int64_t ways = 1;                                  ///< devices: 2^bits
  std::string letters;                                    ///< letters that occur, P as 'P'
  bool readable = true;
};

void cut_by(Cut& cut, std::string_view part) {
  if (part.size() > 1 && part.front() == 'P') {
    std::int64_t q = 0;
    for (const char c : part.substr(1)) q = c >= '0' && c <= '9' && q < 1000 ? q * 10 + (c - '0') : 1000;
    cut.readable = cut.readable && (q == 2 || q == 4 || q == 8 || q == 16 || q == 32);
    cut.m *= q;
    cut.n *= q;
    cut.k *= q;
    cut.ways *= q * q;
    cut.letters += 'P';
    return;
  }
  if (part.size() != 1) {
    cut.readable = false;
    return;
  }
  switch (part.front()) {
    case 'B': cut.b *= 2; break;
    case 'M': cut.m *= 2; break;
    case 'N': cut.n *= 2; break;
    case 'K': cut.k *= 2; break;
    case 'H': cut.h *= 2; break;
    case 'L': cut.l *= 2; break;
    case 'R': break;
    default: cut.readable = false;
  }
  cut.ways *= 2;
  cut.letters += part.front();
}

std::vector<std::string> pieces(const std::string& text, char mark) {
  std::vector<std::string> all(1);
  for (const char c : text) {
    if (c == mark)
      all.emplace_back();
    else
      all.back() += c;
  }
  return all;
}

std::vector<Cut> read(const std::string& text) {
  std::vector<Cut> cuts;
  for (std::string one : pieces(text, ';')) {
    if (!one.empty() && one.front() == ' ') one.erase(0, 1);
    const std::vector<std::string> words = pieces(one, ' ');
    Cut cut;
    cut.name = words.front();
    cut.readable = words.size() == 2;
    if (cut.readable) cut.sequence = words[1];
    const std::vector<std::string> parts = pieces(cut.sequence, ',');
    if (parts.size() > 10) cut.readable = false;
    for (std::size_t i = 0; i < parts.size() && cut.readable; ++i) cut_by(cut, parts[i]);
    cuts.push_back(std::move(cut));
  }
  return cuts;
}

enum class AttentionPart : std::uint8_t { whole, scores, softmax, values };

/// Describes an operator with its own partition, together with those that follow its layout.
struct SplitOperator {
  const Operator* op = nullptr;
  std::string name;
  AttentionPart part = AttentionPart::whole;
  std::vector<const Operator*> along;
  bool after_fused_attention = false, gated = false;
};

bool goes_along(const Operator& op, const std::vector<SplitOperator>& before, bool last) {
  if (op.kind == OperatorKind::rotary || op.kind == OperatorKind::dropout) return true;
  const bool after_linear = !before.empty() && before.back().op->kind == OperatorKind::linear;
  return op.kind == OperatorKind::norm && op.split == TpSplit::heads && after_linear && !last;
}

std::vector<SplitOperator> nodes_of(const View& view, const LayerKind& kind) {
  const bool fused = view.engine.memory.activations == ActivationPolicy::fused_attention;
  std::vector<SplitOperator> nodes;
  std::vector<const Operator*> waiting;
  for (std::size_t i = 0; i < kind.operators.size(); ++i) {
    const Operator& op = kind.operators[i];
    const bool last = i + 1 == kind.operators.size();
    if (goes_along(op, nodes, last)) {
      (last && !nodes.empty() ? nodes.back().along : waiting).push_back(&op);
      continue;
    }
    SplitOperator node{&op, op.name, AttentionPart::whole, {}, false, false};
    const Operator* next = last ? nullptr : &kind.operators[i + 1];
    node.gated = op.kind == OperatorKind::linear && next != nullptr && next->kind == OperatorKind::activation &&
                 next->in == 2 * next->out && next->in == op.out;
    node.after_fused_attention =
        fused && op.kind == OperatorKind::linear && !nodes.empty() && nodes.back().op->kind == OperatorKind::attention;
    const std::size_t first = nodes.size();
    if (op.kind == OperatorKind::attention && !fused) {
      nodes.push_back({&op, op.name + ".scores", AttentionPart::scores, {}, false, false});
      nodes.push_back({&op, op.name + ".softmax", AttentionPart::softmax, {}, false, false});
      nodes.push_back({&op, op.name + ".values", AttentionPart::values, {}, false, false});
    } else {
      nodes.push_back(std::move(node));
    }
    nodes[first].along = std::move(waiting);
    waiting.clear();
  }
  return nodes;
}

std::string_view letters_of(const SplitOperator& node) {
  switch (node.part) {
    case AttentionPart::scores:
    case AttentionPart::values: return "BMHL";
    case AttentionPart::softmax: return "BMH";
    case AttentionPart::whole: break;
  }
  if (node.op->kind == OperatorKind::linear) return "BMNKP";
  return node.op->kind == OperatorKind::attention ? "BMH" : "BMNR";
}

std::int64_t head_slices(std::int64_t slices, std::int64_t heads) { return std::min(slices, heads); }

/// Checks that every slice has the same size. Slices of heads may share key/value heads.
bool equal_slices(const View& view, const LayerKind& kind, const SplitOperator& node, const Cut& cut) {
  const std::int64_t tokens = layer_tokens(kind, view.plan->training.sequence);
  const Operator& op = *node.op;
  if (view.micro_batch % cut.b != 0 || tokens % cut.m != 0 || tokens % cut.l != 0) return false;
  switch (op.kind) {
    case OperatorKind::linear: return op.in % cut.n == 0 && (node.gated ? op.out / 2 : op.out) % cut.k == 0;
    case OperatorKind::attention: return op.heads % cut.h == 0 && (op.kv_heads % cut.h == 0 || cut.h % op.kv_heads == 0);
    case OperatorKind::activation: return op.out % cut.n == 0;
    default: return op.in % cut.n == 0;
  }
}

/// Describes one operator on one device.
class OperatorTile {
 public:
  OperatorTile(const View& view, const LayerKind& kind, const SplitOperator& node, const Cut& cut)
      : view_(view), node_(node), cut_(cut) {
    const Precision precision = view.plan->training.precision;
    a_ = precision == Precision::fp32 || precision == Precision::tf32 ? 4 : 2;
    all_tokens_ = static_cast<double>(layer_tokens(kind, view.plan->training.sequence));
    samples_ = static_cast<double>(view.micro_batch) / static_cast<double>(cut.b);
    tokens_ = samples_ * all_tokens_ / static_cast<double>(cut.m);
    fused_ = view.engine.memory.activations == ActivationPolicy::fused_attention;
  }

  [[nodiscard]] std::int64_t parameters() const {
    const Operator& op = *node_.op;
    if (node_.part != AttentionPart::whole || op.kind == OperatorKind::attention) return 0;
    if (op.kind != OperatorKind::linear) return op.parameters / (cut_.n * cut_.h);
    const std::int64_t out = op.out / cut_.k;
    return op.in / cut_.n * out + (op.parameters > op.in * op.out ? out : 0);
  }

  [[nodiscard]] double saved() const {
    double bytes = own_saved();
    for (const Operator* op : node_.along) bytes += elementwise(*op);
    return bytes;
  }

  /// Bounds from above the bytes besides saved tensors: gradients of the operator's input and output. A rotating
  /// product (P) also has second buffers of both and of its weights.
  [[nodiscard]] double working() const {
    const Operator& op = *node_.op;
    const double parts = static_cast<double>(cut_.n * cut_.h);
    double bytes = a_ * tokens_ * static_cast<double>(op.in + op.out) / parts;
    if (op.kind == OperatorKind::attention) bytes = 2 * own_saved() + 2 * a_ * scores();
    if (op.kind != OperatorKind::linear) return bytes;
    const double in = static_cast<double>(op.in) / static_cast<double>(cut_.n),
                 out = static_cast<double>(op.out) / static_cast<double>(cut_.k);
    bytes = a_ * tokens_ * (in + out);
    const bool rotates = cut_.letters.find('P') != std::string::npos;
    return rotates ? 2 * bytes + 2 * 4 * in * out : bytes;
  }

  /// Returns the bytes of the operator's output, whose full width is `features`.
  [[nodiscard]] double output(std::int64_t features) const {
    return a_ * tokens_ * static_cast<double>(features) / static_cast<double>(cut_.n);
  }

 private:
  [[nodiscard]] double scores() const {
    if (fused_) return 0;
    const double heads = static_cast<double>(node_.op->heads) / static_cast<double>(cut_.h);
    return tokens_ * heads * all_tokens_ / static_cast<double>(cut_.l);
  }
  [[nodiscard]] double elementwise(const Operator& op) const {
    const auto parts = static_cast<double>(cut_.n * cut_.h);
    const double in = tokens_ * static_cast<double>(op.in) / parts, out = tokens_ * static_cast<double>(op.out) / parts;
    if (op.kind == OperatorKind::norm) return a_ * in + (fused_ ? 4 * tokens_ : 0);
    if (op.kind == OperatorKind::activation) return a_ * (in + (view_.engine.memory.eager_gate && op.in == 2 * op.out ? out : 0));
    return op.kind == OperatorKind::dropout ? in : 0;
  }

  [[nodiscard]] double own_saved() const {
    const Operator& op = *node_.op;
    if (op.kind == OperatorKind::linear) {
      if (node_.after_fused_attention && cut_.k == 1) return 0;
      const bool keeps_weight = view_.engine.communication.weights_stay && cut_.letters.find('P') != std::string::npos;
      const double weight = keeps_weight ? static_cast<double>(op.in / cut_.n * (op.out / cut_.k)) : 0;
      return a_ * (tokens_ * static_cast<double>(op.in) / static_cast<double>(cut_.n) + weight);
    }
    if (op.kind != OperatorKind::attention) return elementwise(op);
    const double heads = static_cast<double>(op.heads) / static_cast<double>(cut_.h);
    const double shared = static_cast<double>(op.kv_heads) / static_cast<double>(head_slices(cut_.h, op.kv_heads));
    const double keys = samples_ * all_tokens_ / static_cast<double>(cut_.l);
    const double q = tokens_ * heads * op.qk_dim, out = tokens_ * heads * op.v_dim;
    const double k = keys * shared * op.qk_dim, v = keys * shared * op.v_dim;
    const double scores = tokens_ * heads * all_tokens_ / static_cast<double>(cut_.l);
    switch (node_.part) {
      case AttentionPart::whole: return a_ * (q + k + v + out) + 4 * tokens_ * heads;
      case AttentionPart::scores: return a_ * (q + k);
      case AttentionPart::softmax: return (op.score_dropout ? 2 * a_ + 1 : a_) * scores;
      case AttentionPart::values: return a_ * v;
    }
    return 0;
  }

  const View& view_;
  const SplitOperator& node_;
  const Cut& cut_;
  double a_ = 2, all_tokens_ = 0, samples_ = 0, tokens_ = 0;
  bool fused_ = true;
};

void check_kind(const View& view, const LayerKind& kind, const std::vector<Cut>& cuts, Verdict& verdict) {
  const std::vector<SplitOperator> nodes = nodes_of(view, kind);
  if (!verdict.require(nodes.size() == cuts.size(), [&] {
        return say(cuts.size(), " operators are partitioned, layer '", kind.name, "' has ", nodes.size());
      }))
    return;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Cut& cut = cuts[i];
    verdict.require(cut.readable && cut.name == nodes[i].name,
                    [&] { return say("'", cut.name, " ", cut.sequence, "' in place of ", nodes[i].name, " of the block"); });
    verdict.require(cut.ways == view.strategy.tp,
                    [&] { return say(cut.name, " ", cut.sequence, " is for ", cut.ways, " devices, tp is ", view.strategy.tp); });
    verdict.require(cut.letters.find_first_not_of(letters_of(nodes[i])) == std::string::npos,
                    [&] { return say(cut.name, " ", cut.sequence, " cuts more than {", letters_of(nodes[i]), "}"); });
    verdict.require(cut.readable && equal_slices(view, kind, nodes[i], cut),
                    [&] { return say(cut.name, " ", cut.sequence, " does not cut equal slices"); });
  }
}

template <class Sum>
void each_tile(const View& view, const LayerKind& kind, const Sum& sum) {
  const std::vector<SplitOperator> nodes = nodes_of(view, kind);
  const std::vector<Cut> cuts = read(view.strategy.partition.text());
  for (std::size_t i = 0; i < nodes.size() && i < cuts.size(); ++i) sum(OperatorTile(view, kind, nodes[i], cuts[i]));
}

double boundary(const View& view, const LayerKind& kind) {
  double bytes = 0;
  each_tile(view, kind, [&](const OperatorTile& tile) { bytes = tile.output(kind.hidden); });
  return bytes;
}

}  // namespace

bool partitions(const Strategy& strategy, const LayerKind& kind) {
  return !strategy.partition.empty() && kind.role == LayerRole::block;
}

Finding check_operator_partition(const View& view) {
  Verdict verdict("operator-partition");
  const Strategy& s = view.strategy;
  if (s.partition.empty()) return verdict.finding("none");
  verdict.require(s.sp == SequenceParallel::none && s.cp == 1 && s.ep == 1 && s.etp == 1,
                  [] { return say("together with sp, cp, ep or etp"); });
  verdict.require(s.recompute.kind != RecomputeKind::selective, [] { return say("with selective recomputation"); });
  const std::vector<Cut> cuts = read(s.partition.text());
  std::vector<bool> used(view.model->kinds.size(), false);
  for (const std::int32_t kind : view.model->layers) used[static_cast<std::size_t>(kind)] = true;
  for (std::size_t k = 0; k < used.size(); ++k)
    if (used[k] && view.model->kinds[k].role == LayerRole::block) check_kind(view, view.model->kinds[k], cuts, verdict);
  return verdict.finding(say(cuts.size(), " operators over ", s.tp, " devices"));
}

std::int64_t partitioned_parameters(const View& view, const LayerKind& kind) {
  std::int64_t sum = 0;
  each_tile(view, kind, [&](const OperatorTile& tile) { sum += tile.parameters(); });
  return sum;
}

double partitioned_saved_bytes(const View& view, const LayerKind& kind, bool recomputed) {
  if (recomputed) return boundary(view, kind);
  double sum = 0;
  each_tile(view, kind, [&](const OperatorTile& tile) { sum += tile.saved(); });
  return sum;
}

double partitioned_working_set(const View& view, const LayerKind& kind) {
  double most = 0;
  each_tile(view, kind, [&](const OperatorTile& tile) { most = std::max(most, tile.working()); });
  return most;
}

std::int64_t partitioned_boundary_bytes(const View& view, const LayerKind& kind) { return std::llround(boundary(view, kind)); }

}  // namespace espalier::check
