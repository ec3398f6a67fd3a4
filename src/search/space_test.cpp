// SPDX-License-Identifier: Apache-2.0
// The space equals its definition: everything that no rule of the space, no restriction of the engine and no part of
// the job file rejects. The test finds it by trying every combination of small integers.
#include "search/space.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "plan/engine.h"
#include "plan/engine_rules.h"
#include "plan/test_problem.h"

namespace espalier::search::space_test {
namespace {

using plan_test::cluster;
using plan_test::decoder;
using plan_test::training;

struct Small {
  Model model;
  Cluster machines;
  Training job;
  const EngineModel* engine = nullptr;
  SearchSpace part;
  [[nodiscard]] Space space() const { return {model, machines, job, *engine, part}; }
};

Small small(std::int32_t blocks, std::int64_t devices, std::int64_t batch) {
  return {decoder({.blocks = blocks, .heads = 4, .kv_heads = 2}),
          cluster(1, devices),
          training(16, batch),
          find_engine("generic"),
          {}};
}

std::set<std::string> listed(const Small& p) {
  std::set<std::string> out;
  p.space().for_each(
      [&](const Configuration& c) { EXPECT_TRUE(out.insert(canonical_text(c.strategy, c.schedule)).second) << "listed twice"; });
  return out;
}

TEST(Space, SmallestExample) {
  Small p = small(2, 1, 1);
  // One device has nothing to split and nothing to overlap. Recomputation is none, selective, or full of 1 or 2
  // blocks.
  EXPECT_EQ(listed(p).size(), 4U);
  p.part.allow(Dimension::recompute, {0});
  EXPECT_EQ(listed(p), (std::set<std::string>{canonical_text(Strategy{}, Schedule{})}));
}

TEST(Space, OverlapOfTensorParallelismOnlyWhenNamed) {
  Small p = small(2, 2, 2);
  const std::size_t without = listed(p).size();
  p.part.allow(Dimension::overlap_tp, {0, 1});
  EXPECT_GT(listed(p).size(), without);
  p.part.allow(Dimension::overlap_tp, {0});
  EXPECT_EQ(listed(p).size(), without);
}

// ZB-H2 takes twice the activations and no framework has it. A space that does not name it leaves it out, also where
// another schedule is forbidden.
TEST(Space, ZbH2OnlyWhereAllowed) {
  Small p = small(2, 2, 4);
  const auto count = [&](ScheduleKind kind) {
    int found = 0;
    p.space().for_each([&](const Configuration& c) { found += c.schedule.kind == kind ? 1 : 0; });
    return found;
  };
  const auto zb_h1 = static_cast<std::int64_t>(ScheduleKind::zb_h1), zb_h2 = static_cast<std::int64_t>(ScheduleKind::zb_h2);
  const int as_many = count(ScheduleKind::zb_h1);
  EXPECT_GT(as_many, 0);
  EXPECT_EQ(count(ScheduleKind::zb_h2), 0);
  EXPECT_FALSE(p.part.admits(Dimension::schedule, zb_h2));
  p.part.forbid(Dimension::schedule, {zb_h1});
  EXPECT_EQ(count(ScheduleKind::zb_h1) + count(ScheduleKind::zb_h2), 0);
  p.part.allow(Dimension::schedule, {zb_h1, zb_h2});
  EXPECT_EQ(count(ScheduleKind::zb_h2), as_many);
  EXPECT_TRUE(p.part.admits(Dimension::schedule, zb_h2));
}

// Sets of recomputed modules are added to the other kinds, each only as selective recomputation, and are absent unless
// the space names them. Without selective, the set that it means is one of them.
TEST(Space, SetsOfModulesOnlyWhereAllowed) {
  Small p = small(2, 2, 4);
  p.engine = find_engine("megatron-core");  // core_attn and mlp; the norms are parts of products
  const auto sets = [&] {
    std::map<std::string, int> found;
    p.space().for_each([&](const Configuration& c) {
      EXPECT_TRUE(!c.strategy.recompute.modules.any() || c.strategy.recompute.kind == RecomputeKind::selective);
      if (c.strategy.recompute.kind == RecomputeKind::selective) ++found[to_string(c.strategy.recompute.modules)];
    });
    return found;
  };
  const auto alone = sets();
  ASSERT_EQ(alone.size(), 1U);
  const int each = alone.at("");
  EXPECT_GT(each, 0);
  const std::size_t others = listed(p).size() - static_cast<std::size_t>(each);
  p.part.allow(Dimension::recompute, {RecomputeKind::none, RecomputeKind::selective, RecomputeKind::full, kModuleSets});
  EXPECT_EQ(sets(), (std::map<std::string, int>{{"", each}, {"core_attn", each}, {"core_attn,mlp", each}}));
  EXPECT_EQ(listed(p).size(), others + 3 * static_cast<std::size_t>(each));
  double leaves = 0;
  Space space = p.space();
  space.layer_group([&](const Configuration& c) { leaves += space.leaves(c); });
  EXPECT_EQ(leaves, static_cast<double>(listed(p).size()));
  space.for_each([&](const Configuration& c) { EXPECT_TRUE(space.contains(c)); });
  p.part.allow(Dimension::recompute, {kModuleSets});
  EXPECT_EQ(sets(), (std::map<std::string, int>{{"mlp", each}, {"core_attn", each}, {"core_attn,mlp", each}}));
  p.engine = find_engine("torchtitan");  // one policy
  EXPECT_TRUE(listed(p).empty());
}

// A seed of another search may bring any set of modules.
TEST(Space, ContainsOnlyTheSetsOfModulesThatItLists) {
  Small p = small(2, 2, 4);
  p.engine = find_engine("megatron-core");
  const auto contains = [&](RecomputeModules modules) {
    Configuration c;
    p.space().for_each([&](const Configuration& any) { c = any; });
    c.strategy.recompute = {RecomputeKind::selective, 0, modules};
    return p.space().contains(c);
  };
  EXPECT_TRUE(contains({}));
  EXPECT_TRUE(contains({RecomputeModule::mlp}));  // selective means this set
  EXPECT_FALSE(contains({RecomputeModule::core_attn}));
  EXPECT_FALSE(contains({RecomputeModule::moe}));
  p.part.allow(Dimension::recompute, {kModuleSets});
  EXPECT_TRUE(contains({RecomputeModule::core_attn}));
  EXPECT_TRUE(contains({RecomputeModule::mlp}));
  EXPECT_FALSE(contains({}));
  EXPECT_FALSE(contains({RecomputeModule::moe})) << "the model has no experts";
}

/// Returns whether the job file admits a configuration, computed afresh from its maps.
bool admitted(const SearchSpace& part, const Configuration& c) {
  for (int i = 0; i < kDimensions; ++i) {
    const auto d = static_cast<Dimension>(i);
    const std::int64_t v = get(d, c.strategy, c.schedule);
    const auto has = [v](const std::vector<std::int64_t>& values) { return std::count(values.begin(), values.end(), v) > 0; };
    if (part.allowed.contains(d) && !has(part.allowed.at(d))) return false;
    if (part.forbidden.contains(d) && has(part.forbidden.at(d))) return false;
    if (part.limits.contains(d) && v > part.limits.at(d)) return false;
    if (d == Dimension::schedule && only_where_allowed(c.schedule.kind) && !part.allowed.contains(d)) return false;
    if (d == Dimension::overlap_tp && v != 0 && !part.allowed.contains(d) && !part.forbidden.contains(d)) return false;
  }
  return true;
}

/// Enumerates every combination of values 0 or 1 … `largest` of each dimension, one loop per dimension. A rule is
/// checked as soon as the dimensions chosen so far break it, or there would be 10¹² combinations. At that point only
/// rules that read no other dimension count.
class Combinations {
 public:
  Combinations(const Small& p, std::int64_t largest)
      : problem_(p), largest_(largest), facts_(rule_facts(p.model, p.machines, p.job, p.engine->split)) {}

  std::set<std::string> legal() {
    choose(0, 0);
    return std::move(found_);
  }

 private:
  void choose(int i, DimensionSet known) {
    if (i == kDimensions) return check();
    const auto d = static_cast<Dimension>(i);
    const bool counts = enum_size(d) == 0, from_zero = d == Dimension::zero || d == Dimension::recompute_layers;
    const std::int64_t first = counts && !from_zero ? 1 : 0;
    const std::int64_t last = counts ? (d == Dimension::zero ? 3 : largest_) : enum_size(d) - 1;
    for (std::int64_t v = first; v <= last; ++v) {
      set(d, v, now_.strategy, now_.schedule);
      if (possible(known | bit(d), bit(d))) choose(i + 1, known | bit(d));
    }
    set(d, first, now_.strategy, now_.schedule);
  }

  bool possible(DimensionSet known, DimensionSet latest) {
    const std::int64_t m = microbatches_of(facts_, now_.strategy, now_.schedule);
    now_.schedule.microbatches = static_cast<std::int32_t>(std::max<std::int64_t>(m, 1));
    for (const Rule& rule : rules())
      if ((rule.reads & latest) != 0 && (rule.reads & ~known) == 0 && !rule.holds(facts_, now_.strategy, now_.schedule))
        return false;
    return true;
  }

  void check() {
    const Strategy& s = now_.strategy;
    const Schedule& c = now_.schedule;
    if (!admitted(problem_.part, now_)) return;
    if (!violations(problem_.model, problem_.machines, problem_.job, s, c, problem_.engine->split).empty()) return;
    if (!engine_violations(*problem_.engine, problem_.model, problem_.machines, problem_.job, s, c).empty()) return;
    found_.insert(canonical_text(s, c));
  }

  const Small& problem_;
  std::int64_t largest_;
  RuleFacts facts_;
  Configuration now_;
  std::set<std::string> found_;
};

void expect_equal_sets(const Small& p) {
  const std::int64_t largest =
      std::max({p.machines.devices(), p.job.global_batch, static_cast<std::int64_t>(p.model.layers.size())}) + 1;
  const std::set<std::string> by_space = listed(p), by_trial = Combinations(p, largest).legal();
  std::vector<std::string> missing, extra;
  std::set_difference(by_trial.begin(), by_trial.end(), by_space.begin(), by_space.end(), std::back_inserter(missing));
  std::set_difference(by_space.begin(), by_space.end(), by_trial.begin(), by_trial.end(), std::back_inserter(extra));
  EXPECT_TRUE(missing.empty()) << missing.size() << " missing, e.g. " << missing.front();
  EXPECT_TRUE(extra.empty()) << extra.size() << " too many, e.g. " << extra.front();
}

void expect_counts_add_up(const Small& p) {
  Space space = p.space();
  double all = 0;
  space.layer_group([&](const Configuration& layer) {
    const double leaves = space.leaves(layer);
    double below = 0, by_schedule = 0;
    space.schedule_group(layer, [&](const Configuration& schedule) {
      double here = 0;
      space.shard_group(schedule, [&](const Configuration& shard) {
        space.overlap_group(shard, [&](const Configuration& overlap) {
          space.recompute_group(overlap, [&](const Configuration& c) {
            EXPECT_TRUE(space.contains(c));
            ++here;
          });
        });
      });
      if (leaves > 0) {
        EXPECT_EQ(space.leaves_of_schedule(schedule), here) << canonical_text(schedule.strategy, schedule.schedule);
      }
      by_schedule += here;
      below += here;
    });
    EXPECT_EQ(leaves, below) << canonical_text(layer.strategy, layer.schedule);
    all += below;
  });
  EXPECT_EQ(all, static_cast<double>(listed(p).size()));
}

/// One loop per dimension runs over 1 … 3 (enums: all). It skips nothing but products of degrees that differ from the
/// number of devices. That makes 67 million checks for one expert block on two devices.
TEST(Space, EqualsItsDefinitionWithoutAnyShortcut) {
  Small p = small(1, 2, 2);
  p.model = decoder({.blocks = 1, .heads = 4, .kv_heads = 2, .experts = 2});
  p.part.allow(Dimension::overlap_tp, {0, 1});
  for (const ScheduleKind kind : kScheduleKinds) p.part.allowed[Dimension::schedule].push_back(static_cast<std::int64_t>(kind));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP();  // too many checks
#endif
  const RuleFacts facts = rule_facts(p.model, p.machines, p.job, p.engine->split);
  std::set<std::string> found;
  Configuration c;
  const auto loop = [&](const auto& self, int i) -> void {
    if (i == kDimensions) {
      c.schedule.microbatches = static_cast<std::int32_t>(microbatches_of(facts, c.strategy, c.schedule));
      if (is_legal(facts, c.strategy, c.schedule)) found.insert(canonical_text(c.strategy, c.schedule));
      return;
    }
    const auto d = static_cast<Dimension>(i);
    if (i > static_cast<int>(Dimension::dp) && c.strategy.tp * c.strategy.cp * c.strategy.dp * c.schedule.stages != 2) return;
    const bool from_zero = enum_size(d) > 0 || d == Dimension::zero || d == Dimension::recompute_layers;
    const std::int64_t last = enum_size(d) > 0 ? enum_size(d) - 1 : 3;
    for (std::int64_t v = from_zero ? 0 : 1; v <= last; ++v) {
      set(d, v, c.strategy, c.schedule);
      self(self, i + 1);
    }
  };
  loop(loop, 0);
  EXPECT_EQ(listed(p), found);
  EXPECT_GT(found.size(), 100U);
}

TEST(Space, EqualsItsDefinitionOnFewDevices) {
  for (const std::int64_t devices : {1, 2, 3, 4}) {
    const Small p = small(2, devices, 4);
    expect_equal_sets(p);
    expect_counts_add_up(p);
  }
}

/// Draws a random small problem: heads, experts, batch, engine, and a part of the space.
Small any_problem() {
  plan_test::Shape shape;
  shape.blocks = *rc::gen::inRange(1, 5);
  shape.heads = *rc::gen::element(2, 4, 6);
  shape.kv_heads = *rc::gen::element(1, 2);
  shape.experts = *rc::gen::element(0, 0, 2, 4, 6);
  Small p{decoder(shape),
          cluster(*rc::gen::element(1, 2), *rc::gen::element(1, 2, 3, 4)),
          training(*rc::gen::element(8, 12, 16), *rc::gen::element(1, 2, 3, 4, 6, 8)),
          &engine_catalogue()[*rc::gen::inRange<std::size_t>(0, engine_catalogue().size())],
          {}};
  for (int i = 0; i < kDimensions; ++i) {
    const auto d = static_cast<Dimension>(i);
    const std::int64_t most = enum_size(d) > 0 ? enum_size(d) - 1 : 4;
    const auto values = [&] {
      return *rc::gen::container<std::vector<std::int64_t>>(2, rc::gen::inRange<std::int64_t>(0, most + 1));
    };
    switch (*rc::gen::inRange(0, 40)) {
      case 0: p.part.allowed[d] = values(); break;
      case 1: p.part.forbidden[d] = values(); break;
      case 2: p.part.limit(d, *rc::gen::inRange<std::int64_t>(1, 5)); break;
      case 3:
        if (d == Dimension::overlap_tp) p.part.allow(d, {0, 1});
        break;
      default: break;
    }
  }
  return p;
}

TEST(Space, EqualsItsDefinitionOnRandomProblems) {
  constexpr std::size_t kEnough = 5000;  // small spaces are drawn often, then more of them
  std::size_t configurations = 0;
  for (int round = 0; round < 5 && configurations <= kEnough; ++round)
    EXPECT_TRUE(rc::check([&] {
      const Small p = any_problem();
      expect_equal_sets(p);
      expect_counts_add_up(p);
      configurations += listed(p).size();
      RC_ASSERT(!::testing::Test::HasFailure());
    }));
  EXPECT_GT(configurations, kEnough);
}

// A space without a configuration is no error of the space.
TEST(Space, MayBeEmpty) {
  Small p = small(2, 4, 4);
  p.part.allow(Dimension::tp, {3});
  EXPECT_TRUE(listed(p).empty());
  p.space().layer_group([](const Configuration&) { ADD_FAILURE(); });
}

}  // namespace
}  // namespace espalier::search::space_test
