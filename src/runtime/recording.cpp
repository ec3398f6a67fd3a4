// SPDX-License-Identifier: Apache-2.0
#include "runtime/recording.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <fstream>
#include <vector>

#include "base/document.h"

namespace espalier::runtime {
namespace {

/// Returns the peak bytes that the tensors of every rank held.
std::vector<std::int64_t> peaks_of(const CountedMemory* memory, Communicator* world) {
  if (memory == nullptr) return {};
  if (world == nullptr) return {memory->peak.load()};
  at::Tensor own = at::empty({1}, at::kLong), all = at::empty({world->size()}, at::kLong);
  own[0] = memory->peak.load();
  world->all_gather(all, own);
  const std::int64_t* first = all.data_ptr<std::int64_t>();
  return {first, first + all.numel()};
}

std::string text_of(const Recording& r, const std::vector<std::int64_t>& peaks) {
  const auto steps = static_cast<double>(r.steps);
  base::JsonWriter json;
  json.begin_object().key("schema").value("espalier.operator-times/1").key("steps").value(r.steps).key("step_s").value(r.step_s);
  json.key("operators_s").value(r.clock.operator_seconds() / steps).key("update_s").value(r.clock.update_seconds() / steps);
  json.key("updated_elements").value(r.clock.updated() / r.steps).key("late_calls").value(r.clock.late());
  json.key("peak_bytes").compact_next().begin_array();
  for (const std::int64_t peak : peaks) json.value(peak);
  json.end_array().key("operators").begin_array();
  for (const profile::MeasuredTime& row : r.clock.rows()) profile::write_row(json, row);
  json.end_array().end_object();
  return json.text() + "\n";
}

}  // namespace

Status write_recording(const std::string& path, const Recording& recording, Communicator* world) {
  const std::vector<std::int64_t> peaks = peaks_of(recording.memory, world);
  if (world != nullptr && world->rank() != 0) return {};
  std::ofstream file(path);
  file << text_of(recording, peaks) << std::flush;
  if (!file) return Error{ErrorKind::bad_input, path, "a file that cannot be written", "a writable path for --record", ""};
  return {};
}

}  // namespace espalier::runtime
