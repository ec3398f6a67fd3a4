// SPDX-License-Identifier: Apache-2.0
// Binds plans under change: what-if, survival, and replanning from an observation.
#include <map>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "docstrings.h"
#include "espalier/adapt.h"
#include "espalier/observation.h"
#include "espalier/text.h"

namespace espalier::python {
namespace {

using namespace nb::literals;
using JobHandle = std::shared_ptr<const Job>;

void bind_options(nb::module_& m) {
  nb::class_<adapt::MoveOptions>(m, "MoveOptions", doc::adapt_MoveOptions)
      .def(nb::init<>())
      .def_rw("restart_s", &adapt::MoveOptions::restart_s)
      .def_rw("warm_up_s", &adapt::MoveOptions::warm_up_s)
      .def_rw("storage_per_device", &adapt::MoveOptions::storage_per_device)
      .def_rw("checkpoint_age_s", &adapt::MoveOptions::checkpoint_age_s);
  nb::class_<adapt::ChangeOptions>(m, "ChangeOptions", "How actions are priced and searched for.")
      .def(nb::init<>())
      .def_rw("move", &adapt::ChangeOptions::move)
      .def_rw("threads", &adapt::ChangeOptions::threads)
      .def_rw("horizon_s", &adapt::ChangeOptions::horizon_s, doc::adapt_ChangeOptions_horizon_s);
}

/// Runs an action of the library. Raises KeyboardInterrupt if it was interrupted, since half an answer would look
/// like a whole one.
template <class Act>
auto acted(const adapt::ChangeOptions& given, Act act) {
  Interruption interruption;
  adapt::ChangeOptions options = given;
  options.interrupted = interruption.polled();
  auto answer = waited_for(interruption, [&] { return act(options); });
  if (interruption.by_keyboard()) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
  }
  return taken(std::move(answer));
}

/// Formats "rank:17": 1.2 like the library's flags, so that bounds and messages are those of the library.
std::vector<std::pair<std::string, double>> factors(const std::map<std::string, double>& given, const std::string& where,
                                                    double low, double high) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& [name, factor] : given) {
    if (!(factor >= low && factor <= high))
      throw Failure({ErrorKind::usage, where + " " + name, std::to_string(factor),
                     "a factor from " + std::to_string(low) + " to " + std::to_string(high), ""});
    out.emplace_back(name, factor);
  }
  return out;
}

Texts what_if_texts(const JobHandle& job, const Plan& plan, const std::vector<std::string>& lost,
                    const std::map<std::string, double>& slow, const std::map<std::string, double>& links,
                    const std::map<std::string, std::int64_t>& added, const adapt::ChangeOptions& options, std::size_t width) {
  adapt::Disturbance what;
  what.lost = lost;
  what.slow = factors(slow, "slow", 1, 1e6);
  what.links = factors(links, "links", 1e-9, 1);
  what.added.assign(added.begin(), added.end());
  if (what.empty())
    throw Failure({ErrorKind::usage, "what_if", "no change", "lost, slow, links or added", "what_if(plan, lost=[\"node:3\"])"});
  const adapt::WhatIf answer = acted(options, [&](const adapt::ChangeOptions& o) { return adapt::what_if(*job, plan, what, o); });
  return {to_json(answer, plan), report::lay_out(to_text(answer), width)};
}

Texts survive_texts(const JobHandle& job, const Plan& plan, std::int64_t most, const adapt::ChangeOptions& options,
                    std::size_t width) {
  const adapt::Survival answer =
      acted(options, [&](const adapt::ChangeOptions& o) { return adapt::survive(*job, plan, most, o); });
  return {to_json(answer, plan), report::lay_out(to_text(answer), width)};
}

Texts replan_texts(const JobHandle& job, const Plan& plan, const std::string& observation, const std::string& where,
                   const adapt::ChangeOptions& options, std::size_t width) {
  const adapt::Observation seen = taken(adapt::load_observation(observation, where));
  const adapt::Replan answer = acted(options, [&](const adapt::ChangeOptions& o) { return adapt::replan(*job, plan, seen, o); });
  return {to_json(answer, plan), report::lay_out(to_text(answer), width)};
}

/// Returns the plan's own job, with the search space that the answer was requested for.
JobHandle running_job(const Plan& plan, const Answer* answer) {
  auto job = std::make_shared<Job>(taken(job_of_plan(plan)));
  if (answer != nullptr && searched(answer->result.search.reason)) job->search = answer->result.search.asked.space;
  return job;
}

}  // namespace

void bind_change(nb::module_& m) {
  bind_options(m);
  m.def("running_job", &running_job, "plan"_a, "answer"_a.none() = nb::none(),
        "The plan's own job, with the space that its search was asked for.");
  m.def("what_if", &what_if_texts, "job"_a, "plan"_a, "lost"_a, "slow"_a, "links"_a, "added"_a, "options"_a, "width"_a = 0,
        doc::adapt_file);
  m.def("survive", &survive_texts, "job"_a, "plan"_a, "most"_a, "options"_a, "width"_a = 0, doc::adapt_survive);
  m.def("replan", &replan_texts, "job"_a, "plan"_a, "observation"_a, "where"_a, "options"_a, "width"_a = 0,
        doc::observation_file);
}

}  // namespace espalier::python
