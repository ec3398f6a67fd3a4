// SPDX-License-Identifier: Apache-2.0
// Binds plan, estimate, simulate, and the answers of plan to jobs with an objective, token buckets or
// a changing cluster.
#include <exception>
#include <mutex>

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "docstrings.h"
#include "espalier/configuration.h"
#include "espalier/long_run.h"
#include "espalier/objective.h"
#include "espalier/policy.h"

namespace espalier::python {
namespace {

using namespace nb::literals;
using JobHandle = std::shared_ptr<const Job>;

/// Wraps the caller's progress function. An exception of it ends the search and is rethrown after the search ended.
class Listener {
 public:
  Listener(nb::object function, Interruption& interruption) : function_(std::move(function)), interruption_(interruption) {}
  [[nodiscard]] std::function<void(const std::string&)> heard() {
    if (function_.is_none()) return {};
    return [this](const std::string& line) {
      nb::gil_scoped_acquire locked;
      if (raised_) return;
      try {
        function_(line);
      } catch (nb::python_error& error) {
        raised_.emplace(std::move(error));
        failed_ = true;
      }
    };
  }
  [[nodiscard]] std::function<bool()> stopped() {
    return [this, interrupted = interruption_.polled()] { return failed_.load() || interrupted(); };
  }
  void rethrow() {
    if (raised_) throw std::move(*raised_);
  }

 private:
  nb::object function_;
  Interruption& interruption_;
  std::optional<nb::python_error> raised_;
  std::atomic<bool> failed_{false};
};

/// Binds the members of PlannerOptions that are plain values.
void bind_options(nb::module_& m) {
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
      .def_rw("keep_searched", &PlannerOptions::keep_searched, doc::planner_PlannerOptions_keep_searched);
}

/// Holds the value of a search and whether it was interrupted; the value is null if the search had none yet.
template <class Value>
using Ended = std::pair<std::optional<Value>, bool>;

/// Runs a search of the library with the caller's options, interruptible. `search(options)` returns a Result;
/// `kept(value)` converts it for Python.
template <class Search, class Keep>
auto search_with(const PlannerOptions& given, nb::object progress, Search search, Keep kept)
    -> Ended<decltype(kept(search(given).value()))> {
  Interruption interruption;
  Listener listener(std::move(progress), interruption);
  PlannerOptions options = given;
  options.interrupted = listener.stopped();
  options.progress = listener.heard();
  auto found = waited_for(interruption, [&] { return search(options); });
  listener.rethrow();
  const bool interrupted = interruption.by_keyboard();
  if (!found && interrupted) return {std::nullopt, true};
  return {kept(taken(std::move(found))), interrupted};
}

Ended<Answer> plan_job(const JobHandle& job, const PlannerOptions& options, nb::object progress) {
  return search_with(
      options, std::move(progress), [&](const PlannerOptions& o) { return plan(*job, o); },
      [&](PlannerResult result) {
        return Answer{job, std::move(result)};
      });
}

using WithTexts = std::pair<Texts, Answer>;

Ended<WithTexts> plan_objective(const JobHandle& job, const PlannerOptions& options, nb::object progress) {
  return search_with(
      options, std::move(progress), [&](const PlannerOptions& o) { return plan_for_objective(*job, o); },
      [&](ObjectiveAnswer found) {
        Texts texts{to_json(found), to_text(found) + "\n" + found.answer->brief()};
        return WithTexts{std::move(texts), Answer{job, std::move(*found.answer)}};
      });
}

Ended<WithTexts> plan_long_run(const JobHandle& job, const PlannerOptions& options, nb::object progress) {
  return search_with(
      options, std::move(progress), [&](const PlannerOptions& o) { return plan_for_long_run(*job, o); },
      [&](LongRunAnswer found) {
        Texts texts{to_json(found), to_text(found) + "\n" + found.answer.brief()};
        return WithTexts{std::move(texts), Answer{job, std::move(found.answer)}};
      });
}

Ended<WithTexts> plan_trace(const JobHandle& job, const PlannerOptions& options, nb::object progress) {
  return search_with(
      options, std::move(progress),
      [&](const PlannerOptions& o) {
        OverTimeOptions how;
        how.change.threads = o.threads;
        how.change.interrupted = o.interrupted;
        return plan_over_time(*job, how);
      },
      [&](OverTime found) {
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

}  // namespace

void bind_planning(nb::module_& m) {
  bind_options(m);
  bind_words(m);
  const auto none = nb::none();
  m.def("under_network", &under_network, "job"_a, "network"_a, "The job under another network model: \"closed\" or \"flow\".");
  m.def("plan", &plan_job, "job"_a, "options"_a, "progress"_a = none, doc::planner_plan);
  m.def("plan_for_objective", &plan_objective, "job"_a, "options"_a, "progress"_a = none, doc::objective_plan_for_objective);
  m.def("plan_for_long_run", &plan_long_run, "job"_a, "options"_a, "progress"_a = none, doc::long_run_file);
  m.def("plan_over_time", &plan_trace, "job"_a, "options"_a, "progress"_a = none, doc::policy_file);
  m.def("estimate", &estimate_words, "job"_a, "words"_a, "network"_a = "", doc::planner_estimate);
  m.def("simulate", &simulate_plan, "job"_a, "plan"_a, "network"_a = "", doc::planner_simulate);
  m.def("block_timeline", &partitioned_block, "job"_a, "plan"_a, doc::planner_block_timeline);
}

}  // namespace espalier::python
