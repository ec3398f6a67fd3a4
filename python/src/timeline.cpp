// SPDX-License-Identifier: Apache-2.0
// Binds timelines as columns: a NumPy array of each field of TimelineSpan, MemorySample and TimelineStep,
// rank after rank.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "docstrings.h"
#include "espalier/documents.h"
#include "espalier/schedule_grid.h"
#include "espalier/timeline.h"

namespace espalier::python {
namespace {

using namespace nb::literals;
using Columns = nb::typed<nb::dict, nb::str, nb::any>;  ///< NumPy arrays and lists by name

/// Holds rows of one kind with the rank that each belongs to.
template <class Row>
using Rows = std::vector<std::pair<const TimelineRank*, const Row*>>;

template <class Row>
Rows<Row> rows_of(const Timeline& timeline, std::vector<Row> TimelineRank::*of) {
  Rows<Row> rows;
  for (const TimelineRank& rank : timeline.ranks)
    for (const Row& row : rank.*of) rows.emplace_back(&rank, &row);
  return rows;
}

/// Returns a NumPy array that owns its values.
template <class T, class Row, class Value>
nb::object column(const Rows<Row>& rows, Value value) {
  auto* values = new T[rows.empty() ? 1 : rows.size()];
  nb::capsule owner(values, [](void* p) noexcept { delete[] static_cast<T*>(p); });
  for (std::size_t i = 0; i < rows.size(); ++i) values[i] = static_cast<T>(value(*rows[i].first, *rows[i].second));
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(values, {rows.size()}, owner));
}

template <class Row>
void add_rank(Columns& out, const Rows<Row>& rows) {
  out["rank"] = column<std::int64_t>(rows, [](const TimelineRank& r, const Row&) { return r.device; });
  out["pipeline"] = column<std::int32_t>(rows, [](const TimelineRank& r, const Row&) { return r.pipeline; });
  out["stage"] = column<std::int32_t>(rows, [](const TimelineRank& r, const Row&) { return r.stage; });
}

template <class Row>
void add_times(Columns& out, const Rows<Row>& rows) {
  out["start_ns"] = column<std::int64_t>(rows, [](const TimelineRank&, const Row& s) { return s.start_ns; });
  out["duration_ns"] = column<std::int64_t>(rows, [](const TimelineRank&, const Row& s) { return s.end_ns - s.start_ns; });
}

Columns span_columns(const Timeline& timeline) {
  const auto rows = rows_of(timeline, &TimelineRank::spans);
  using S = TimelineSpan;
  Columns out;
  add_rank(out, rows);
  add_times(out, rows);
  const auto add = [&]<class T>(const char* name, T S::*field) {
    out[name] = column<T>(rows, [field](const TimelineRank&, const S& s) { return s.*field; });
  };
  out["stream"] = column<std::uint8_t>(rows, [](const TimelineRank&, const S& s) { return s.stream; });
  out["kind"] = column<std::uint8_t>(rows, [](const TimelineRank&, const S& s) { return s.kind; });
  out["collective"] = column<std::uint8_t>(rows, [](const TimelineRank&, const S& s) { return s.collective; });
  add("microbatch", &S::microbatch);
  add("chunk", &S::chunk);
  add("bucket", &S::bucket);
  add("first_layer", &S::first_layer);
  add("last_layer", &S::last_layer);
  add("gradient", &S::gradient);
  add("group_size", &S::group_size);
  add("bytes", &S::bytes);
  add("peer", &S::peer);
  add("instruction", &S::instruction);
  add("match", &S::match);
  return out;
}

Columns memory_columns(const Timeline& timeline) {
  const auto rows = rows_of(timeline, &TimelineRank::memory);
  Columns out;
  add_rank(out, rows);
  out["at_ns"] = column<std::int64_t>(rows, [](const TimelineRank&, const MemorySample& s) { return s.at_ns; });
  out["bytes"] = column<std::int64_t>(
      rows, [](const TimelineRank& r, const MemorySample& s) { return r.static_bytes + s.activation_bytes; });
  out["activation_bytes"] =
      column<std::int64_t>(rows, [](const TimelineRank&, const MemorySample& s) { return s.activation_bytes; });
  return out;
}

/// Returns the words of a column, one per row.
template <class Value>
nb::list words(const Rows<TimelineStep>& rows, Value value) {
  nb::list out;
  for (const auto& [rank, step] : rows) out.append(nb::cast(std::string(value(*step))));
  return out;
}

Columns step_columns(const Timeline& timeline) {
  const auto rows = rows_of(timeline, &TimelineRank::steps);
  using S = TimelineStep;
  Columns out;
  add_rank(out, rows);
  add_times(out, rows);
  const auto add = [&]<class T>(const char* name, T S::*field) {
    out[name] = column<T>(rows, [field](const TimelineRank&, const S& s) { return s.*field; });
  };
  add("track", &S::track);
  add("layer", &S::layer);
  add("chunk", &S::chunk);
  add("microbatch", &S::microbatch);
  add("times", &S::times);
  add("bytes", &S::bytes);
  out["collective"] = column<std::uint8_t>(rows, [](const TimelineRank&, const S& s) { return s.collective; });
  out["name"] = words(rows, [](const S& s) -> std::string_view { return s.name; });
  out["part"] = words(rows, [](const S& s) { return s.part; });
  out["group"] = words(rows, [](const S& s) { return s.group; });
  out["beside"] = words(rows, [](const S& s) -> std::string_view { return s.beside; });
  return out;
}

/// Returns the words for the values of an enumeration from 0 to its last.
template <class Enum>
std::vector<std::string> names_to(Enum last) {
  std::vector<std::string> out;
  for (int v = 0; v <= static_cast<int>(last); ++v) out.emplace_back(to_string(static_cast<Enum>(v)));
  return out;
}

std::pair<Answer, Timeline> simulate_timeline(const std::shared_ptr<const Job>& job, const Plan& plan, bool steps) {
  const TimelineDetail detail = steps ? TimelineDetail::steps : TimelineDetail::instructions;
  SimulatedPlan simulated = taken(waited_for([&] { return simulate_with_timeline(*job, plan, detail); }));
  return {Answer{job, std::move(simulated.result)}, std::move(simulated.timeline)};
}

}  // namespace

void bind_timeline(nb::module_& m) {
  nb::class_<Timeline>(m, "Timeline", doc::timeline_file)
      .def_ro("label", &Timeline::label)
      .def_ro("iteration_ns", &Timeline::iteration_ns)
      .def_ro("microbatches", &Timeline::microbatches)
      .def_prop_ro("devices", &Timeline::devices)
      .def("spans", &span_columns, doc::timeline_TimelineSpan)
      .def("memory", &memory_columns, doc::timeline_MemorySample)
      .def("steps", &step_columns, doc::timeline_TimelineStep)
      .def(
          "to_trace", [](const Timeline& t) { return to_trace(t); }, doc::timeline_to_trace);

  m.def(
      "streams", [] { return names_to(Stream::recv); }, "Returns the names of streams, by number.");
  m.def(
      "kinds", [] { return names_to(InstructionKind::optimizer); }, "Returns the names of kinds of instructions, by number.");
  m.def(
      "collectives", [] { return names_to(CollectiveKind::resharding); }, "Returns the names of collectives, by number.");

  m.def("simulate_with_timeline", &simulate_timeline, "job"_a, "plan"_a, "steps"_a = false, doc::planner_simulate_with_timeline);
  m.def(
      "schedule_grid",
      [](const Answer& answer, const Timeline& timeline, std::size_t width, bool ascii) {
        return report::schedule_grid(answer.result, timeline, {width, ascii});
      },
      "answer"_a, "timeline"_a, "width"_a = 80, "ascii"_a = false, doc::schedule_grid_file);
  m.def(
      "write_trace",
      [](const std::string& path, const std::string& trace) {
        if (Status status = report::write_trace_file(path, trace); !status.ok()) throw Failure(status.error());
      },
      "path"_a, "trace"_a, doc::documents_write_trace_file);
}

}  // namespace espalier::python
