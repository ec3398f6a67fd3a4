// SPDX-License-Identifier: Apache-2.0
// Executes a program without times: an instruction may start when its stream predecessor, its waits and (recv) its
// send have ended. Data collectives meet. The n-th collective of every rank of a data group is one node, which waits
// for everything that its members wait for. The tied exchange meets between the stages that hold the table. All
// instructions run ⇔ there is no cycle (Kahn 1962).
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "check/graph.h"
#include "check/program_check.h"
#include "check/static_memory.h"
#include "check/verdict.h"

namespace espalier::check {
namespace {

bool meets(InstructionKind kind) { return kind == InstructionKind::grad_reduce || kind == InstructionKind::param_gather; }

std::vector<std::int32_t> collectives_of(const Program& program, const RankClass& rank, bool tied) {
  std::vector<std::int32_t> result;
  for (std::int32_t i = rank.begin; i < rank.end; ++i) {
    const InstructionKind kind = program.instructions[static_cast<std::size_t>(i)].kind;
    if (tied ? kind == InstructionKind::tied_reduce : meets(kind)) result.push_back(i);
  }
  return result;
}

/// Joins `lists` element by element: joined nodes take the first member's id. Returns false if the lists differ.
bool join(const Program& program, const std::vector<std::vector<std::int32_t>>& lists, std::vector<std::int32_t>& node) {
  bool equal = true;
  for (const auto& list : lists) {
    equal = equal && list.size() == lists.front().size();
    for (std::size_t n = 0; n < std::min(list.size(), lists.front().size()); ++n) {
      const Instruction& a = program.instructions[static_cast<std::size_t>(lists.front()[n])];
      const Instruction& b = program.instructions[static_cast<std::size_t>(list[n])];
      equal = equal && a.kind == b.kind && a.id == b.id && a.bucket == b.bucket && a.buckets == b.buckets;
      node[static_cast<std::size_t>(list[n])] = lists.front()[n];
    }
  }
  return equal;
}

Finding join_collectives(const View& view, const Program& program, std::vector<std::int32_t>& node) {
  Verdict verdict("collective-order");
  // Keys are stage and data group.
  std::map<std::pair<std::int32_t, ProcessGroupId>, std::vector<std::vector<std::int32_t>>> groups;
  const std::vector<std::int32_t> holders = table_holders(view);
  std::vector<std::vector<std::vector<std::int32_t>>> exchanges(holders.size());  // by stage that holds the table, rank by rank
  for (const RankClass& rank : program.ranks) {
    groups[{rank.stage.value, rank.data}].push_back(collectives_of(program, rank, false));
    for (std::size_t h = 0; h < holders.size(); ++h)
      if (rank.stage.value == holders[h]) exchanges[h].push_back(collectives_of(program, rank, true));
  }
  for (const auto& [key, lists] : groups) {
    verdict.require(join(program, lists, node), [&, stage = key.first] {
      return say("ranks of one data group of stage ", stage, " call different collectives");
    });
  }
  for (std::size_t n = 0; !exchanges.empty() && n < exchanges.front().size(); ++n) {
    std::vector<std::vector<std::int32_t>> meeting;
    for (const auto& ranks : exchanges)
      if (n < ranks.size()) meeting.push_back(ranks[n]);
    verdict.require(join(program, meeting, node), [&] { return say("stages disagree on the exchange of the tied gradient"); });
  }
  return verdict.finding(say(groups.size(), " data groups agree"));
}

}  // namespace

std::vector<Finding> check_deadlock(const View& view, const Program& program) {
  const auto size = program.instructions.size();
  std::vector<std::int32_t> node(size);
  std::iota(node.begin(), node.end(), 0);
  Finding order = join_collectives(view, program, node);

  Graph graph(size);
  for (const RankClass& rank : program.ranks) {
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
      return say(to_string(stuck.kind), " of chunk ", program.chunk_of(stuck).value, ", micro-batch ", stuck.microbatch, " (#", i,
                 ") can never start");
    });
  }
  return {std::move(order), verdict.finding("all instructions can run to the end")};
}

}  // namespace espalier::check
