// SPDX-License-Identifier: Apache-2.0
// A small executor without times: an instruction may start when its stream predecessor, its waits and (recv) its send have ended.
// Data collectives meet: the n-th collective of every rank of a data group is one node that waits for what each member waits
// for; the tied exchange meets between the first and the last stage. All instructions run ⇔ there is no cycle (Kahn 1962).
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "check/program_check.h"
#include "check/verdict.h"

namespace espalier::check {
namespace {

bool meets(InstructionKind kind) { return kind == InstructionKind::grad_reduce || kind == InstructionKind::param_gather; }

std::vector<std::int32_t> collectives_of(const Program& program, const RankProgram& rank, bool tied) {
  std::vector<std::int32_t> result;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const InstructionKind kind = program.instructions[static_cast<std::size_t>(i)].kind;
    if (tied ? kind == InstructionKind::tied_reduce : meets(kind)) result.push_back(i);
  }
  return result;
}

/// Makes `lists` meet element by element: joined nodes take the first member's id. False when the lists differ.
bool join(const Program& program, const std::vector<std::vector<std::int32_t>>& lists, std::vector<std::int32_t>& node) {
  bool equal = true;
  for (const auto& list : lists) {
    equal = equal && list.size() == lists.front().size();
    for (std::size_t n = 0; n < std::min(list.size(), lists.front().size()); ++n) {
      const Instruction& a = program.instructions[static_cast<std::size_t>(lists.front()[n])];
      const Instruction& b = program.instructions[static_cast<std::size_t>(list[n])];
      const bool one_chunk = a.chunk == b.chunk || a.kind == InstructionKind::tied_reduce;  // embedding meets head
      equal = equal && a.kind == b.kind && one_chunk && a.piece == b.piece && a.pieces == b.pieces;
      node[static_cast<std::size_t>(list[n])] = lists.front()[n];
    }
  }
  return equal;
}

Finding join_collectives(const View& view, const Program& program, std::vector<std::int32_t>& node) {
  Verdict verdict("collective-order");
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::vector<std::int32_t>>> groups;  // by stage and data group
  std::vector<std::vector<std::int32_t>> first, last;
  for (const RankProgram& rank : program.ranks) {
    groups[{rank.stage, rank.group}].push_back(collectives_of(program, rank, false));
    if (rank.stage == view.stage_of.front()) first.push_back(collectives_of(program, rank, true));
    if (rank.stage == view.stage_of.back()) last.push_back(collectives_of(program, rank, true));
  }
  for (const auto& [key, lists] : groups) {
    verdict.require(join(program, lists, node), [&, stage = key.first] {
      return say("ranks of one data group of stage ", stage, " call different collectives");
    });
  }
  for (std::size_t n = 0; n < std::min(first.size(), last.size()); ++n) {
    verdict.require(join(program, {first[n], last[n]}, node),
                    [&] { return say("first and last stage disagree on the tied exchange"); });
  }
  return verdict.finding(say(groups.size(), " data groups agree"));
}

/// Edges between nodes, and Kahn's algorithm over them.
class Graph {
 public:
  explicit Graph(std::size_t nodes) : waiting_(nodes, 0) {}
  void add(std::int32_t from, std::int32_t to) { edges_.emplace_back(from, to); }

  /// Marks the nodes that can run.
  void run(std::vector<bool>& ran) {
    order_by_source();
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < waiting_.size(); ++n) {
      if (waiting_[n] == 0) ready.push_back(n);
    }
    while (!ready.empty()) {
      const std::size_t n = ready.back();
      ready.pop_back();
      ran[n] = true;
      for (std::size_t e = begin_[n]; e < begin_[n + 1]; ++e) {
        const auto to = static_cast<std::size_t>(targets_[e]);
        if (--waiting_[to] == 0) ready.push_back(to);
      }
    }
  }

 private:
  /// begin_[n] … begin_[n + 1]: targets of node n.
  void order_by_source() {
    begin_.resize(waiting_.size());
    begin_.push_back(0);
    for (const auto& [from, to] : edges_) {
      ++begin_[static_cast<std::size_t>(from) + 1];
      ++waiting_[static_cast<std::size_t>(to)];
    }
    std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
    std::vector<std::size_t> next = begin_;
    targets_.resize(edges_.size());
    for (const auto& [from, to] : edges_) targets_[next[static_cast<std::size_t>(from)]++] = to;
  }

  std::vector<std::pair<std::int32_t, std::int32_t>> edges_;
  std::vector<std::size_t> begin_;
  std::vector<std::int32_t> targets_, waiting_;
};

}  // namespace

std::vector<Finding> check_deadlock(const View& view, const Program& program) {
  const auto size = program.instructions.size();
  std::vector<std::int32_t> node(size);
  std::iota(node.begin(), node.end(), 0);
  Finding order = join_collectives(view, program, node);

  Graph graph(size);
  for (const RankProgram& rank : program.ranks) {
    std::array<std::int32_t, kStreams> last;
    last.fill(-1);
    for (std::int32_t i = rank.begin; i < rank.end; ++i) {
      const Instruction& instruction = program.instructions[static_cast<std::size_t>(i)];
      const bool receives = instruction.kind == InstructionKind::recv && instruction.match >= 0 &&
                            static_cast<std::size_t>(instruction.match) < size;
      std::int32_t& stream = last[static_cast<std::size_t>(instruction.stream)];
      for (const std::int32_t before : {stream, instruction.wait0, instruction.wait1, receives ? instruction.match : -1}) {
        if (before >= 0) graph.add(node[static_cast<std::size_t>(before)], node[static_cast<std::size_t>(i)]);
      }
      stream = i;
    }
  }
  std::vector<bool> ran(size, false);
  graph.run(ran);

  Verdict verdict("deadlock");
  for (std::size_t i = 0; i < size; ++i) {
    verdict.require(ran[static_cast<std::size_t>(node[i])], [&] {
      const Instruction& stuck = program.instructions[i];
      return say(to_string(stuck.kind), " of chunk ", stuck.chunk, ", micro-batch ", stuck.microbatch, " (#", i,
                 ") can never start");
    });
  }
  return {std::move(order), verdict.finding("all instructions can run to the end")};
}

}  // namespace espalier::check
