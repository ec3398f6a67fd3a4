// SPDX-License-Identifier: Apache-2.0
// Every fault of a plan on unlike devices, or of one with several pipelines, is found by name: every mutation,
// wherever it applies.
#include "mixed_cases.h"
#include "tables.h"
#include "tools.h"

namespace espalier::mutation {
namespace {

using Stages = std::vector<Stage>;

Strategy& strategy_of(Stage& stage) { return stage.chunks.front().ranges.front().strategy; }

/// Changes the stages of one pipeline after another, until a change succeeds.
Break in_some_pipeline(const std::function<bool(Pipeline&)>& change) {
  return [change](Case& c) {
    return std::any_of(c.plan.pipelines.begin(), c.plan.pipelines.end(), [&](Pipeline& p) { return change(p); });
  };
}
Break in_some_stage(const std::function<bool(Stage&)>& change) {
  return in_some_pipeline(
      [change](Pipeline& p) { return std::any_of(p.stages.begin(), p.stages.end(), [&](Stage& s) { return change(s); }); });
}
/// Changes the last stage of the last pipeline, which is on another kind of device than the first, and lowers
/// the program again.
Break last_stage_lowered(const std::function<bool(Stage&)>& change) {
  return [change](Case& c) {
    if (!change(c.plan.pipelines.back().stages.back())) return false;
    c.lower_again();
    return true;
  };
}
Break of_several(const Break& change) {
  return [change](Case& c) { return c.plan.pipelines.size() > 1 && change(c); };
}
bool next_stage(Pipeline& p, const std::function<void(Stage&, Stage&)>& change) {
  if (p.stages.size() < 2) return false;
  change(p.stages[0], p.stages[1]);
  return true;
}
LayerRange& layers_of(Stage& stage) { return stage.chunks.front().ranges.front(); }

}  // namespace

std::vector<Mutation> mixed_structure_mutations() {
  return {
      {"a layer between two kinds of device is in neither stage", "coverage",
       in_some_pipeline([](Pipeline& p) { return next_stage(p, [](Stage& a, Stage&) { --layers_of(a).last; }); })},
      {"a layer is in the stages of two kinds of device", "coverage",
       in_some_pipeline([](Pipeline& p) { return next_stage(p, [](Stage& a, Stage&) { ++layers_of(a).last; }); })},
      {"two stages exchange their layers", "coverage", in_some_pipeline([](Pipeline& p) {
         return next_stage(p, [](Stage& a, Stage& b) {
           std::swap(layers_of(a).first, layers_of(b).first);
           std::swap(layers_of(a).last, layers_of(b).last);
         });
       })},
      {"a pipeline ends before the last layer", "coverage",
       [](Case& c) {
         --layers_of(c.plan.pipelines.back().stages.back()).last;
         return true;
       }},
      {"a pipeline has a layer that the model has not", "coverage",
       [](Case& c) {
         ++layers_of(c.plan.pipelines.back().stages.back()).last;
         return true;
       }},
      {"a pipeline begins behind the embedding", "coverage",
       [](Case& c) {
         layers_of(c.plan.pipelines.back().stages.front()).first = 1;
         return true;
       }},
      {"two stages share a device", "devices-once", in_some_pipeline([](Pipeline& p) {
         return next_stage(p, [](Stage& a, Stage& b) { b.devices.front().first = a.devices.front().first; });
       })},
      {"the last stage lies outside the cluster", "devices-once",
       [](Case& c) {
         c.plan.pipelines.back().stages.back().devices.front().first = 1000;
         return true;
       }},
      {"the last stage begins before the first device", "devices-once",
       [](Case& c) {
         c.plan.pipelines.back().stages.back().devices.front().first = -1;
         return true;
       }},
      {"a stage holds a device less than its degrees need", "stage-placement",
       in_some_stage([](Stage& s) { return s.devices.front().count > 1 && (--s.devices.front().count, true); })},
      {"a stage has twice the tensor parallelism that its devices allow", "stage-placement", in_some_stage([](Stage& s) {
         strategy_of(s).tp *= 2;
         return true;
       })},
      {"a stage has a context parallelism that its devices do not allow", "stage-placement", in_some_stage([](Stage& s) {
         strategy_of(s).cp = 2;
         return true;
       })},
      {"a stage lists no devices", "stage-placement",
       [](Case& c) {
         c.plan.pipelines.back().stages.back().devices.clear();
         return true;
       }},
      {"the stages of a pipeline are one more than its schedule says", "schedule",
       [](Case& c) {
         --c.plan.pipelines.back().schedule.stages;
         return true;
       }},
      {"a pipeline has one stage less than its schedule says", "schedule",
       [](Case& c) {
         c.plan.pipelines.back().stages.pop_back();
         return true;
       }},
      {"a stage without layers", "schedule",
       [](Case& c) {
         c.plan.pipelines.back().stages.back().chunks.front().ranges.clear();
         return true;
       }},
      {"a micro-batch that the replicas of a stage cannot share evenly", "strategies",
       [](Case& c) {
         Stage& last = c.plan.pipelines.back().stages.back();
         strategy_of(last).dp = 3;
         last.devices.front().count = std::int64_t{3} * strategy_of(last).tp;
         return c.plan.pipelines.back().samples_per_microbatch() % 3 != 0 && c.plan.pipelines.back().stages.size() > 1;
       }},
      {"a pipeline takes twice the samples in a micro-batch", "batch",
       [](Case& c) {
         c.plan.pipelines.back().schedule.micro_batch *= 2;
         return true;
       }},
      {"a pipeline leaves out a micro-batch", "batch",
       [](Case& c) {
         --c.plan.pipelines.back().schedule.microbatches;
         return true;
       }},
      {"overlap of messages in one stage and not in the next", "strategies", in_some_pipeline([](Pipeline& p) {
         return next_stage(p, [](Stage&, Stage& b) { strategy_of(b).overlap.p2p = !strategy_of(b).overlap.p2p; });
       })},
  };
}

std::vector<Mutation> mixed_rule_mutations() {
  return {
      {"ZeRO of one stage without a group to share with", "sharding", last_stage_lowered([](Stage& s) {
         strategy_of(s).zero = ZeroStage::optimizer;
         strategy_of(s).shard = 1;
         return true;
       })},
      {"a stage shares states with more ranks than it has", "sharding", last_stage_lowered([](Stage& s) {
         strategy_of(s).zero = ZeroStage::optimizer;
         strategy_of(s).shard = 2 * static_cast<std::int32_t>(strategy_of(s).data_ranks());
         return true;
       })},
      {"embedding and head of one table lie otherwise on their kinds of device", "tied-table",
       [](Case& c) {
         if (!c.model.tied_embeddings || c.plan.pipelines.size() > 1) return false;
         Strategy& head = strategy_of(c.plan.pipelines.back().stages.back());
         head.zero = ZeroStage::optimizer;
         head.shard = 2;
         c.lower_again();
         return true;
       }},
      {"experts of one stage that its groups cannot share", "experts",
       [](Case& c) {
         Strategy& s = strategy_of(c.plan.pipelines.back().stages.back());
         s.ep = c.model.kinds.size() > 1 && s.ep > 1 ? 3 : s.ep * 2;
         return s.ep == 3 || s.ep == 2;
       }},
      {"a stage recomputes more blocks than it has", "recompute", last_stage_lowered([](Stage& s) {
         strategy_of(s).recompute = {RecomputeKind::full, 50};
         return true;
       })},
      {"sequence parallelism in a stage without tensor parallelism", "sequence-parallel", last_stage_lowered([](Stage& s) {
         if (strategy_of(s).tp > 1) return false;
         strategy_of(s).sp = SequenceParallel::megatron;
         return true;
       })},
      {"a kind of device that does not know the precision", "precision",
       [](Case& c) {
         c.cluster.groups.back().device.peak.fill(TFLOPs(0));
         return true;
       }},
      {"an engine that nobody knows", "engine",
       [](Case& c) {
         c.plan.engine = "nobody's";
         return true;
       }},
      {"more tokens than the model has positions", "positions",
       [](Case& c) {
         c.plan.training.sequence.main = 4096;
         return true;
       }},
  };
}

std::vector<Mutation> pipeline_mutations() {
  const auto several = [](const char* name, const char* finding, const std::function<bool(Case&)>& change) {
    return Mutation{name, finding, of_several(change)};
  };
  return {
      several("two pipelines of one id", "pipeline-samples",
              [](Case& c) {
                c.plan.pipelines[1].id = c.plan.pipelines[0].id;
                return true;
              }),
      several("a pipeline without samples", "pipeline-samples",
              [](Case& c) {
                c.plan.pipelines[1].samples = 0;
                return true;
              }),
      several("pipelines that have fewer samples than the batch", "pipeline-samples",
              [](Case& c) {
                --c.plan.pipelines[1].samples;
                return true;
              }),
      several("a pipeline of less than no samples", "pipeline-samples",
              [](Case& c) {
                c.plan.pipelines[0].samples += 2 * c.plan.pipelines[1].samples;
                c.plan.pipelines[1].samples *= -1;
                return true;
              }),
      several("samples counted for another pipeline than takes them", "batch",
              [](Case& c) {
                ++c.plan.pipelines[0].samples;
                --c.plan.pipelines[1].samples;
                return true;
              }),
      several("a device in two pipelines", "pipeline-devices",
              [](Case& c) {
                c.plan.pipelines[1].stages.back().devices.front().first =
                    c.plan.pipelines[0].stages.front().devices.front().first;
                return true;
              }),
      several("a layer that one pipeline alone holds", "coverage",
              [](Case& c) {
                ++layers_of(c.plan.pipelines[1].stages.front()).first;
                return true;
              }),
      several("the program of one pipeline alone", "program-parts",
              [](Case& c) {
                c.program.pipelines.pop_back();
                return true;
              }),
      several("a rank class that says it is of another pipeline", "program-parts",
              [](Case& c) {
                c.program.ranks.front().pipeline = 1;
                return true;
              }),
      several("a rank class of no pipeline", "program-parts",
              [](Case& c) {
                c.program.ranks.back().pipeline = -1;
                return true;
              }),
      several("works of a pipeline that begin in another's", "program-parts",
              [](Case& c) {
                c.program.pipelines[1].first_work = -1;
                return true;
              }),
      several("collectives of a pipeline beyond the program's", "program-parts",
              [](Case& c) {
                c.program.pipelines[1].first_collective = 1'000'000;
                return true;
              }),
      several("ranks of one class that the other pipeline holds", "program-shape",
              [](Case& c) {
                c.program.ranks.front().devices = c.program.ranks.back().devices;
                return true;
              }),
  };
}

TEST(MixedMutation, BrokenPlansOnUnlikeDevicesAreNamed) { expect_named(mixed_structure_mutations(), mixed_cases()); }
TEST(MixedMutation, BrokenRulesOfStagesAreNamed) { expect_named(mixed_rule_mutations(), mixed_cases()); }
TEST(MixedMutation, BrokenPlansOfSeveralPipelinesAreNamed) { expect_named(pipeline_mutations(), mixed_cases()); }

}  // namespace espalier::mutation
