// SPDX-License-Identifier: Apache-2.0
#include "planner/memory.h"

#include <algorithm>
#include <utility>

namespace espalier {

PlannerMemory::PlannerMemory() : content_(std::make_unique<Content>()) {}
PlannerMemory::~PlannerMemory() = default;
PlannerMemory::PlannerMemory(PlannerMemory&&) noexcept = default;
PlannerMemory& PlannerMemory::operator=(PlannerMemory&&) noexcept = default;
void PlannerMemory::clear() { content_->searches.clear(); }
std::size_t PlannerMemory::size() const { return content_->searches.size(); }

}  // namespace espalier

namespace espalier::planner {
namespace {

constexpr std::ptrdiff_t kMostOfProblem = 8;  // the records of each take few megabytes
constexpr std::size_t kMost = 24;

/// Returns whether two searches cover the same configurations of the same model, whatever the links.
bool same_problem(const Job& a, const Job& b) {
  return a.engine == b.engine && a.engine_model == b.engine_model && a.training == b.training && a.search == b.search &&
         a.model == b.model;
}

/// Returns the same degrees except data parallelism, which takes the remaining devices; nullopt if they do not divide.
std::optional<search::Configuration> spread_over(std::int64_t devices, std::int64_t global_batch,
                                                 const search::Configuration& c) {
  search::Configuration out = c;
  const std::int64_t replica = std::int64_t{c.strategy.tp} * c.strategy.cp * c.schedule.stages;
  const std::int64_t dp = devices / replica, samples = dp * c.schedule.micro_batch;
  if (devices % replica != 0 || samples == 0 || global_batch % samples != 0) return std::nullopt;
  out.strategy.dp = static_cast<std::int32_t>(dp);
  out.schedule.microbatches = static_cast<std::int32_t>(global_batch / samples);
  // States are sharded over all ranks, or over as many as before.
  if (c.strategy.shard == c.strategy.data_ranks()) out.strategy.shard = static_cast<std::int32_t>(out.strategy.data_ranks());
  return out;
}

}  // namespace

std::optional<search::Carried> carried_for(PlannerMemory* memory, const Job& room) {
  if (memory == nullptr) return std::nullopt;
  std::optional<search::Carried> best;
  for (const PlannerMemory::Content::Remembered& known : memory->content().searches) {
    if (!same_problem(known.job, room)) continue;
    if (known.job.cluster.usable_memory().count() < room.cluster.usable_memory().count()) continue;
    const cost::NetworkChange change = cost::network_change(known.job.cluster, room.cluster);
    if (change.ratio > 0 && (!best || change.ratio >= best->change.ratio)) best = search::Carried{&known.record, change};
  }
  return best;
}

std::vector<search::Configuration> seeds_for(PlannerMemory* memory, const Job& room) {
  std::vector<search::Configuration> seeds;
  if (memory == nullptr) return seeds;
  const auto& searches = memory->content().searches;
  const auto latest =
      std::find_if(searches.rbegin(), searches.rend(), [&](const auto& known) { return same_problem(known.job, room); });
  if (latest == searches.rend()) return seeds;
  for (const search::Configuration& c : latest->record.fastest)
    if (const auto seed = spread_over(room.cluster.devices(), room.training.global_batch, c)) seeds.push_back(*seed);
  return seeds;
}

void remember(PlannerMemory* memory, const Job& room, std::optional<search::SearchRecord> record) {
  if (memory == nullptr || !record) return;
  auto& searches = memory->content().searches;
  std::erase_if(searches, [&](const auto& known) { return same_problem(known.job, room) && known.job.cluster == room.cluster; });
  const auto of_problem = [&](const auto& known) { return same_problem(known.job, room); };
  if (std::count_if(searches.begin(), searches.end(), of_problem) >= kMostOfProblem)
    searches.erase(std::find_if(searches.begin(), searches.end(), of_problem));
  if (searches.size() >= kMost) searches.erase(searches.begin());
  searches.push_back({room, std::move(*record)});
}

}  // namespace espalier::planner
