// SPDX-License-Identifier: Apache-2.0
#include "partition/operator_splits.h"

#include <algorithm>

#include "base/invariant.h"

namespace espalier::partition {

namespace {

constexpr TensorUse value(int tensor) { return {static_cast<std::int8_t>(tensor), false}; }
constexpr TensorUse gradient(int tensor) { return {static_cast<std::int8_t>(tensor), true}; }

bool power_of_two(std::int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

/// Returns whether slices of the axis are equal, or, with fewer heads than slices, whole heads that neighbouring
/// slices share.
bool axis_divides(const Axis& axis, std::int64_t slices) {
  return axis.size % slices == 0 || (power_of_two(axis.size) && slices > axis.size);
}

std::int64_t value_width(const AttentionSizes& sizes) { return sizes.value_dim > 0 ? sizes.value_dim : sizes.head_dim; }

/// Returns a shape with activations in and out, which sums nothing.
OperatorShape pointwise(std::string name, std::vector<OperatorDimension> dimensions, int inputs, std::int64_t width) {
  OperatorShape op;
  op.name = std::move(name);
  std::vector<Axis> axes;
  for (const OperatorDimension& d : dimensions) axes.push_back({d.letter, d.size});
  op.dimensions = std::move(dimensions);
  std::vector<TensorUse> read;
  for (int i = 0; i < inputs; ++i) {
    op.tensors.push_back({inputs == 1 ? "I" : "I" + std::to_string(i + 1), TensorRole::input, axes, width});
    read.push_back(value(i));
  }
  op.tensors.push_back({"O", TensorRole::output, axes, 1});
  op.products.push_back({Phase::forward, value(inputs), read, ""});
  for (int i = 0; i < inputs; ++i) {
    std::vector<TensorUse> from = {gradient(inputs)};
    if (inputs == 1) from.push_back(value(i));  // a sum needs no stash
    op.products.push_back({Phase::backward, gradient(i), std::move(from), ""});
  }
  return op;
}

/// Returns the products out = Σ_{in_sum} a·b; da = Σ_{a_sum} dout·b; db = Σ_{b_sum} a·dout.
std::vector<Product> bilinear(std::string summed, std::string summed_a, std::string summed_b) {
  return {{Phase::forward, value(2), {value(0), value(1)}, std::move(summed)},
          {Phase::backward, gradient(0), {gradient(2), value(1)}, std::move(summed_a)},
          {Phase::gradient, gradient(1), {value(0), gradient(2)}, std::move(summed_b)}};
}

}  // namespace

OperatorShape linear_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t in, std::int64_t out,
                           std::int64_t width) {
  OperatorShape op;
  op.name = std::move(name);
  op.dimensions = {{'B', batch}, {'M', positions}, {'N', in}, {'K', out}};
  op.primitive = true;
  op.tensors = {{"I", TensorRole::input, {{'B', batch}, {'M', positions}, {'N', in}}, 1},
                {"W", TensorRole::parameter, {{'N', in}, {'K', out}}, width},
                {"O", TensorRole::output, {{'B', batch}, {'M', positions}, {'K', out}}, width}};
  op.products = bilinear("N", "K", "BM");
  return op;
}

OperatorShape attention_scores_shape(std::string name, const AttentionSizes& s) {
  OperatorShape op;
  op.name = std::move(name);
  op.dimensions = {{'B', s.batch}, {'M', s.queries}, {'H', s.heads}, {'L', s.keys}};
  op.tensors = {{"Q", TensorRole::input, {{'B', s.batch}, {'M', s.queries}, {'H', s.heads}}, s.head_dim},
                {"K", TensorRole::input, {{'B', s.batch}, {'L', s.keys}, {'H', s.kv_heads}}, s.head_dim},
                {"S", TensorRole::output, {{'B', s.batch}, {'M', s.queries}, {'H', s.heads}, {'L', s.keys}}, 1}};
  op.products = bilinear("", "L", "M");
  return op;
}

OperatorShape softmax_shape(std::string name, const AttentionSizes& s) {
  OperatorShape op = pointwise(std::move(name), {{'B', s.batch}, {'M', s.queries}, {'H', s.heads}, {'L', s.keys, false}}, 1, 1);
  op.products[1].operands[1] = value(1);  // the slope follows from the result
  return op;
}

OperatorShape attention_values_shape(std::string name, const AttentionSizes& s) {
  OperatorShape op;
  op.name = std::move(name);
  op.dimensions = {{'B', s.batch}, {'M', s.queries}, {'H', s.heads}, {'L', s.keys}};
  op.tensors = {{"A", TensorRole::input, {{'B', s.batch}, {'M', s.queries}, {'H', s.heads}, {'L', s.keys}}, 1},
                {"V", TensorRole::input, {{'B', s.batch}, {'L', s.keys}, {'H', s.kv_heads}}, value_width(s)},
                {"O", TensorRole::output, {{'B', s.batch}, {'M', s.queries}, {'H', s.heads}}, value_width(s)}};
  op.products = bilinear("L", "", "M");
  return op;
}

OperatorShape fused_attention_shape(std::string name, const AttentionSizes& s) {
  OperatorShape op;
  op.name = std::move(name);
  op.dimensions = {{'B', s.batch}, {'M', s.queries}, {'H', s.heads}, {'L', s.keys, false}};
  const std::vector<Axis> query = {{'B', s.batch}, {'M', s.queries}, {'H', s.heads}};
  const std::vector<Axis> key = {{'B', s.batch}, {'L', s.keys}, {'H', s.kv_heads}};
  op.tensors = {{"Q", TensorRole::input, query, s.head_dim},
                {"K", TensorRole::input, key, s.head_dim},
                {"V", TensorRole::input, key, value_width(s)},
                {"O", TensorRole::output, query, value_width(s)}};
  const std::vector<TensorUse> stash = {value(0), value(1), value(2), value(3), gradient(3)};
  op.products = {{Phase::forward, value(3), {value(0), value(1), value(2)}, "L"},
                 {Phase::backward, gradient(0), stash, "L"},
                 {Phase::backward, gradient(1), stash, "M"},
                 {Phase::backward, gradient(2), stash, "M"}};
  return op;
}

OperatorShape norm_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t features, int weights) {
  OperatorShape op;
  op.name = std::move(name);
  op.dimensions = {{'B', batch}, {'M', positions}, {'N', features}};
  const std::vector<Axis> all = {{'B', batch}, {'M', positions}, {'N', features}};
  const std::vector<Axis> rows = {{'B', batch}, {'M', positions}};
  // LayerNorm sums x and x², RMSNorm x². Backward, LayerNorm sums dO·γ and dO·γ·x̂, RMSNorm the second alone.
  const std::int64_t sums = weights == 1 ? 1 : 2;
  op.tensors = {
      {"I", TensorRole::input, all, 1}, {"O", TensorRole::output, all, 1}, {"statistics", TensorRole::statistic, rows, sums}};
  std::vector<TensorUse> forward = {value(0), value(2)}, slope = {value(0), value(2), gradient(1)};
  if (weights > 0) {
    op.tensors.push_back({"W", TensorRole::parameter, {{'N', features}}, weights});
    forward.push_back(value(3));
    slope.push_back(value(3));
  }
  std::vector<TensorUse> with_sums = slope;
  with_sums.push_back(gradient(2));
  op.products = {{Phase::forward, value(2), {value(0)}, "N"},
                 {Phase::forward, value(1), forward, ""},
                 {Phase::backward, gradient(2), slope, "N"},
                 {Phase::backward, gradient(0), with_sums, ""}};
  if (weights > 0) op.products.push_back({Phase::gradient, gradient(3), {value(0), value(2), gradient(1)}, "BM"});
  return op;
}

OperatorShape head_norm_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t heads,
                              std::int64_t head_dim) {
  OperatorShape op = pointwise(std::move(name), {{'B', batch}, {'M', positions}, {'H', heads}}, 1, head_dim);
  op.tensors[1].width = head_dim;
  op.tensors.push_back({"W", TensorRole::parameter, {}, head_dim});
  for (Product& product : op.products) product.operands.push_back(value(2));
  op.products.push_back({Phase::gradient, gradient(2), {value(0), gradient(1)}, "BMH"});
  return op;
}

OperatorShape elementwise_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t features,
                                std::int64_t copies) {
  return pointwise(std::move(name), {{'B', batch}, {'M', positions}, {'N', features}}, 1, copies);
}

OperatorShape add_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t features) {
  return pointwise(std::move(name), {{'B', batch}, {'M', positions}, {'N', features}}, 2, 1);
}

OperatorShape embedding_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t rows,
                              std::int64_t features) {
  OperatorShape op;
  op.name = std::move(name);
  op.dimensions = {{'B', batch}, {'M', positions}, {'V', rows}, {'N', features}};
  op.tensors = {{"tokens", TensorRole::input, {{'B', batch}, {'M', positions}}, 1},
                {"W", TensorRole::parameter, {{'V', rows}, {'N', features}}, 1},
                {"O", TensorRole::output, {{'B', batch}, {'M', positions}, {'N', features}}, 1}};
  op.products = {{Phase::forward, value(2), {value(0), value(1)}, "V"},
                 {Phase::gradient, gradient(1), {value(0), gradient(2)}, "BM"}};
  return op;
}

OperatorShape cross_entropy_shape(std::string name, std::int64_t batch, std::int64_t positions, std::int64_t classes) {
  OperatorShape op;
  op.name = std::move(name);
  op.dimensions = {{'B', batch}, {'M', positions}, {'K', classes}};
  const std::vector<Axis> rows = {{'B', batch}, {'M', positions}};
  op.tensors = {{"I", TensorRole::input, {{'B', batch}, {'M', positions}, {'K', classes}}, 1},
                {"loss", TensorRole::output, rows, 1},
                {"statistics", TensorRole::statistic, rows, 3}};
  op.products = {{Phase::forward, value(2), {value(0)}, "K"},
                 {Phase::forward, value(1), {value(2)}, ""},
                 {Phase::backward, gradient(0), {value(0), value(2)}, ""}};
  return op;
}

Result<OperatorShape> shape_of(const Operator& op, std::int64_t batch, std::int64_t positions) {
  switch (op.kind) {
    case OperatorKind::embedding:
      if (op.in > 0 && op.out > 0) return embedding_shape(op.name, batch, positions, op.in, op.out);
      break;
    case OperatorKind::linear: return linear_shape(op.name, batch, positions, op.in, op.out);
    case OperatorKind::norm:
      if (op.parameters > 0 && op.parameters < op.in && op.in % op.parameters == 0) {
        return head_norm_shape(op.name, batch, positions, op.in / op.parameters, op.parameters);
      }
      return norm_shape(op.name, batch, positions, op.in, op.in > 0 ? static_cast<int>(op.parameters / op.in) : 0);
    case OperatorKind::attention:
      if (op.cross) break;
      return fused_attention_shape(op.name, {batch, positions, positions, op.heads, op.kv_heads, op.qk_dim, op.v_dim});
    case OperatorKind::activation:
      if (op.out > 0 && op.in % op.out == 0) return elementwise_shape(op.name, batch, positions, op.out, op.in / op.out);
      break;
    case OperatorKind::rotary:
    case OperatorKind::dropout: return elementwise_shape(op.name, batch, positions, op.in);
    case OperatorKind::residual: return add_shape(op.name, batch, positions, op.in);
    case OperatorKind::cross_entropy: return cross_entropy_shape(op.name, batch, positions, op.in);
    default: break;
  }
  return Error{ErrorKind::bad_input, "operator " + op.name, "a kind or shape that has no partition sequences",
               "linear, self-attention, norm, activation, rotary, dropout, residual, embedding or cross-entropy",
               "mixture-of-experts layers are spread by expert parallelism instead"};
}

std::int64_t elements(const Tensor& tensor) {
  std::int64_t count = tensor.width;
  for (const Axis& axis : tensor.axes) count *= axis.size;
  return count;
}

std::string splittable_dimensions(const OperatorShape& op) {
  std::string letters;
  for (const OperatorDimension& d : op.dimensions) {
    if (d.splittable) letters += d.letter;
  }
  return letters;
}

bool is_legal(const OperatorShape& op, const PartitionSequence& sequence) {
  const std::string letters = splittable_dimensions(op);
  for (const BasicPartition& part : sequence) {
    if (part.primitive() ? !op.primitive : letters.find(part.dimension) == std::string::npos) return false;
  }
  const auto divides = [&](const Axis& axis) { return axis_divides(axis, slices(sequence, axis.letter)); };
  for (const OperatorDimension& d : op.dimensions) {
    if (d.size % slices(sequence, d.letter) != 0) return false;
  }
  return std::all_of(op.tensors.begin(), op.tensors.end(),
                     [&](const Tensor& tensor) { return std::all_of(tensor.axes.begin(), tensor.axes.end(), divides); });
}

std::vector<PartitionSequence> partition_space(const OperatorShape& op, int bits) {
  std::vector<PartitionSequence> all = enumerate_sequences(bits, splittable_dimensions(op), op.primitive);
  std::erase_if(all, [&](const PartitionSequence& sequence) { return !is_legal(op, sequence); });
  return all;
}

std::int64_t points_per_step(const OperatorShape& op, const Product& product, const PartitionSequence& sequence) {
  std::string letters = product.summed;
  const auto add = [&](const TensorUse& use) {
    for (const Axis& axis : op.tensors[static_cast<std::size_t>(use.tensor)].axes) letters += axis.letter;
  };
  add(product.output);
  for (const TensorUse& use : product.operands) add(use);
  std::int64_t points = 1;
  for (const OperatorDimension& d : op.dimensions) {
    if (letters.find(d.letter) != std::string::npos) points *= d.size / slices(sequence, d.letter);
  }
  return points;
}

}  // namespace espalier::partition
