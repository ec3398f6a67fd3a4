// SPDX-License-Identifier: Apache-2.0
#include "plan/unfold.h"

#include <map>
#include <set>
#include <tuple>

#include "base/invariant.h"
#include "plan/activation_layout.h"
#include "plan/process_groups.h"

namespace espalier {
namespace {

using Kind = InstructionKind;

/// Returns whether the ranks of two stages are connected position by position.
bool joined_by_position(const Stage& a, const Stage& b) {
  return devices_of(a.devices).size() == devices_of(b.devices).size() && a.samples_per_replica == b.samples_per_replica;
}

/// Returns the number of weight shards over which data collectives split the devices of a stage; 1 (all devices
/// together) if the layers of the pipeline differ in it.
std::int64_t weight_shards(const Pipeline& pipeline) {
  Plan alone;
  alone.pipelines = {pipeline};
  return alone.uniform() ? pipeline.strategy().weight_tp() : 1;  // tp is the innermost dimension of every rank order
}

class Unfolder {
 public:
  Unfolder(const Program& folded, const Pipeline& pipeline, const Training& training)
      : folded_(folded), pipeline_(pipeline), training_(training), out_(folded) {
    out_.folded = false;
    out_.ranks.clear();
    out_.instructions.clear();
    out_.groups.clear();
  }
  Program run() {
    place_stages();
    find_links();
    place_lists();
    for (const RankClass& source : folded_.ranks)
      for (std::int32_t local = 0; local < size_of(source.stage.value); ++local) add_list(source, local);
    add_groups();
    return std::move(out_);
  }

 private:
  using Peers = std::vector<std::vector<std::int32_t>>;  // by position of this stage: positions of the other, ascending

  void place_stages();
  void find_links();
  void link(TransferId id);
  void place_lists();
  void add_list(const RankClass& source, std::int32_t local);
  void add_groups();

  [[nodiscard]] std::int32_t size_of(std::int32_t stage) const {
    return static_cast<std::int32_t>(devices_[static_cast<std::size_t>(stage)].size());
  }
  [[nodiscard]] std::int32_t rank_at(std::int32_t stage, std::int32_t local) const {
    return first_rank_[static_cast<std::size_t>(stage)] + local;
  }
  [[nodiscard]] const Instruction& at(std::int32_t i) const { return folded_.instructions[static_cast<std::size_t>(i)]; }
  /// Returns the positions of the peer's stage that instruction `i` of a position sends to or receives from.
  [[nodiscard]] std::vector<std::int32_t> peers_of(const Instruction& i, std::int32_t local) const;
  [[nodiscard]] std::vector<ActivationBox> boxes_beside(std::int32_t range, StageId stage) const;
  /// Returns the position of instruction `i` of the folded list in the list of a rank: the last of those that it
  /// became; −1 if none.
  [[nodiscard]] std::int32_t place(std::int32_t rank, std::int32_t first, std::int32_t i) const {
    return i < 0 ? -1 : places_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i - first)];
  }

  const Program& folded_;
  const Pipeline& pipeline_;
  const Training& training_;
  Program out_;
  std::vector<std::vector<std::int64_t>> devices_;        // by stage
  std::vector<std::int32_t> first_rank_;                  // by stage
  std::map<std::pair<std::int32_t, Kind>, Peers> links_;  // by transfer that sends boxes, and its end
  std::vector<std::int32_t> begins_;                      // by rank
  std::vector<std::vector<std::int32_t>> places_;         // by rank, by instruction of the folded list
  // by folded instruction, rank, peer
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::int32_t> ends_;
};

void Unfolder::place_stages() {
  std::int32_t next = 0;
  for (const Stage& stage : pipeline_.stages) {
    devices_.push_back(devices_of(stage.devices));
    first_rank_.push_back(next);
    next += static_cast<std::int32_t>(devices_.back().size());
  }
}

std::vector<ActivationBox> Unfolder::boxes_beside(std::int32_t range, StageId stage) const {
  const WorkRange& r = folded_.ranges[static_cast<std::size_t>(range)];
  const ActivationShape shape{r.samples, pipeline_.stages[stage.index()].samples_per_replica, training_.sequence.main, 1};
  return boxes_of(folded_.strategies[static_cast<std::size_t>(r.strategy)], size_of(stage.value), shape, false);
}

/// Determines who sends a box of an activation to whom. Its gradient also travels box by box, from the layout behind
/// to the one before.
void Unfolder::link(TransferId id) {
  Transfer& transfer = out_.transfers[id];
  const StageId before = folded_.works[folded_.structure().forward(ChunkId(transfer.chunk.value - 1))].stage;
  const StageId behind = folded_.works[folded_.structure().forward(transfer.chunk)].stage;
  if (joined_by_position(pipeline_.stages[before.index()], pipeline_.stages[behind.index()])) return;
  transfer.boxes = true;
  const auto old_boxes = boxes_beside(transfer.sender, before), new_boxes = boxes_beside(transfer.receiver, behind);
  const StageId from = transfer.gradient ? behind : before, to = transfer.gradient ? before : behind;
  Peers sends(static_cast<std::size_t>(size_of(from.value))), receives(static_cast<std::size_t>(size_of(to.value)));
  for (const BoxMove& move :
       transfer.gradient ? moves_between(new_boxes, old_boxes, false) : moves_between(old_boxes, new_boxes, false)) {
    sends[static_cast<std::size_t>(move.from)].push_back(static_cast<std::int32_t>(move.to));
    receives[static_cast<std::size_t>(move.to)].push_back(static_cast<std::int32_t>(move.from));
  }
  links_[{id.value, Kind::send}] = std::move(sends);
  links_[{id.value, Kind::recv}] = std::move(receives);
}

void Unfolder::find_links() {
  for (TransferId id(0); id.value < static_cast<std::int32_t>(folded_.transfers.size()); ++id.value) link(id);
}

std::vector<std::int32_t> Unfolder::peers_of(const Instruction& i, std::int32_t local) const {
  if (i.peer < 0) return {-1};
  const auto linked = links_.find({i.id, i.kind});
  if (linked == links_.end()) return {local};
  return linked->second[static_cast<std::size_t>(local)];
}

void Unfolder::place_lists() {
  std::int32_t next = 0;
  for (const RankClass& source : folded_.ranks)
    for (std::int32_t local = 0; local < size_of(source.stage.value); ++local) {
      const auto rank = static_cast<std::int32_t>(begins_.size());
      begins_.push_back(next);
      std::vector<std::int32_t>& places = places_.emplace_back();
      for (std::int32_t i = source.begin; i < source.end; ++i) {
        places.push_back(-1);
        for (const std::int32_t peer : peers_of(at(i), local)) {
          if (peer >= 0) ends_[{i, rank, rank_at(folded_.ranks[static_cast<std::size_t>(at(i).peer)].stage.value, peer)}] = next;
          places.back() = next++;
        }
      }
    }
  out_.instructions.reserve(static_cast<std::size_t>(next));
}

void Unfolder::add_list(const RankClass& source, std::int32_t local) {
  const std::int32_t here = rank_at(source.stage.value, local);
  RankClass rank = source;
  rank.devices = {{devices_[source.stage.index()][static_cast<std::size_t>(local)], 1, 1}};
  rank.table_copies = ProcessGroupId();
  rank.begin = begins_[static_cast<std::size_t>(here)];
  for (std::int32_t i = source.begin; i < source.end; ++i)
    for (const std::int32_t peer : peers_of(at(i), local)) {
      Instruction instruction = at(i);
      instruction.wait0 = place(here, source.begin, instruction.wait0);
      instruction.wait1 = place(here, source.begin, instruction.wait1);
      if (peer >= 0) {
        const RankClass& other = folded_.ranks[static_cast<std::size_t>(instruction.peer)];
        instruction.peer = rank_at(other.stage.value, peer);
        instruction.match = ends_.at({at(i).match, instruction.peer, here});
      }
      out_.instructions.push_back(instruction);
    }
  rank.end = static_cast<std::int32_t>(out_.instructions.size());
  out_.ranks.push_back(std::move(rank));
}

/// Adds the groups of ranks of a stage that hold the same weights, and of ranks at one position of the stages that
/// hold a copy of the table. If these stages differ in size, all their ranks form one group.
void Unfolder::add_groups() {
  const std::int64_t shards = weight_shards(pipeline_);
  for (std::int64_t n = 0; n < shards * folded_.structure().schedule.stages; ++n) out_.groups.add({GroupKind::data_shard, {}});
  std::set<std::int32_t> copies;
  for (const ChunkId chunk : folded_.structure().table_chunks)
    copies.insert(place_of_chunk(folded_.structure().schedule, chunk.value).stage);
  bool by_position = true;
  for (const std::int32_t stage : copies)
    by_position = by_position && joined_by_position(pipeline_.stages[static_cast<std::size_t>(*copies.begin())],
                                                    pipeline_.stages[static_cast<std::size_t>(stage)]);
  const auto first = static_cast<std::int32_t>(out_.groups.size());
  const std::int32_t together = copies.empty() ? 0 : by_position ? size_of(*copies.begin()) : 1;
  for (std::int32_t n = 0; n < together; ++n) out_.groups.add({GroupKind::table_copies, {}});
  for (std::size_t r = 0; r < out_.ranks.size(); ++r) {
    RankClass& rank = out_.ranks[r];
    const std::int32_t local = static_cast<std::int32_t>(r) - first_rank_[rank.stage.index()];
    rank.data = ProcessGroupId(static_cast<std::int32_t>(rank.stage.value * shards + local % shards));
    out_.groups[rank.data].members.push_back(static_cast<std::int32_t>(r));
    if (copies.count(rank.stage.value) == 0) continue;
    rank.table_copies = ProcessGroupId(first + (by_position ? local : 0));
    out_.groups[rank.table_copies].members.push_back(static_cast<std::int32_t>(r));
  }
}

}  // namespace

Program unfolded(const Program& folded, const Pipeline& pipeline, const Training& training) {
  ESPALIER_CHECK(folded.folded && folded.pipelines.size() == 1);
  return Unfolder(folded, pipeline, training).run();
}

}  // namespace espalier
