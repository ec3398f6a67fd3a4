// SPDX-License-Identifier: Apache-2.0
// Binds plan, estimate, simulate, and the answers of plan to jobs with an objective, token buckets or
// a changing cluster.
#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "docstrings.h"
#include "espalier/configuration.h"
#include "espalier/long_run.h"
#include "espalier/objective.h"
#include "espalier/policy.h"
#include "espalier/sweep.h"

namespace espalier::python {
namespace {

using namespace nb::literals;
using JobHandle = std::shared_ptr<const Job>;

/// Holds the caller's functions, each None or a callable.
struct Functions {
  nb::object progress;  ///< receives a line
  nb::object observer;  ///< receives a SearchState
};

/// Wraps the caller's functions. An exception of one ends the search and is rethrown after the search ended.
class Listener {
 public:
  Listener(Functions functions, Interruption& interruption) : functions_(std::move(functions)), interruption_(interruption) {}
  void listen(PlannerOptions& options) {
    options.interrupted = [this, interrupted = interruption_.polled()] { return failed_.load() || interrupted(); };
    if (!functions_.progress.is_none()) options.progress = [this](const std::string& line) { call(functions_.progress, line); };
    if (!functions_.observer.is_none()) options.observer = [this](const SearchState& s) { call(functions_.observer, s); };
  }
  void rethrow() {
    if (raised_) throw std::move(*raised_);
  }

 private:
  template <class Value>
  void call(const nb::object& function, const Value& value) {
    nb::gil_scoped_acquire locked;
    if (raised_) return;
    try {
      function(value);
    } catch (nb::python_error& error) {
      raised_.emplace(std::move(error));
      failed_ = true;
    }
  }

  Functions functions_;
  Interruption& interruption_;
  std::optional<nb::python_error> raised_;
  std::atomic<bool> failed_{false};
};

/// Binds the members of PlannerOptions that are plain values.
void bind_planner_options(nb::module_& m) {
  nb::class_<PlannerOptions>(m, "PlannerOptions", "How plan() searches.")
      .def(nb::init<>())
      .def_rw("threads", &PlannerOptions::threads, doc::planner_PlannerOptions_threads)
      .def_rw("node_limit", &PlannerOptions::node_limit, doc::planner_PlannerOptions_node_limit)
      .def_rw("time_limit_s", &PlannerOptions::time_limit_s, doc::planner_PlannerOptions_time_limit_s)
      .def_rw("disabled_rules", &PlannerOptions::disabled_rules, doc::planner_PlannerOptions_disabled_rules)
      .def_rw("left_out_phases", &PlannerOptions::left_out_phases, doc::planner_PlannerOptions_left_out_phases)
      .def_rw("exhaustive", &PlannerOptions::exhaustive, doc::planner_PlannerOptions_exhaustive)
      .def_rw("alternatives", &PlannerOptions::alternatives)
      .def_rw("simple_within", &PlannerOptions::simple_within, doc::planner_PlannerOptions_simple_within)
      .def_rw("simple", &PlannerOptions::simple, doc::planner_PlannerOptions_simple)
      .def_rw("engines", &PlannerOptions::engines, doc::planner_PlannerOptions_engines)
      .def_rw("restriction", &PlannerOptions::restriction, doc::planner_PlannerOptions_restriction)
      .def_rw("engine_options", &PlannerOptions::engine_options, doc::planner_PlannerOptions_engine_options)
      .def_rw("keep_searched", &PlannerOptions::keep_searched, doc::planner_PlannerOptions_keep_searched);
}

/// Holds the value of a search and whether it was interrupted; the value is null if the search had none yet.
template <class Value>
using Ended = std::pair<std::optional<Value>, bool>;

/// Runs a search of the library with the caller's options, interruptible. `search(options)` returns a Result;
/// `kept(value)` converts it for Python.
template <class Search, class Keep>
auto search_with(const PlannerOptions& given, Functions functions, Search search, Keep kept)
    -> Ended<decltype(kept(search(given).value()))> {
  Interruption interruption;
  Listener listener(std::move(functions), interruption);
  PlannerOptions options = given;
  listener.listen(options);
  auto found = waited_for(interruption, [&] { return search(options); });
  listener.rethrow();
  const bool interrupted = interruption.by_keyboard();
  if (!found && interrupted) return {std::nullopt, true};
  return {kept(taken(std::move(found))), interrupted};
}

Ended<Answer> plan_job(const JobHandle& job, const PlannerOptions& options, nb::object progress, nb::object observer) {
  return search_with(
      options, {std::move(progress), std::move(observer)}, [&](const PlannerOptions& o) { return plan(*job, o); },
      [&](PlannerResult result) {
        return Answer{job, std::move(result)};
      });
}

using WithTexts = std::pair<Texts, Answer>;

Ended<WithTexts> plan_objective(const JobHandle& job, const PlannerOptions& options, nb::object progress) {
  return search_with(
      options, {std::move(progress), nb::none()}, [&](const PlannerOptions& o) { return adapt::plan_for_objective(*job, o); },
      [&](adapt::ObjectiveAnswer found) {
        Texts texts{to_json(found), to_text(found) + "\n" + found.answer->brief()};
        return WithTexts{std::move(texts), Answer{job, std::move(*found.answer)}};
      });
}

Ended<WithTexts> plan_long_run(const JobHandle& job, const PlannerOptions& options, nb::object progress) {
  return search_with(
      options, {std::move(progress), nb::none()}, [&](const PlannerOptions& o) { return adapt::plan_for_long_run(*job, o); },
      [&](adapt::LongRunAnswer found) {
        Texts texts{to_json(found), to_text(found) + "\n" + found.answer.brief()};
        return WithTexts{std::move(texts), Answer{job, std::move(found.answer)}};
      });
}

Ended<WithTexts> plan_trace(const JobHandle& job, const PlannerOptions& options, nb::object progress) {
  return search_with(
      options, {std::move(progress), nb::none()},
      [&](const PlannerOptions& o) {
        adapt::OverTimeOptions how;
        how.change.threads = o.threads;
        how.change.interrupted = o.interrupted;
        return adapt::plan_over_time(*job, how);
      },
      [&](adapt::OverTime found) {
        Texts texts{to_json(found), found.start.plan.label() + ", if it is never changed\n" + to_text(found)};
        return WithTexts{std::move(texts), Answer{job, std::move(found.start)}};
      });
}

Answer estimate_words(const JobHandle& given, const ConfigurationWords& words, const std::string& network) {
  const CompleteConfiguration c = taken(read_configuration(words, *given));
  const JobHandle job = under_network(given, network);
  return {job, taken(waited_for([&] { return estimate(*job, c.strategy, c.schedule); }))};
}

Answer simulate_plan(const JobHandle& given, const Plan& plan, const std::string& network) {
  const JobHandle job = under_network(given, network);
  return {job, taken(waited_for([&] { return simulate(*job, plan); }))};
}

std::string partitioned_block(const JobHandle& job, const Plan& plan) {
  return taken(waited_for([&] { return block_timeline(*job, plan); }));
}

void bind_words(nb::module_& m) {
  nb::class_<ConfigurationWords>(m, "ConfigurationWords", doc::configuration_ConfigurationWords)
      .def(nb::init<>())
      .def_rw("tp", &ConfigurationWords::tp)
      .def_rw("cp", &ConfigurationWords::cp)
      .def_rw("ep", &ConfigurationWords::ep)
      .def_rw("etp", &ConfigurationWords::etp)
      .def_rw("pp", &ConfigurationWords::pp)
      .def_rw("vpp", &ConfigurationWords::vpp)
      .def_rw("dp", &ConfigurationWords::dp)
      .def_rw("shard", &ConfigurationWords::shard)
      .def_rw("zero", &ConfigurationWords::zero)
      .def_rw("micro_batch", &ConfigurationWords::micro_batch)
      .def_rw("recompute_layers", &ConfigurationWords::recompute_layers)
      .def_rw("sp", &ConfigurationWords::sp)
      .def_rw("cp_kind", &ConfigurationWords::cp_kind)
      .def_rw("recompute", &ConfigurationWords::recompute)
      .def_rw("schedule", &ConfigurationWords::schedule)
      .def_rw("order", &ConfigurationWords::order)
      .def_rw("offload", &ConfigurationWords::offload)
      .def_rw("overlap", &ConfigurationWords::overlap)
      .def_rw("partition", &ConfigurationWords::partition);
}

void bind_state(nb::module_& m) {
  nb::class_<SearchState>(m, "SearchState", doc::planner_SearchState)
      .def_ro("phase", &SearchState::phase)
      .def_ro("best_ns", &SearchState::best_ns)
      .def_ro("lower_bound_ns", &SearchState::lower_bound_ns)
      .def_ro("done", &SearchState::done)
      .def_ro("total", &SearchState::total);
}

// ---- sweeps ---------------------------------------------------------------------------------------------------------

using Axis = std::pair<std::string, std::vector<std::string>>;
/// Holds the parts of an Error: kind, where, found, expected, hint.
using ErrorParts = std::tuple<std::string, std::string, std::string, std::string, std::string>;
/// Holds one point of a sweep: its values, and an answer or an error.
using Point = std::tuple<std::vector<std::string>, std::optional<const Answer*>, std::optional<ErrorParts>>;

Error error_of(const ErrorParts& parts) {
  const auto& [kind, where, found, expected, hint] = parts;
  constexpr std::array kKinds = {ErrorKind::bad_input, ErrorKind::infeasible, ErrorKind::limit};
  constexpr std::array kNames = {"bad_input", "infeasible", "limit"};
  ErrorKind is = ErrorKind::internal;
  for (std::size_t i = 0; i < kKinds.size(); ++i)
    if (kind == kNames[i]) is = kKinds[i];
  return {is, where, found, expected, hint};
}

report::Sweep sweep_of(const std::vector<Axis>& axes, const std::vector<Point>& points) {
  report::Sweep out;
  for (const auto& [path, values] : axes) out.axes.push_back({path, values});
  for (const auto& [values, answer, error] : points) {
    if (answer)
      out.points.push_back({values, (*answer)->result});
    else
      out.points.push_back({values, error_of(error.value_or(ErrorParts{}))});
  }
  return out;
}

std::pair<Texts, std::string> swept(const std::vector<Axis>& axes, const std::vector<Point>& points, std::size_t width) {
  const report::Sweep sweep = sweep_of(axes, points);
  return {{to_json(sweep), to_text(sweep, width)}, to_csv(sweep)};
}

}  // namespace

void bind_planning(nb::module_& m) {
  bind_planner_options(m);
  bind_state(m);
  bind_words(m);
  const auto none = nb::none();
  m.def("under_network", &under_network, "job"_a, "network"_a, "The job under another network model: \"closed\" or \"flow\".");
  m.def("plan", &plan_job, "job"_a, "options"_a, "progress"_a = none, "observer"_a = none, doc::planner_plan);
  m.def("plan_for_objective", &plan_objective, "job"_a, "options"_a, "progress"_a = none, doc::objective_plan_for_objective);
  m.def("plan_for_long_run", &plan_long_run, "job"_a, "options"_a, "progress"_a = none, doc::long_run_file);
  m.def("plan_over_time", &plan_trace, "job"_a, "options"_a, "progress"_a = none, doc::policy_file);
  m.def("estimate", &estimate_words, "job"_a, "words"_a, "network"_a = "", doc::planner_estimate);
  m.def("simulate", &simulate_plan, "job"_a, "plan"_a, "network"_a = "", doc::planner_simulate);
  m.def("sweep", &swept, "axes"_a, "points"_a, "width"_a = 0, doc::sweep_file);
  m.def("block_timeline", &partitioned_block, "job"_a, "plan"_a, doc::planner_block_timeline);
}

}  // namespace espalier::python
