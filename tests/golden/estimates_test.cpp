// SPDX-License-Identifier: Apache-2.0
// Records the signature of the cost model, the schedules and the simulator: 300 random plans, each with its
// prediction and a hash of its timeline. A commit that changes a line of answers_estimates.txt states the reason. The
// lines at the end of the file count the features of the plans.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "answer_file.h"
#include "answer_text.h"
#include "estimate_jobs.h"
#include "random_configurations.h"
#include "random_plans.h"
#include "unfolded.h"

namespace espalier::estimates_test {
namespace {

using golden::AnswerLine;
using golden::Configuration;
using golden::Random;

constexpr std::int64_t kUniform = 200, kLayered = 60, kPartitioned = 40;
constexpr std::uint64_t kSeed = 11;

/// Holds engines whose rules leave much of the space, alternating with `generic`.
const std::vector<std::string> kEngines = {"generic", "megatron-core", "generic", "torchtitan", "generic", "nanotron",
                                           "generic", "deepspeed",     "generic", "jax",        "generic", "megatron-lm-2021"};

struct Case {
  std::string key;
  Job job;
  Plan plan;
  bool uniform = true;
};

/// Counts the features of the plans: "schedule zb-v" → number of plans.
using Census = std::map<std::string, int>;

// ---- making plans -------------------------------------------------------------------------------------------------

std::string key_of(const char* kind, std::int64_t number, const std::string& job, const std::string& engine) {
  std::string digits = std::to_string(number);
  digits.insert(0, 3 - digits.size(), '0');
  return std::string(kind) + " " + digits + " " + job + " " + engine;
}

/// Returns a configuration that is legal by the rules of the space and of the engine.
std::optional<Configuration> configuration(Random& random, const Job& job, std::int64_t number) {
  return golden::legal_configuration(random, job, golden::wish_of(number), [&](const Configuration& x) {
    return job.engine == "generic" || estimate(job, x.first, x.second).ok();
  });
}

Random random_of(std::int64_t number) { return Random(kSeed * 1000 + static_cast<std::uint64_t>(number)); }

/// Chooses an engine for each round of the jobs, shifted by one for each job, so that pairs differ.
const std::string& engine_of_case(std::int64_t number, std::size_t jobs) {
  const auto turn = static_cast<std::size_t>(number) / jobs + static_cast<std::size_t>(number) % jobs;
  return kEngines[turn % kEngines.size()];
}

Case uniform_case(std::int64_t number) {
  const auto& jobs = golden::estimate_jobs();
  const golden::EstimateJob& asked = jobs[static_cast<std::size_t>(number) % jobs.size()];
  Random random = random_of(number);
  for (const std::string& engine : {engine_of_case(number, jobs.size()), std::string("generic")}) {
    Case made;
    made.key = key_of("uniform", number, asked.name, engine);
    made.job = golden::load(asked, engine).value();
    if (const auto x = configuration(random, made.job, number)) {
      made.plan = estimate(made.job, x->first, x->second).value().plan;
      return made;
    }
  }
  ADD_FAILURE() << "no legal configuration of " << asked.name;
  return {};
}

/// Makes a plan whose layers differ. After many failed tries the wish of the case is changed. (Other engines
/// reject such plans.)
Case layered_case(std::int64_t number) {
  const auto& jobs = golden::estimate_jobs();
  const golden::EstimateJob& asked = jobs[static_cast<std::size_t>(number) % jobs.size()];
  Case made{key_of("layers", number, asked.name, "generic"), golden::load(asked, "generic").value(), {}, false};
  Random random = random_of(number);
  for (int i = 0; i < 400; ++i) {
    const auto x = configuration(random, made.job, number + i / 50);
    if (!x || x->first.order == RankOrder::tp_cp_pp_dp) continue;  // stages are runs of devices here
    const auto start = estimate(made.job, x->first, x->second);
    if (!start) continue;
    made.plan = golden::layered(random, made.job, start->plan, false);
    if (simulate(made.job, made.plan).ok()) return made;
  }
  ADD_FAILURE() << "no layer-wise plan of " << asked.name;
  return made;
}

/// Makes a plan with operator partitions. Every other plan has one strategy; the rest have ranges with partitions
/// and ranges without.
Case partitioned_case(std::int64_t number) {
  const auto& jobs = golden::partition_jobs();
  const golden::EstimateJob& asked = jobs[static_cast<std::size_t>(number) % jobs.size()];
  Case made{key_of("operators", number, asked.name, "generic"), golden::load(asked, "generic").value(), {}, false};
  Random random = random_of(number);
  for (int i = 0; i < 1000; ++i) {
    const auto x = configuration(random, made.job, number + i / 50);
    if (!x || x->first.order == RankOrder::tp_cp_pp_dp) continue;
    const Strategy first = golden::partitioned(random, made.job, x->first);
    const auto start = first.partition.empty() ? Result<PlannerResult>(Error{}) : estimate(made.job, first, x->second);
    if (!start) continue;
    made.plan = number % 2 == 0 ? start->plan : golden::layered(random, made.job, start->plan, true);
    if (simulate(made.job, made.plan).ok()) return made;
  }
  ADD_FAILURE() << "no partitioned plan of " << asked.name;
  return made;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (std::int64_t i = 0; i < kUniform; ++i) out.push_back(uniform_case(i));
  for (std::int64_t i = 0; i < kLayered; ++i) out.push_back(layered_case(kUniform + i));
  for (std::int64_t i = 0; i < kPartitioned; ++i) out.push_back(partitioned_case(kUniform + kLayered + i));
  return out;
}

// ---- answers ------------------------------------------------------------------------------------------------------

/// Selects uniform plans of at most 16 devices, which are also simulated device by device.
bool asks_unfolded(const Case& c) { return c.uniform && c.job.cluster.devices() <= 16; }

std::string answer(const Case& c) {
  const auto simulated = simulate_with_timeline(c.job, c.plan);
  if (!simulated) return "refused: " + simulated.error().message();
  const PlannerResult* const result = &simulated->result;
  const std::string timeline = to_trace(simulated->timeline);
  std::string out = golden::plan_words(result->plan) + " " + golden::prediction_words(result->prediction) +
                    " timeline=" + base::content_hash(timeline);
  if (const auto block = block_timeline(c.job, c.plan); block.ok()) out += " block=" + base::content_hash(*block);
  if (!asks_unfolded(c)) return out;
  const auto alone = golden::unfolded_ns(c.job, c.plan);
  return out + " unfolded_ns=" + (alone ? std::to_string(*alone) : alone.error().message());
}

// ---- features of the plans ----------------------------------------------------------------------------------------

/// Marks features; each counts once a plan.
using Features = std::map<std::string, bool>;

void note(const Strategy& s, Features& holds) {
  holds["zero " + std::to_string(number_of(s.zero))] = true;
  holds["sp " + std::string(to_string(s.sp))] = true;
  holds["order " + std::string(to_string(s.order))] = true;
  holds["recompute " + std::string(to_string(s.recompute.kind))] = true;
  if (s.cp > 1) holds["cp " + std::string(to_string(s.cp_kind))] = true;
  holds["tp"] |= s.tp > 1;
  holds["dp"] |= s.dp > 1;
  holds["ep"] |= s.ep > 1;
  holds["etp"] |= s.etp > 1;
  holds["shard below the data ranks"] |= s.shards_optimizer() && s.shard < s.data_ranks();
  holds["overlap grad_reduce"] |= s.overlap.grad_reduce;
  holds["overlap param_gather"] |= s.overlap.param_gather;
  holds["overlap p2p"] |= s.overlap.p2p;
  holds["overlap tp"] |= s.overlap.tp;
  holds["operators partitioned"] |= !s.partition.empty();
}

Features features(const Case& c) {
  const Schedule& s = c.plan.only_pipeline().schedule;
  const bool tied = c.job.model.tied_embeddings && s.stages > 1;
  Features holds;
  holds["schedule " + std::string(to_string(s.kind)) + (s.stages == 1 ? " without a pipeline" : "")] = true;
  holds["engine " + c.job.engine] = true;
  holds["model " + c.job.model.family] = true;
  holds["tied table over several stages"] = tied;
  holds["two sequences over several stages"] = c.job.training.sequence.encoder > 0 && s.stages > 1;
  holds["unfolded"] = asks_unfolded(c);
  holds["unfolded with a tied table over several stages"] = asks_unfolded(c) && tied;
  for (const Stage& stage : c.plan.only_pipeline().stages)
    for (const Chunk& chunk : stage.chunks) {
      holds["several ranges in a chunk"] |= chunk.ranges.size() > 1;
      holds["several ranges in a chunk of several"] |= chunk.ranges.size() > 1 && s.virtual_stages > 1;
      for (const LayerRange& range : chunk.ranges) note(range.strategy, holds);
    }
  return holds;
}

TEST(Golden, Estimates) {
  std::vector<AnswerLine> lines;
  Census census;
  for (const Case& c : cases()) {
    lines.push_back({c.key, answer(c)});
    for (const auto& [what, held] : features(c)) census[what] += held ? 1 : 0;
  }
  for (const auto& [what, times] : census) {
    lines.push_back({"# " + what, std::to_string(times)});
    EXPECT_GE(times, what.starts_with("engine") ? 5 : 10) << what;
  }
  golden::expect_answers("answers_estimates.txt", lines);
}

}  // namespace
}  // namespace espalier::estimates_test
