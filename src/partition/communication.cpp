// SPDX-License-Identifier: Apache-2.0
#include "partition/communication.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <tuple>

#include "base/invariant.h"

namespace espalier::partition {

namespace {

using Index = std::array<std::int16_t, kMaxAxes>;

/// Returns the device that passes its tile to each device, so that tiles laid out as `have` become laid out as
/// `want`.
std::vector<std::int16_t> senders(const Layout& have, const Layout& want) {
  std::vector<std::pair<Index, int>> holders;
  for (int device = 0; device < have.devices(); ++device) holders.emplace_back(have.tile(device).index, device);
  std::sort(holders.begin(), holders.end());
  std::vector<std::int16_t> sender;
  for (int device = 0; device < want.devices(); ++device) {
    const Index wanted = want.tile(device).index;
    const auto rank = [device](int from) {
      return std::tuple(reach(from, device), std::popcount(static_cast<unsigned>(from ^ device)), from);
    };
    int best = -1;
    for (auto holder = std::lower_bound(holders.begin(), holders.end(), std::pair{wanted, 0});
         holder != holders.end() && holder->first == wanted; ++holder) {
      if (best < 0 || rank(holder->second) < rank(best)) best = holder->second;
    }
    ESPALIER_CHECK(best >= 0);  // no tile is ever lost
    sender.push_back(static_cast<std::int16_t>(best));
  }
  return sender;
}

/// Collects the messages of one operator under one sequence.
class Derivation {
 public:
  Derivation(const OperatorShape& op, const PartitionSequence& sequence)
      : op_(op), sequence_(sequence), last_(steps(sequence) - 1) {}

  Communication derive() {
    for (const Phase phase : kPhases) {
      const std::vector<TensorUse> read = operands(phase);
      for (int step = 0; step <= last_; ++step) {
        for (const TensorUse& use : read) {
          if (const auto want = next_place(use, phase, step)) move(use, phase, step, at(use, phase, step), *want, false);
        }
        for (const Product& product : op_.products) {
          if (product.phase == phase) pass_output(product, step);
        }
      }
      for (const Product& product : op_.products) {
        if (product.phase == phase) reduce(product);
      }
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] const Tensor& tensor(const TensorUse& use) const { return op_.tensors[static_cast<std::size_t>(use.tensor)]; }
  [[nodiscard]] Layout at(const TensorUse& use, Phase phase, int step) const {
    return layout_at(op_, sequence_, use.tensor, phase, step);
  }

  /// Returns the tensors that the products of a phase read, each once.
  [[nodiscard]] std::vector<TensorUse> operands(Phase phase) const {
    std::vector<TensorUse> all;
    for (const Product& product : op_.products) {
      if (product.phase != phase) continue;
      for (const TensorUse& use : product.operands) {
        if (std::find(all.begin(), all.end(), use) == all.end()) all.push_back(use);
      }
    }
    return all;
  }

  /// Returns where an operand is needed after this step; nothing if it is not needed again.
  [[nodiscard]] std::optional<Layout> next_place(const TensorUse& use, Phase phase, int step) const {
    if (step < last_) return at(use, phase, step + 1);
    for (const Phase later : kPhases) {
      if (later <= phase) continue;
      const std::vector<TensorUse> read = operands(later);
      if (std::find(read.begin(), read.end(), use) != read.end()) return at(use, later, 0);
    }
    if (tensor(use).role == TensorRole::parameter && !use.gradient) return at(use, Phase::forward, 0);
    return std::nullopt;
  }

  void pass_output(const Product& product, int step) {
    const TensorUse& use = product.output;
    if (step > 0) move(use, product.phase, step, at(use, product.phase, step - 1), at(use, product.phase, step), true);
    if (step == last_ && tensor(use).role == TensorRole::parameter) {
      move(use, product.phase, step, at(use, product.phase, step), at(use, Phase::forward, 0), false);
    }
  }

  void move(const TensorUse& use, Phase phase, int step, const Layout& have, const Layout& want, bool accumulator) {
    if (have == want) return;
    TileTransfer transfer{phase, step, use, accumulator, tile_elements(op_, sequence_, use.tensor), 0, senders(have, want)};
    for (int device = 0; device < want.devices(); ++device) {
      transfer.reach = std::max(transfer.reach, reach(device, transfer.sender[static_cast<std::size_t>(device)]));
    }
    result_.transfers.push_back(std::move(transfer));
  }

  /// Returns the letters that a product runs over.
  [[nodiscard]] std::string letters(const Product& product) const {
    std::string all = product.summed;
    for (const TensorUse& use : product.operands) {
      for (const Axis& axis : tensor(use).axes) all += axis.letter;
    }
    return all;
  }

  /// Returns whether the bit changes what is summed, but not the tile that the sum belongs to, on every device.
  [[nodiscard]] bool sums_over(const Product& product, const Layout& output, int bit) const {
    const std::string over = letters(product);
    for (int device = 0; device < output.devices(); ++device) {
      const int other = device ^ (1 << bit);
      if (!(output.tile(device) == output.tile(other))) return false;
      const bool differs = std::any_of(over.begin(), over.end(), [&](char letter) {
        return slice_index(sequence_, letter, product.phase, device, last_) !=
               slice_index(sequence_, letter, product.phase, other, last_);
      });
      if (!differs) return false;
    }
    return true;
  }

  void reduce(const Product& product) {
    const Layout output = at(product.output, product.phase, last_);
    GroupIndicator indicator = 0;
    for (int bit = 0; bit < sequence_.bits(); ++bit) {
      if (sums_over(product, output, bit)) indicator |= GroupIndicator{1} << bit;
    }
    if (indicator == 0) return;
    result_.reductions.push_back({product.phase, product.output, indicator, tile_elements(op_, sequence_, product.output.tensor),
                                  1 << std::popcount(indicator)});
  }

  const OperatorShape& op_;
  const PartitionSequence& sequence_;
  int last_;
  Communication result_;
};

}  // namespace

Communication communication(const OperatorShape& op, const PartitionSequence& sequence) {
  ESPALIER_CHECK(is_legal(op, sequence));
  return Derivation(op, sequence).derive();
}

std::vector<Shift> shifts_of(const Communication& communication, Phase phase, int step, int device) {
  std::vector<Shift> shifts;
  for (const TileTransfer& transfer : communication.transfers) {
    if (transfer.phase != phase || transfer.step != step) continue;
    const auto to = std::find(transfer.sender.begin(), transfer.sender.end(), device) - transfer.sender.begin();
    ESPALIER_CHECK(to < static_cast<std::ptrdiff_t>(transfer.sender.size()));  // a permutation
    shifts.push_back(
        {transfer.tensor, transfer.accumulator, transfer.sender[static_cast<std::size_t>(device)], static_cast<int>(to)});
  }
  return shifts;
}

std::int64_t tile_elements(const OperatorShape& op, const PartitionSequence& sequence, int tensor) {
  const Tensor& whole = op.tensors[static_cast<std::size_t>(tensor)];
  std::int64_t count = whole.width;
  for (const Axis& axis : whole.axes) {
    const std::int64_t pieces = slices(sequence, axis.letter);
    count *= axis.size >= pieces ? axis.size / pieces : 1;
  }
  return count;
}

std::vector<int> group_of(int device, GroupIndicator indicator) {
  std::vector<int> group;
  const int base = device & ~static_cast<int>(indicator);
  // Counts through the subsets of the indicator in ascending order.
  for (GroupIndicator subset = 0;; subset = (subset - indicator) & indicator) {
    group.push_back(base | static_cast<int>(subset));
    if (subset == indicator) return group;
  }
}

std::string indicator_text(GroupIndicator indicator, int bits) {
  std::string text = "(";
  for (int i = 1; i <= bits; ++i) {
    if (((indicator >> (bits - i)) & 1) != 0) text += (text.size() > 1 ? ",d" : "d") + std::to_string(i);
  }
  return text + ")";
}

std::int64_t receive_buffer_elements(const Communication& communication) {
  std::int64_t largest = 0;
  for (const TileTransfer& one : communication.transfers) {
    std::int64_t together = 0;
    for (const TileTransfer& other : communication.transfers) {
      if (other.phase == one.phase && other.step == one.step) together += other.elements;
    }
    largest = std::max(largest, together);
  }
  return largest;
}

}  // namespace espalier::partition
