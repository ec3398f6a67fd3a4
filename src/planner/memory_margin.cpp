// SPDX-License-Identifier: Apache-2.0
#include "planner/memory_margin.h"

#include "base/document.h"
#include "base/shipped.h"
#include "data/memory_errors_yaml.h"
#include "plan/engine.h"

namespace espalier::planner {

Result<MemoryErrorTable> read_memory_errors(std::string_view yaml, const std::string& where) {
  auto document = base::read_yaml(yaml, where);
  if (!document) return document.error();
  base::ErrorSink sink;
  base::Reader root = base::Reader::root(*document, sink);
  MemoryErrorTable table;
  (void)root.required_string("schema");
  root.each("errors", true, [&](base::Reader& r) {
    const std::string engine = r.optional_string("engine", "");
    const std::string device = r.optional_string("device", "");
    MemoryError e;
    e.half_width = r.optional_real("half_width", 0, 0.9, e.half_width);
    e.runs = r.optional_int("runs", 0, 1'000'000'000, 0);
    r.finish();
    table[{engine, device}] = e;
  });
  root.finish();
  if (!sink.ok()) return sink.first().error();
  return table;
}

const MemoryErrorTable& shipped_memory_errors() {
  // Read-only after construction: a constant that happens to be stored as text.
  static const MemoryErrorTable table = base::shipped(
      read_memory_errors(embedded::memory_errors_yaml, "data/calibration/memory.yaml"), "data/calibration/memory.yaml");
  return table;
}

MemoryError memory_error_for(const MemoryErrorTable& table, const std::string& name, const std::string& device) {
  const std::string engine(base_engine(name));
  const auto find = [&](const std::string& e, const std::string& d) -> const MemoryError* {
    const auto it = table.find({e, d});
    return it == table.end() ? nullptr : &it->second;
  };
  if (const MemoryError* own = find(engine, device)) {
    MemoryError e = *own;
    e.basis = std::to_string(e.runs) + " peaks of " + engine + " on " + device;
    return e;
  }
  const MemoryError* of_engine = find(engine, "");
  const MemoryError* known = of_engine ? of_engine : find("", "");
  MemoryError e = known ? *known : MemoryError{};
  e.basis = of_engine ? "peaks of " + engine + " on other devices" : "peaks of other engines, none of " + engine;
  e.runs = 0;
  return e;
}

MemoryMargin memory_margin_of(const Job& job) {
  if (job.search.memory_margin) return {*job.search.memory_margin, "search.memory_margin"};
  const MemoryError error = memory_error_for(shipped_memory_errors(), job.engine, job.cluster.groups.front().device.name);
  return {error.half_width, "80 % error of the memory model: " + error.basis};
}

std::int64_t room_of(std::int64_t limit_bytes, double margin) {
  return static_cast<std::int64_t>(static_cast<double>(limit_bytes) * (1.0 - margin));
}

std::int64_t memory_room_bytes(const Job& job) {
  return room_of(job.cluster.usable_memory().count(), memory_margin_of(job).share);
}

Job with_memory_room(const Job& job) {
  Job out = job;
  if (job.cluster.homogeneous()) {
    out.cluster.memory_limit = Bytes(memory_room_bytes(job));
    return out;
  }
  // A single limit would be that of the smallest kind, so every kind gets a memory that leaves it its own room.
  const double margin = memory_margin_of(job).share;
  out.cluster.memory_limit.reset();
  for (std::size_t g = 0; g < out.cluster.groups.size(); ++g) {
    DeviceKind& device = out.cluster.groups[g].device;
    device.memory = device.context_reserve + Bytes(room_of(job.cluster.usable_memory(g).count(), margin));
  }
  return out;
}

}  // namespace espalier::planner
