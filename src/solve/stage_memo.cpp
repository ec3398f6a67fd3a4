// SPDX-License-Identifier: Apache-2.0
#include "solve/stage_memo.h"

namespace espalier::solve {

StageMemo::StageMemo(std::int32_t stages, std::int32_t layers, const StageOracle& oracle)
    : layers_(layers), oracle_(oracle), rows_(at(stages) * at(layers)), fails_from_(rows_.size(), layers + 1) {}

std::size_t StageMemo::row(std::int32_t stage, std::int32_t first) const { return at(stage) * at(layers_) + at(first); }

bool StageMemo::known(std::int32_t stage, std::int32_t first, std::int32_t end) const {
  const std::size_t r = row(stage, first);
  if (end >= fails_from_[r]) return true;
  return !rows_[r].empty() && rows_[r][at(end - first - 1)].state != State::unknown;
}

const StageValue* StageMemo::ask(std::int32_t stage, std::int32_t first, std::int32_t end) {
  const std::size_t r = row(stage, first);
  if (end >= fails_from_[r]) return nullptr;
  if (rows_[r].empty()) rows_[r].resize(at(layers_ - first));
  Entry& entry = rows_[r][at(end - first - 1)];
  if (entry.state == State::unknown) {
    const std::optional<StageValue> value = oracle_(stage, first, end);
    entry.state = value ? State::fits : State::fails;
    if (value) entry.value = *value;
    if (!value) {
      for (std::int32_t f = first; f >= 0 && fails_from_[row(stage, f)] > end; --f) fails_from_[row(stage, f)] = end;
    }
  }
  return entry.state == State::fits ? &entry.value : nullptr;
}

}  // namespace espalier::solve
