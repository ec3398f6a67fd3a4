// SPDX-License-Identifier: Apache-2.0
// Breaks programs of plans on unlike devices in one way each (messages between unlike stages, gradients that meet
// between pipelines), and falsifies claims about their stages.
#include "mixed_cases.h"
#include "tables.h"
#include "tools.h"

namespace espalier::mutation {
namespace {

using Figures = std::vector<std::int64_t> Claims::*;

bool is_meeting(const Program& program, const Instruction& i) {
  return i.kind == Kind::grad_reduce && program.collectives[i.collective()].pipelines.valid();
}
/// Returns the `n`-th meeting of a rank class; −1 if it has fewer.
std::int32_t meeting_of(const Program& program, std::size_t rank, int n) {
  for (std::int32_t i = program.ranks[rank].begin; i < program.ranks[rank].end; ++i)
    if (is_meeting(program, program.instructions[static_cast<std::size_t>(i)]) && n-- == 0) return i;
  return -1;
}
/// Returns a rank class that meets at least `n` times; −1 if there is none.
std::int32_t rank_that_meets(const Program& program, int n) {
  for (std::size_t r = 0; r < program.ranks.size(); ++r)
    if (meeting_of(program, r, n - 1) >= 0) return static_cast<std::int32_t>(r);
  return -1;
}
Break first_meeting(const std::function<bool(Case&, Instruction&)>& change) {
  return [change](Case& c) {
    const std::int32_t rank = rank_that_meets(c.program, 1);
    return rank >= 0 && change(c, at(c.program, meeting_of(c.program, static_cast<std::size_t>(rank), 0)));
  };
}
/// Changes the first collective between pipelines.
Break meeting_table(const std::function<bool(Case&, Collective&)>& change) {
  return [change](Case& c) {
    for (std::size_t i = 0; i < c.program.collectives.size(); ++i) {
      Collective& meeting = c.program.collectives[CollectiveId(static_cast<std::int32_t>(i))];
      if (meeting.pipelines.valid()) return change(c, meeting);
    }
    return false;
  };
}
/// Changes the first message between two stages.
Break first_message(Kind kind, const std::function<bool(Case&, Instruction&)>& change) {
  return [=](Case& c) {
    const std::int32_t index = index_of(c.program, kind);
    return index >= 0 && change(c, at(c.program, index));
  };
}

Break scaled_stage(Figures figures, std::size_t stage, double factor) {
  return [=](Case& c) {
    std::vector<std::int64_t>& bytes = c.claims.*figures;
    if (stage >= bytes.size()) return false;
    const auto scaled = static_cast<std::int64_t>(static_cast<double>(bytes[stage]) * factor);
    return scaled != bytes[stage] && (bytes[stage] = scaled, true);
  };
}
/// Swaps figures of two stages that differ by more than the tolerance of the check.
Break exchanged(Figures figures) {
  return [=](Case& c) {
    std::vector<std::int64_t>& bytes = c.claims.*figures;
    for (std::size_t i = 1; i < bytes.size(); ++i) {
      const auto a = static_cast<double>(bytes[i - 1]), b = static_cast<double>(bytes[i]);
      if (std::abs(a - b) <= 0.05 * std::max(a, b)) continue;
      std::swap(bytes[i - 1], bytes[i]);
      return true;
    }
    return false;
  };
}
Break scaled_time(double factor) {
  return [=](Case& c) {
    c.claims.iteration_ns = static_cast<std::int64_t>(static_cast<double>(c.claims.iteration_ns) * factor);
    return true;
  };
}
/// Replaces the cluster that the claims were made for.
Break other_cluster(const std::function<bool(Cluster&)>& change) {
  return [change](Case& c) { return change(c.cluster); };
}
std::int64_t room(const NodeGroup& group) { return group.device.memory.count() - group.device.context_reserve.count(); }

}  // namespace

std::vector<Mutation> mixed_program_mutations() {
  return {
      {"a message from one kind of device to the other is not sent", "send-recv", erase_first(Kind::send)},
      {"a message from one kind of device to the other is not received", "send-recv", erase_first(Kind::recv)},
      {"a message goes to the stage that it comes from", "send-recv",
       first_message(Kind::send, [](Case& c, Instruction& i) { return (i.peer = c.program.ranks.front().stage.value, true); })},
      {"a message of another micro-batch", "send-recv",
       first_message(Kind::send, [](Case&, Instruction& i) { return (i.microbatch += 1, true); })},
      {"activations between unlike stages go back as gradients", "send-recv",
       first_message(Kind::send,
                     [](Case& c, Instruction& i) {
                       Transfer& t = c.program.transfers[i.transfer()];
                       return (t.gradient = !t.gradient, true);
                     })},
      {"a stage works on another number of samples than its replicas get", "program-layers",
       [](Case& c) {
         c.program.ranges.back().samples += 1;
         return true;
       }},
      {"a stage works under the strategy of another kind", "program-layers",
       [](Case& c) {
         WorkRange& last = c.program.ranges.back();
         last.strategy = last.strategy == 0 ? 1 : 0;
         return c.program.strategies.size() > 1;
       }},
      {"the pass of one stage works on a layer of the next", "program-layers",
       [](Case& c) {
         ++c.program.ranges.front().last;
         return true;
       }},
      {"a rank class stands for fewer devices than its stage has", "program-shape",
       [](Case& c) {
         DeviceRange& range = c.program.ranks.back().devices.front();
         return range.count > 1 && (--range.count, true);
       }},
      {"a rank class of one kind of device stands for another kind's", "program-shape",
       [](Case& c) {
         c.program.ranks.back().devices = c.program.ranks.front().devices;
         return true;
       }},
      {"a pipeline does not meet the others for some layers", "gradient-meetings",
       [](Case& c) {
         const std::int32_t rank = rank_that_meets(c.program, 2);
         if (rank < 0) return false;
         erase(c.program, meeting_of(c.program, static_cast<std::size_t>(rank), 0));
         return true;
       }},
      {"pieces of the model meet in another order in one pipeline", "gradient-meetings",
       [](Case& c) {
         const std::int32_t rank = rank_that_meets(c.program, 2);
         if (rank < 0) return false;
         swap_work(c.program, meeting_of(c.program, static_cast<std::size_t>(rank), 0),
                   meeting_of(c.program, static_cast<std::size_t>(rank), 1));
         return true;
       }},
      {"one piece meets twice and another never", "gradient-meetings",
       [](Case& c) {
         const std::int32_t rank = rank_that_meets(c.program, 2);
         if (rank < 0) return false;
         at(c.program, meeting_of(c.program, static_cast<std::size_t>(rank), 1)).id =
             at(c.program, meeting_of(c.program, static_cast<std::size_t>(rank), 0)).id;
         return true;
       }},
      {"gradients meet before the last backward pass has added to them", "gradient-meetings",
       first_meeting([](Case& c, Instruction& i) {
         for (const RankClass& rank : c.program.ranks)
           if (&at(c.program, rank.begin) <= &i && &i < &at(c.program, rank.begin) + (rank.end - rank.begin))
             i.wait0 = rank.begin;
         return true;
       })},
      {"gradients meet without waiting for anything", "gradient-meetings",
       first_meeting([](Case&, Instruction& i) { return (i.wait0 = -1, true); })},
      {"an update that does not wait for the other pipelines", "gradient-meetings",
       [](Case& c) {
         const std::int32_t rank = rank_that_meets(c.program, 1);
         if (rank < 0) return false;
         const RankClass& at_rank = c.program.ranks[static_cast<std::size_t>(rank)];
         for (std::int32_t i = at_rank.begin; i < at_rank.end; ++i)
           if (at(c.program, i).kind == Kind::optimizer)
             at(c.program, i).wait0 = meeting_of(c.program, static_cast<std::size_t>(rank), 0) - 1;
         return true;
       }},
      {"gradients of fewer layers meet than the pipelines share", "gradient-meetings",
       meeting_table([](Case&, Collective& m) { return m.layers.last > m.layers.first && (--m.layers.last, true); })},
      {"gradients of other layers meet", "gradient-meetings",
       meeting_table([](Case&, Collective& m) { return (--m.layers.first, true); })},
      {"a meeting that one pipeline is not invited to", "gradient-meetings",
       meeting_table([](Case& c, Collective& m) { return (c.program.groups[m.pipelines].members.pop_back(), true); })},
      {"a meeting with a stage that does not hold the layers", "gradient-meetings", meeting_table([](Case& c, Collective& m) {
         std::vector<std::int32_t>& members = c.program.groups[m.pipelines].members;
         for (std::size_t r = 0; r < c.program.ranks.size(); ++r) {
           const bool same_pipeline =
               c.program.ranks[r].pipeline == c.program.ranks[static_cast<std::size_t>(members.front())].pipeline;
           if (!same_pipeline || static_cast<std::int32_t>(r) == members.front()) continue;
           members.front() = static_cast<std::int32_t>(r);
           return true;
         }
         return false;
       })},
      {"a meeting in a group that is not there", "gradient-meetings",
       meeting_table([](Case&, Collective& m) { return (m.pipelines = ProcessGroupId(1'000'000), true); })},
      {"the gradient of a tied table stays with its stage", "tied-gradient", erase_first(Kind::tied_reduce)},
      {"the gradients of one stage's replicas are not reduced", "gradient-reduction",
       [](Case& c) {
         const std::int32_t index =
             index_of(c.program, [&](const Instruction& i) { return i.kind == Kind::grad_reduce && !is_meeting(c.program, i); });
         return index >= 0 && (erase(c.program, index), true);
       }},
      {"a stage does not gather the parameters that its ranks updated", "parameter-gather", erase_first(Kind::param_gather)},
      {"a stage that never updates", "optimizer", erase_first(Kind::optimizer)},
  };
}

std::vector<Mutation> mixed_claim_mutations() {
  const Figures fixed = &Claims::static_bytes_per_stage, saved = &Claims::saved_bytes_per_chunk,
                boundary = &Claims::boundary_bytes_per_chunk, gradient = &Claims::gradient_bytes_per_stage,
                peak = &Claims::peak_bytes_per_stage;
  return {
      {"states of the second stage a byte less", "static-memory",
       [](Case& c) {
         --c.claims.static_bytes_per_stage[1];
         return true;
       }},
      {"states of unlike stages exchanged", "static-memory", exchanged(fixed)},
      {"states of a stage as if nothing were shared", "static-memory", scaled_stage(fixed, 1, 2)},
      {"activations of the second stage two per cent low", "saved-activations", scaled_stage(saved, 1, 0.98)},
      {"activations of unlike stages exchanged", "saved-activations", exchanged(saved)},
      {"a message counted with the replicas of the other end", "boundary-messages", scaled_stage(boundary, 1, 2)},
      {"a message into the first stage of the second pipeline", "boundary-messages",
       [](Case& c) {
         if (c.plan.pipelines.size() < 2) return false;
         c.claims.boundary_bytes_per_chunk[c.plan.pipelines[0].stages.size()] = 64;
         return true;
       }},
      {"gradients of unlike stages exchanged", "gradient-messages", exchanged(gradient)},
      {"gradients of the second stage in half the precision", "gradient-messages", scaled_stage(gradient, 1, 0.5)},
      {"the peak of the second stage five per cent low", "peak-memory", scaled_stage(peak, 1, 0.95)},
      {"the peak of the second stage five per cent high", "peak-memory", scaled_stage(peak, 1, 1.05)},
      {"peaks of unlike stages exchanged", "peak-memory", exchanged(peak)},
      {"a figure less than there are stages", "claims-shape",
       [](Case& c) {
         c.claims.peak_bytes_per_stage.pop_back();
         return true;
       }},
      {"a stage that fits on the large devices alone", "memory-limit", other_cluster([](Cluster& cluster) {
         if (cluster.groups.size() < 2) return false;
         cluster.groups.back().device.memory = cluster.groups.back().device.context_reserve + Bytes(1 << 20);
         return true;
       })},
      {"the limit of the larger kind for all", "memory-limit",
       [](Case& c) {
         if (c.cluster.groups.size() < 2 || c.plan.pipelines.size() > 1) return false;
         c.claims.memory_limit_bytes = room(c.cluster.groups.front());
         return true;
       }},
      {"the limit of the larger kind for all pipelines", "memory-limit",
       [](Case& c) {
         if (c.plan.pipelines.size() < 2) return false;
         c.claims.memory_limit_bytes = room(c.cluster.groups.front());
         return true;
       }},
      {"a limit that is no device's", "memory-limit-of-all",
       [](Case& c) {
         if (c.plan.pipelines.size() < 2) return false;
         --c.claims.memory_limit_bytes;
         return true;
       }},
      {"half of the time on unlike devices", "time-bounds", scaled_time(0.5)},
      {"a quarter less time on unlike devices", "time-bounds", scaled_time(0.75)},
      {"a tenth less time on unlike devices", "time-bounds", scaled_time(0.9)},
      {"three times the time on unlike devices", "time-bounds", scaled_time(3)},
      {"the slow kind computes ten times slower than claimed", "time-bounds", other_cluster([](Cluster& cluster) {
         for (FlopsPerSecond& peak_rate : cluster.groups.back().device.peak) peak_rate = peak_rate * 0.1;
         return true;
       })},
      {"a device at a tenth of the speed that the claims do not know", "time-bounds", other_cluster([](Cluster& cluster) {
         cluster.groups.front().speed = {{0, 0.1}};
         return true;
       })},
      {"a way between the kinds a thousand times narrower than claimed", "time-bounds",
       [](Case& c) {
         if (c.plan.pipelines.size() > 1 || c.cluster.groups.size() < 2) return false;
         for (FabricLevel& level : c.cluster.inter) level.bandwidth = level.bandwidth * 0.001;
         for (GroupLink& link : c.cluster.links) link.bandwidth = link.bandwidth * 0.001;
         return true;
       }},
      {"a way between the pipelines ten thousand times narrower than claimed", "time-bounds",
       [](Case& c) {
         if (c.plan.pipelines.size() < 2) return false;
         for (FabricLevel& level : c.cluster.inter) level.bandwidth = level.bandwidth * 0.0001;
         for (GroupLink& link : c.cluster.links) link.bandwidth = link.bandwidth * 0.0001;
         return true;
       }},
  };
}

TEST(MixedMutation, BrokenProgramsOfUnlikeStagesAreNamed) { expect_named(mixed_program_mutations(), mixed_cases()); }
TEST(MixedMutation, FalseClaimsAboutUnlikeStagesAreNamed) { expect_named(mixed_claim_mutations(), mixed_cases()); }

TEST(MixedMutation, AtLeastFortyKinds) {
  const std::size_t kinds = mixed_structure_mutations().size() + mixed_rule_mutations().size() + pipeline_mutations().size() +
                            mixed_program_mutations().size() + mixed_claim_mutations().size() + mixed_result_mutations().size();
  EXPECT_GE(kinds, 40U);
  std::printf("%d kinds\n", static_cast<int>(kinds));
}

}  // namespace espalier::mutation
