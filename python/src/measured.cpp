// SPDX-License-Identifier: Apache-2.0
// Binds comparisons of predictions with measurements: records of runs, calibration, logs and steps.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "docstrings.h"
#include "espalier/calibrate.h"
#include "espalier/calibration.h"
#include "espalier/inspect.h"
#include "espalier/log_comparison.h"
#include "espalier/measured_runs.h"
#include "espalier/step_comparison.h"
#include "espalier/validate.h"

namespace espalier::python {
namespace {

using namespace nb::literals;
using JobHandle = std::shared_ptr<const Job>;
using NameAndText = std::pair<std::string, std::string>;

std::vector<NamedText> named(const std::vector<NameAndText>& texts) {
  std::vector<NamedText> out;
  for (const auto& [name, text] : texts) out.push_back({name, text});
  return out;
}

Texts validated(const std::string& path, const std::string& calibration, int threads, std::size_t worst, std::size_t width) {
  const RunFile runs = taken(read_run_records_file(path));
  Interruption interruption;
  ValidationOptions options;
  options.threads = threads;
  options.interrupted = interruption.polled();
  if (!calibration.empty()) options.calibration = taken(read_calibration_file(calibration));
  const Validation found = waited_for(interruption, [&] { return validate_runs(runs, options); });
  if (interruption.by_keyboard()) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
  }
  return {to_json(found), to_text(found, worst, width)};
}

std::pair<Texts, std::string> calibrated(const std::string& device, const std::string& engine,
                                         const std::vector<NameAndText>& records, const std::vector<NameAndText>& nccl_tests,
                                         int threads, std::size_t width) {
  CalibrationInputs inputs;
  inputs.device = device;
  inputs.engine = engine;
  inputs.records = named(records);
  inputs.nccl_tests = named(nccl_tests);
  inputs.threads = threads;
  const CalibrationResult found = taken(waited_for([&] { return fit_calibration(inputs); }));
  return {{to_json(found), to_text(found, width)}, found.yaml};
}

Texts log_compared(const JobHandle& job, const Plan& plan, const std::string& name, const std::string& log,
                   std::optional<std::int64_t> warm_up, std::size_t width) {
  const LogComparison found = taken(waited_for([&] { return compare_log(*job, plan, {name, log}, warm_up); }));
  return {to_json(found), to_text(found, width)};
}

Texts step_compared(const JobHandle& job, const Plan& plan, const std::string& name, const std::string& step, std::size_t width) {
  const MeasuredStep measured = taken(read_measured_step(step, name));
  const StepComparison found = taken(waited_for([&] { return compare_step(*job, plan, measured); }));
  return {to_json(found), to_text(found, width)};
}

/// Returns the record called `id`, or the first one.
Texts run_inspected(const std::string& path, const std::string& id, std::size_t width) {
  const RunFile runs = taken(read_run_records_file(path));
  for (const RunRecord& record : runs.records) {
    if (!id.empty() && record.id != id) continue;
    const RunMapping mapping = map_run(record);
    return {report::inspect_run_json(record, mapping), report::inspect_run(record, mapping, width)};
  }
  if (!runs.unreadable.empty()) throw Failure(runs.unreadable.front());
  throw Failure({ErrorKind::bad_input, path, "no record \"" + id + "\"", "the id of a record in the file", ""});
}

}  // namespace

void bind_measured(nb::module_& m) {
  m.def("validate", &validated, "path"_a, "calibration"_a = "", "threads"_a = 0, "worst"_a = 0, "width"_a = 0,
        doc::validate_validate_runs);
  m.def("calibrate", &calibrated, "device"_a, "engine"_a, "records"_a, "nccl_tests"_a, "threads"_a = 2, "width"_a = 0,
        doc::calibrate_file);
  m.def("compare_log", &log_compared, "job"_a, "plan"_a, "name"_a, "log"_a, "warm_up"_a = nb::none(), "width"_a = 0,
        doc::log_comparison_file);
  m.def("compare_step", &step_compared, "job"_a, "plan"_a, "name"_a, "step"_a, "width"_a = 0, doc::step_comparison_file);
  m.def("inspect_run", &run_inspected, "path"_a, "id"_a = "", "width"_a = 0, doc::inspect_inspect_run);
}

}  // namespace espalier::python
