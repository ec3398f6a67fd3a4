// SPDX-License-Identifier: Apache-2.0
#include "solve/device_group_level.h"

#include <algorithm>
#include <array>
#include <utility>

namespace espalier::solve::device_groups {
namespace {

/// Lists the figures by which labels are compared.
constexpr std::array<std::int64_t Tail::*, 8> kFigures = {&Tail::span,  &Tail::finish,    &Tail::work, &Tail::whole,
                                                          &Tail::ended, &Tail::stretched, &Tail::near, &Tail::near_two};

bool beats(const Tail& a, const Tail& b, const Tail& allowance) {
  return std::all_of(kFigures.begin(), kFigures.end(), [&](auto figure) { return a.*figure <= b.*figure + allowance.*figure; });
}

}  // namespace

void Level::clear() {
  labels_.clear();
  alive_ = 0;
  heads_.assign(1024, -1);
}

void Level::merge(std::int64_t time, const InFlight& front) {
  Tail most;
  most.span = most.finish = most.whole = most.ended = time;
  most.work = most.stretched = time / (front.rounds_of_all + 2);
  most.near = most.near_two = time / (front.between / 2 + 2);
  allowance_ = most;
}

bool Level::insert(const ChainLabel& label) {
  if (labels_.size() * 2 > heads_.size()) grow();
  std::int32_t* link = &heads_[place(label)];
  const bool compare = label.first == 0 || tables_.uses(GroupRule::labels);
  for (std::int32_t i = compare ? *link : -1; i >= 0; i = labels_[i].next) {
    if (no_worse(labels_[i], label)) return false;
    if (allowance_ && stands_for(labels_[i], label)) return false;
  }
  labels_.push_back(label);
  labels_.back().next = *link;
  *link = static_cast<std::int32_t>(labels_.size()) - 1;
  ++alive_;
  for (link = &labels_.back().next; compare && *link >= 0;) {
    ChainLabel& other = labels_[*link];
    if (no_worse(label, other)) {
      other.beaten = true;
      *link = other.next;
      --alive_;
    } else {
      link = &other.next;
    }
  }
  return true;
}

std::vector<ChainLabel> Level::take() {
  std::vector<ChainLabel> result;
  for (const ChainLabel& label : labels_)
    if (!label.beaten) result.push_back(label);
  clear();
  return result;
}

bool Level::no_worse(const ChainLabel& a, const ChainLabel& b) const {
  return a.first == 0 ? a.tail.whole <= b.tail.whole : beats(a.tail, b.tail, Tail{}) && tables_.no_worse_port(a.port, b.port);
}

bool Level::stands_for(ChainLabel& a, const ChainLabel& b) const {
  if (a.first == 0 || !beats(a.tail, b.tail, *allowance_) || !tables_.no_worse_port(a.port, b.port)) return false;
  for (const auto figure : kFigures) a.tail.*figure = std::min(a.tail.*figure, b.tail.*figure);
  a.least = std::min(a.least, b.least);
  a.soonest = std::min(a.soonest, b.soonest);
  return true;
}

/// Returns where the chain of the label's key begins, or an empty place for it (open addressing).
std::size_t Level::place(const ChainLabel& label) const {
  const std::int64_t wanted = key(label);
  const std::size_t mask = heads_.size() - 1;
  std::uint64_t hash = static_cast<std::uint64_t>(wanted) * 0x9e3779b97f4a7c15ULL;
  hash ^= hash >> 29;
  std::size_t at = static_cast<std::size_t>(hash) & mask;
  while (heads_[at] >= 0 && key(labels_[heads_[at]]) != wanted) at = (at + 1) & mask;
  return at;
}

void Level::grow() {
  const std::vector<std::int32_t> old = std::exchange(heads_, std::vector<std::int32_t>(heads_.size() * 2, -1));
  for (const std::int32_t head : old)
    if (head >= 0) heads_[place(labels_[head])] = head;
}

}  // namespace espalier::solve::device_groups
