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

constexpr std::ptrdiff_t kMostOfProblem = 8;  // the megabytes of each are few
constexpr std::size_t kMost = 24;

/// Whether two searches look at the same configurations of the same model, whatever the links.
bool same_problem(const Job& a, const Job& b) {
  return a.engine == b.engine && a.engine_model == b.engine_model && a.training == b.training && a.search == b.search &&
         a.model == b.model;
}

}  // namespace

std::optional<search::Carried> carried_for(PlannerMemory* memory, const Job& room, const EngineModel& engine) {
  if (memory == nullptr) return std::nullopt;
  std::optional<search::Carried> best;
  for (const PlannerMemory::Content::Remembered& known : memory->content().searches) {
    if (!same_problem(known.job, room)) continue;
    if (known.job.cluster.usable_memory().count() < room.cluster.usable_memory().count()) continue;
    const cost::NetworkChange change = cost::network_change(known.job.cluster, room.cluster, engine);
    if (change.ratio > 0 && (!best || change.ratio >= best->change.ratio)) best = search::Carried{&known.record, change};
  }
  return best;
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
