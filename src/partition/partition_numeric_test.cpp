// SPDX-License-Identifier: Apache-2.0
// Training steps of linear → tanh → linear on simulated devices that hold only their tiles, moved exactly as
// communication.h and layout.h specify. The devices multiply the tiles that they hold and have no global index, so a
// misplaced tile gives a wrong number.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "partition/communication.h"

namespace espalier::partition {
namespace {

using Numbers = std::vector<double>;  ///< row-major over the axes

/// Holds the tiles of one tensor, one per device.
struct Spread {
  Layout layout;
  std::vector<Numbers> tiles;
};

/// Counts messages between devices and the numbers in them.
struct Traffic {
  std::int64_t ring = 0, ring_elements = 0, redistribution = 0, redistribution_elements = 0, reductions = 0;
};

std::vector<std::int64_t> sizes_of(const Tensor& tensor) {
  std::vector<std::int64_t> sizes;
  for (const Axis& axis : tensor.axes) sizes.push_back(axis.size);
  return sizes;
}

std::int64_t volume(const std::vector<std::int64_t>& sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

/// Calls f(offset in a, offset in b) for every element of the box `part` inside the boxes `a` and `b`, which contain
/// it.
void for_each(const std::vector<std::int64_t>& sizes, const Tile& a, const Tile& b, const Tile& part,
              const std::function<void(std::size_t, std::size_t)>& f) {
  std::vector<std::int64_t> at(sizes.size(), 0), length(sizes.size());
  for (std::size_t d = 0; d < sizes.size(); ++d) length[d] = sizes[d] >> part.bits[d];
  const auto offset = [&](const Tile& box) {
    std::int64_t sum = 0;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      const std::int64_t inner = sizes[d] >> box.bits[d];
      sum = sum * inner + part.index[d] * length[d] + at[d] - box.index[d] * inner;
    }
    return static_cast<std::size_t>(sum);
  };
  for (std::int64_t i = 0; i < volume(length); ++i) {
    std::int64_t rest = i;
    for (std::size_t d = sizes.size(); d-- > 0;) {
      at[d] = rest % length[d];
      rest /= length[d];
    }
    f(offset(a), offset(b));
  }
}

Spread scatter(const Numbers& dense, const Tensor& tensor, const Layout& layout) {
  Spread spread{layout, {}};
  const auto sizes = sizes_of(tensor);
  for (int device = 0; device < layout.devices(); ++device) {
    const Tile tile = layout.tile(device);
    Numbers& numbers = spread.tiles.emplace_back(static_cast<std::size_t>(volume(sizes) >> layout.tile_bits()));
    for_each(sizes, tile, Tile{}, tile, [&](std::size_t to, std::size_t from) { numbers[to] = dense[from]; });
  }
  return spread;
}

/// Returns the largest difference from the dense tensor over all devices, replicas included.
double difference(const Spread& spread, const Numbers& dense, const Tensor& tensor) {
  double largest = 0;
  for (int device = 0; device < spread.layout.devices(); ++device) {
    const Tile tile = spread.layout.tile(device);
    for_each(sizes_of(tensor), tile, Tile{}, tile, [&](std::size_t mine, std::size_t whole) {
      const double error = std::abs(spread.tiles[static_cast<std::size_t>(device)][mine] - dense[whole]);
      largest = std::max(largest, std::isnan(error) ? INFINITY : error);
    });
  }
  return largest;
}

/// Carries out the messages of a redistribution.
Spread redistribute(const Spread& held, const Tensor& tensor, const Layout& needed, Traffic& traffic) {
  const auto sizes = sizes_of(tensor);
  Spread result{needed, std::vector<Numbers>(held.tiles.size())};
  const auto copy = [&](int from, int to, const Tile& part) {
    const Numbers& source = held.tiles[static_cast<std::size_t>(from)];
    Numbers& target = result.tiles[static_cast<std::size_t>(to)];
    for_each(sizes, held.layout.tile(from), needed.tile(to), part,
             [&](std::size_t there, std::size_t here) { target[here] = source[there]; });
  };
  for (int device = 0; device < needed.devices(); ++device) {
    const auto at = static_cast<std::size_t>(device);
    result.tiles[at].assign(static_cast<std::size_t>(volume(sizes) >> needed.tile_bits()), NAN);
    Tile own = held.layout.tile(device);  // the part that is in place already, if the two tiles meet
    const Tile want = needed.tile(device);
    bool meet = true;
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      const int down = own.bits[a] - want.bits[a];
      meet = meet && (down >= 0 ? own.index[a] >> down == want.index[a] : want.index[a] >> -down == own.index[a]);
      if (down < 0) {
        own.index[a] = want.index[a];
        own.bits[a] = want.bits[a];
      }
    }
    if (meet) copy(device, device, own);
  }
  for (const TileMove& move : redistribution_moves(held.layout, needed)) {
    copy(move.from, move.to, move.tile);
    ++traffic.redistribution;
    std::int64_t length = 1;
    for (std::size_t a = 0; a < sizes.size(); ++a) length *= sizes[a] >> move.tile.bits[a];
    traffic.redistribution_elements += length;
  }
  return result;
}

/// Runs one operator with its sequence on the devices: tiles that stay between phases, and the three phases of a
/// bilinear product.
class Worker {
 public:
  Worker(const OperatorShape& op, const PartitionSequence& sequence, Traffic& traffic)
      : op_(op), sequence_(sequence), messages_(communication(op, sequence)), traffic_(traffic) {}

  Spread& tensor(int index, bool gradient = false) { return spread_[2 * index + (gradient ? 1 : 0)]; }

  /// Runs the product of a phase: steps, transfers, reductions. Its operands must be in place.
  void run(Phase phase) {
    const Product* product = nullptr;
    for (const Product& one : op_.products) {
      if (one.phase == phase) product = &one;
    }
    Spread& output = spread(product->output);
    const auto size = static_cast<std::size_t>(tile_elements(op_, sequence_, product->output.tensor));
    output.tiles.assign(static_cast<std::size_t>(sequence_.devices()), Numbers(size, 0.0));
    for (int step = 0; step < steps(sequence_); ++step) {
      transfer(phase, step, true);
      for (int device = 0; device < sequence_.devices(); ++device) multiply(*product, static_cast<std::size_t>(device));
      transfer(phase, step, false);
    }
    output.layout = layout_at(op_, sequence_, product->output.tensor, phase, steps(sequence_) - 1);
    for (const Reduction& reduction : messages_.reductions) {
      if (reduction.phase == phase) all_reduce(reduction);
    }
  }

 private:
  Spread& spread(const TensorUse& use) { return tensor(use.tensor, use.gradient); }

  void transfer(Phase phase, int step, bool accumulator) {
    for (const TileTransfer& one : messages_.transfers) {
      if (one.phase != phase || one.step != step || one.accumulator != accumulator) continue;
      std::vector<Numbers>& tiles = spread(one.tensor).tiles;
      std::vector<Numbers> received(tiles.size());
      for (std::size_t device = 0; device < tiles.size(); ++device) {
        const auto sender = static_cast<std::size_t>(one.sender[device]);
        received[device] = tiles[sender];
        if (sender == device) continue;
        ++traffic_.ring;
        traffic_.ring_elements += static_cast<std::int64_t>(tiles[sender].size());
      }
      tiles = std::move(received);
    }
  }

  /// Describes a tile as the loops over the local lengths of the dimensions see it: where index i of dimension d
  /// points.
  struct Operand {
    double* data;
    std::array<std::vector<std::size_t>, 4> offset;
  };

  Operand operand(const TensorUse& use, std::size_t device, const std::array<std::size_t, 4>& length) {
    Numbers& numbers = spread(use).tiles[device];
    Operand result{numbers.data(), {}};
    for (std::size_t d = 0; d < length.size(); ++d) result.offset[d].assign(length[d], 0);
    const std::vector<Axis>& axes = op_.tensors[static_cast<std::size_t>(use.tensor)].axes;
    std::size_t stride = 1;
    for (std::size_t a = axes.size(); a-- > 0;) {
      std::size_t d = 0;
      while (op_.dimensions[d].letter != axes[a].letter) ++d;
      const auto own = static_cast<std::size_t>(std::max<std::int64_t>(axes[a].size / slices(sequence_, axes[a].letter), 1));
      // Query heads that share a head of K and V point to the same element.
      for (std::size_t i = 0; i < length[d]; ++i) result.offset[d][i] = i * own / length[d] * stride;
      stride *= own;
    }
    EXPECT_EQ(numbers.size(), stride);
    return result;
  }

  /// Computes output += a·b over the local lengths of all four dimensions.
  void multiply(const Product& product, std::size_t device) {
    std::array<std::size_t, 4> length{};
    for (std::size_t d = 0; d < length.size(); ++d) {
      length[d] = static_cast<std::size_t>(op_.dimensions[d].size / slices(sequence_, op_.dimensions[d].letter));
    }
    const Operand out = operand(product.output, device, length), a = operand(product.operands[0], device, length),
                  b = operand(product.operands[1], device, length);
    std::array<std::size_t, 3> i{};
    const auto row = [&i](const Operand& one) {
      return one.data + one.offset[0][i[0]] + one.offset[1][i[1]] + one.offset[2][i[2]];
    };
    for (i[0] = 0; i[0] < length[0]; ++i[0]) {
      for (i[1] = 0; i[1] < length[1]; ++i[1]) {
        for (i[2] = 0; i[2] < length[2]; ++i[2]) {
          double* to = row(out);
          const double *left = row(a), *right = row(b);
          for (std::size_t j = 0; j < length[3]; ++j) to[out.offset[3][j]] += left[a.offset[3][j]] * right[b.offset[3][j]];
        }
      }
    }
  }

  void all_reduce(const Reduction& reduction) {
    std::vector<Numbers>& tiles = spread(reduction.tensor).tiles;
    std::vector<Numbers> summed = tiles;
    for (int device = 0; device < sequence_.devices(); ++device) {
      Numbers& sum = summed[static_cast<std::size_t>(device)];
      EXPECT_EQ(static_cast<std::int64_t>(sum.size()), reduction.elements);
      std::fill(sum.begin(), sum.end(), 0.0);
      for (const int other : group_of(device, reduction.indicator)) {
        for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += tiles[static_cast<std::size_t>(other)][e];
      }
    }
    tiles = std::move(summed);
    ++traffic_.reductions;
  }

  const OperatorShape& op_;
  const PartitionSequence& sequence_;
  Communication messages_;
  Traffic& traffic_;
  std::map<int, Spread> spread_;
};

constexpr std::int64_t kBatch = 8, kPositions = 16, kIn = 16, kInner = 32, kOut = 16;
constexpr double kRate = 0.01;

struct Shapes {
  OperatorShape first = linear_shape("fc1", kBatch, kPositions, kIn, kInner);
  OperatorShape wave = elementwise_shape("tanh", kBatch, kPositions, kInner);
  OperatorShape second = linear_shape("fc2", kBatch, kPositions, kInner, kOut);
};

/// Holds what one training step computes, whole.
struct Dense {
  Numbers x, w1, w2, target;
  Numbers o1, a, o2, slope2, slope_a, slope1, slope_x, g1, g2;
};

/// Returns out = Σ a·b over [rows, inner] · [inner, columns], either operand transposed.
Numbers multiply(const Numbers& a, const Numbers& b, std::int64_t rows, std::int64_t inner, std::int64_t columns, bool ta,
                 bool tb) {
  Numbers out(static_cast<std::size_t>(rows * columns), 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t k = 0; k < inner; ++k) {
      const double left = a[static_cast<std::size_t>(ta ? k * rows + i : i * inner + k)];
      for (std::int64_t j = 0; j < columns; ++j) {
        out[static_cast<std::size_t>(i * columns + j)] +=
            left * b[static_cast<std::size_t>(tb ? j * inner + k : k * columns + j)];
      }
    }
  }
  return out;
}

void train(Dense& d) {
  const std::int64_t tokens = kBatch * kPositions;
  d.o1 = multiply(d.x, d.w1, tokens, kIn, kInner, false, false);
  d.a = d.o1;
  for (double& value : d.a) value = std::tanh(value);
  d.o2 = multiply(d.a, d.w2, tokens, kInner, kOut, false, false);
  d.slope2 = d.o2;
  for (std::size_t i = 0; i < d.slope2.size(); ++i) d.slope2[i] -= d.target[i];
  d.slope_a = multiply(d.slope2, d.w2, tokens, kOut, kInner, false, true);
  d.g2 = multiply(d.a, d.slope2, kInner, tokens, kOut, true, false);
  d.slope1 = d.slope_a;
  for (std::size_t i = 0; i < d.slope1.size(); ++i) d.slope1[i] *= 1 - d.a[i] * d.a[i];
  d.slope_x = multiply(d.slope1, d.w1, tokens, kInner, kIn, false, true);
  d.g1 = multiply(d.x, d.slope1, kIn, tokens, kInner, true, false);
}

void update(Numbers& weights, const Numbers& gradient) {
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= kRate * gradient[i];
}

Numbers random_numbers(std::mt19937& random, std::int64_t n) {
  Numbers all(static_cast<std::size_t>(n));
  for (double& value : all) value = static_cast<double>(random()) / 4294967296.0 - 0.5;
  return all;
}

Dense random_problem() {
  std::mt19937 random(11);
  const auto numbers = [&](std::int64_t n) { return random_numbers(random, n); };
  Dense d;
  d.x = numbers(kBatch * kPositions * kIn);
  d.w1 = numbers(kIn * kInner);
  d.w2 = numbers(kInner * kOut);
  d.target = numbers(kBatch * kPositions * kOut);
  return d;
}

struct Sequences {
  PartitionSequence first, wave, second;
};

struct Outcome {
  double error = 0;    ///< largest difference of any tile of any tensor from the dense result
  Traffic first_step;  ///< only the first training step
  Traffic all;
};

/// Runs two training steps on the devices and the dense ones for comparison; weights are updated in place where dW
/// ended.
Outcome run(const Sequences& by) {
  const Shapes shape;
  Outcome outcome;
  Dense dense = random_problem();
  Traffic& traffic = outcome.all;
  Worker first(shape.first, by.first, traffic), second(shape.second, by.second, traffic);
  const auto start = [](const OperatorShape& op, const PartitionSequence& sequence, int tensor) {
    return layout_at(op, sequence, tensor, Phase::forward, 0);
  };
  first.tensor(1) = scatter(dense.w1, shape.first.tensors[1], start(shape.first, by.first, 1));
  second.tensor(1) = scatter(dense.w2, shape.second.tensors[1], start(shape.second, by.second, 1));
  const auto check = [&](const Spread& spread, const Numbers& numbers, const Tensor& tensor) {
    outcome.error = std::max(outcome.error, difference(spread, numbers, tensor));
  };
  for (int step = 0; step < 2; ++step) {
    train(dense);
    // Runs the forward phase.
    first.tensor(0) = scatter(dense.x, shape.first.tensors[0], forward_needed(shape.first, by.first, 0));
    first.run(Phase::forward);
    check(first.tensor(2), dense.o1, shape.first.tensors[2]);
    Spread wave = redistribute(first.tensor(2), shape.first.tensors[2], forward_needed(shape.wave, by.wave, 0), traffic);
    for (Numbers& tile : wave.tiles) {
      for (double& value : tile) value = std::tanh(value);
    }
    check(wave, dense.a, shape.wave.tensors[1]);
    second.tensor(0) = redistribute(wave, shape.wave.tensors[1], forward_needed(shape.second, by.second, 0), traffic);
    second.run(Phase::forward);
    check(second.tensor(2), dense.o2, shape.second.tensors[2]);
    // The loss is half the squared distance to the target; its slope arises where O lies.
    Spread slope = second.tensor(2);
    const Spread target = scatter(dense.target, shape.second.tensors[2], slope.layout);
    for (std::size_t device = 0; device < slope.tiles.size(); ++device) {
      for (std::size_t i = 0; i < slope.tiles[device].size(); ++i) slope.tiles[device][i] -= target.tiles[device][i];
    }
    const std::int64_t before = traffic.redistribution;
    second.tensor(2, true) = redistribute(slope, shape.second.tensors[2], backward_needed(shape.second, by.second), traffic);
    EXPECT_EQ(traffic.redistribution, before);  // O and dO of one operator are aligned
    // Runs the backward and gradient phases.
    second.run(Phase::backward);
    check(second.tensor(0, true), dense.slope_a, shape.second.tensors[0]);
    second.run(Phase::gradient);
    check(second.tensor(1, true), dense.g2, shape.second.tensors[1]);
    Spread back = redistribute(second.tensor(0, true), shape.second.tensors[0], backward_needed(shape.wave, by.wave), traffic);
    for (std::size_t device = 0; device < back.tiles.size(); ++device) {
      for (std::size_t i = 0; i < back.tiles[device].size(); ++i) {
        const double a = wave.tiles[device][i];  // the stash lies where the slope is needed
        back.tiles[device][i] *= 1 - a * a;
      }
    }
    check(back, dense.slope1, shape.wave.tensors[0]);
    first.tensor(2, true) = redistribute(back, shape.wave.tensors[0], backward_needed(shape.first, by.first), traffic);
    first.run(Phase::backward);
    check(first.tensor(0, true), dense.slope_x, shape.first.tensors[0]);
    first.run(Phase::gradient);
    check(first.tensor(1, true), dense.g1, shape.first.tensors[1]);
    // The optimizer updates tile by tile, in place.
    for (Worker* worker : {&first, &second}) {
      EXPECT_EQ(worker->tensor(1).layout, worker->tensor(1, true).layout);
      for (std::size_t device = 0; device < worker->tensor(1).tiles.size(); ++device) {
        update(worker->tensor(1).tiles[device], worker->tensor(1, true).tiles[device]);
      }
    }
    update(dense.w1, dense.g1);
    update(dense.w2, dense.g2);
    check(first.tensor(1), dense.w1, shape.first.tensors[1]);
    check(second.tensor(1), dense.w2, shape.second.tensors[1]);
    if (step == 0) outcome.first_step = traffic;
  }
  return outcome;
}

Sequences sequences_of(std::string_view first, std::string_view wave, std::string_view second) {
  return {*parse_sequence(first, "BMNK", true), *parse_sequence(wave, "BMN", false), *parse_sequence(second, "BMNK", true)};
}

/// Returns the ring messages of one step by the closed formula: with T steps 2(T − 1) forward, 2(T − 1) and W back,
/// 2(T − 1) and dW.
std::int64_t ring_messages(const PartitionSequence& sequence) {
  const int turns = steps(sequence);
  return turns == 1 ? 0 : std::int64_t{sequence.devices()} * (6 * (turns - 1) + 2);
}

/// Returns the units that eq. 9 counts at the four edges, in elements.
std::int64_t edge_elements(const Sequences& by) {
  const Shapes shape;
  const auto count = [](const Layout& held, const Layout& needed, const Tensor& tensor) {
    return static_cast<std::int64_t>(redistribution_total(held, needed) * static_cast<double>(elements(tensor)));
  };
  const Tensor& inner = shape.wave.tensors[0];
  return count(forward_held(shape.first, by.first), forward_needed(shape.wave, by.wave, 0), inner) +
         count(forward_held(shape.wave, by.wave), forward_needed(shape.second, by.second, 0), inner) +
         count(backward_held(shape.second, by.second, 0), backward_needed(shape.wave, by.wave), inner) +
         count(backward_held(shape.wave, by.wave, 0), backward_needed(shape.first, by.first), inner);
}

void expect_exact(const Sequences& by) {
  const std::string text = to_string(by.first) + " | " + to_string(by.wave) + " | " + to_string(by.second);
  const Outcome outcome = run(by);
  EXPECT_LT(outcome.error, 1e-12) << text;
  EXPECT_EQ(outcome.first_step.ring, ring_messages(by.first) + ring_messages(by.second)) << text;
  EXPECT_EQ(outcome.first_step.redistribution_elements, edge_elements(by)) << text;
  EXPECT_EQ(outcome.all.ring, 2 * outcome.first_step.ring) << text;
  EXPECT_EQ(outcome.all.redistribution, 2 * outcome.first_step.redistribution) << text;
}

// Four devices, P_{2×2} twice, tanh split by positions and features as O lies. A device of each linear sends 8 tiles:
// 2, 3, 3. Between tanh and the second linear, row 1 of the torus swaps its tiles forward, row 0 backward: 2 + 2
// messages. There is no all-reduce.
TEST(PartitionNumeric, IsTheSmallestExampleByHand) {
  const Outcome outcome = run(sequences_of("P2", "M,N", "P2"));
  EXPECT_LT(outcome.error, 1e-12);
  EXPECT_EQ(outcome.first_step.ring, 2 * 4 * 8);
  EXPECT_EQ(outcome.first_step.redistribution, 4);
  EXPECT_EQ(outcome.first_step.reductions, 0);
}

// Megatron's MLP, column then row: O of the row linear and dI of the column linear are reduced; nothing else moves.
TEST(PartitionNumeric, ColumnThenRow) {
  const Outcome outcome = run(sequences_of("K,K", "N,N", "N,N"));
  EXPECT_LT(outcome.error, 1e-12);
  EXPECT_EQ(outcome.first_step.ring, 0);
  EXPECT_EQ(outcome.first_step.redistribution, 0);
  EXPECT_EQ(outcome.first_step.reductions, 2);
}

TEST(PartitionNumeric, MixedSequencesEqualTheDenseResult) {
  for (const auto& [first, wave, second] : std::vector<std::array<const char*, 3>>{
           {"-", "-", "-"},
           {"P2", "B,B", "P2"},
           {"P2", "N,M", "M,N"},
           {"K,P2", "N,M,N", "N,P2"},
           {"B,P2", "B,M,N", "P2,B"},
           {"M,P2", "M,M,N", "P2,K"},
           {"P2,N", "M,N,B", "N,P2"},
           {"P4", "M,N,M,N", "P4"},
           {"B,N,P2", "B,M,M,N", "P2,P2"},
           {"P2,P2", "M,N,M,N", "P4"},
           {"N,P2,M", "N,M,B,B", "P2,B,K"},
           {"K,P4", "N,M,N,M,N", "N,P4"},
           {"P4,B", "B,B,B,M,N", "B,P4"},
           {"P2,M,P2", "M,N,M,M,N", "P2,K,P2"},
       }) {
    expect_exact(sequences_of(first, wave, second));
  }
}

// 120 draws of three sequences on 2 … 32 devices.
TEST(PartitionNumeric, RandomSequencesEqualTheDenseResult) {
  std::mt19937 random(3);
  const Shapes shape;
  int rings = 0;
  for (int draw = 0; draw < 120; ++draw) {
    const int bits = 1 + draw % 5;
    const auto any = [&](const OperatorShape& op) {
      const auto space = partition_space(op, bits);
      const PartitionSequence* sequence = &space[random() % space.size()];
      for (int tries = 0; op.primitive && steps(*sequence) == 1 && tries < 8; ++tries) sequence = &space[random() % space.size()];
      return *sequence;
    };
    const Sequences by = {any(shape.first), any(shape.wave), any(shape.second)};
    rings += steps(by.first) * steps(by.second) > 1 ? 1 : 0;
    expect_exact(by);
  }
  EXPECT_GT(rings, 70);
}

// Attention scores of 8 query heads on 2 heads of K, one feature each: S[b,m,h,l] = Q[b,m,h]·K[b,l,h/4], under all
// legal sequences of 8 devices. Gradient dQ sums over l, and dK over m and over the four query heads of a group, even
// where the group is spread over devices.
TEST(PartitionNumeric, GroupedQueryAttentionEqualsTheDenseResult) {
  const AttentionSizes size{8, 8, 8, 8, 2, 1};
  const OperatorShape op = attention_scores_shape("qk", size);
  std::mt19937 random(5);
  const Numbers q = random_numbers(random, 8 * 8 * 8), k = random_numbers(random, 8 * 8 * 2),
                ds = random_numbers(random, 8 * 8 * 8 * 8);
  Numbers s(ds.size()), dq(q.size()), dk(k.size());
  for (std::size_t i = 0; i < s.size(); ++i) {
    const std::size_t l = i % 8, h = i / 8 % 8, m = i / 64 % 8, b = i / 512;
    const std::size_t at_q = (b * 8 + m) * 8 + h, at_k = (b * 8 + l) * 2 + h / 4;
    s[i] = q[at_q] * k[at_k];
    dq[at_q] += ds[i] * k[at_k];
    dk[at_k] += ds[i] * q[at_q];
  }
  const auto space = partition_space(op, 3);
  EXPECT_EQ(space.size(), 64u);
  for (const PartitionSequence& sequence : space) {
    Traffic traffic;
    Worker worker(op, sequence, traffic);
    worker.tensor(0) = scatter(q, op.tensors[0], forward_needed(op, sequence, 0));
    worker.tensor(1) = scatter(k, op.tensors[1], forward_needed(op, sequence, 1));
    worker.tensor(2, true) = scatter(ds, op.tensors[2], backward_needed(op, sequence));
    for (const Phase phase : kPhases) worker.run(phase);
    EXPECT_LT(difference(worker.tensor(2), s, op.tensors[2]), 1e-12) << to_string(sequence);
    EXPECT_LT(difference(worker.tensor(0, true), dq, op.tensors[0]), 1e-12) << to_string(sequence);
    EXPECT_LT(difference(worker.tensor(1, true), dk, op.tensors[1]), 1e-12) << to_string(sequence);
  }
}

}  // namespace
}  // namespace espalier::partition
