// SPDX-License-Identifier: Apache-2.0
// Binds jobs, and the interpretation of the files that they are made of.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "docstrings.h"
#include "espalier/inspect.h"

namespace espalier::python {
namespace {

using namespace nb::literals;
using JobHandle = std::shared_ptr<const Job>;

/// Returns the name of the library function that answers the job, as the command `plan` chooses it.
std::string question_of(const Job& job) {
  if (job.objective) return "objective";
  if (job.with_buckets && !job.cluster.changes()) return "long-run";
  return job.cluster.changes() ? "over-time" : "plan";
}

JobHandle shared(Result<Job> job) { return std::make_shared<const Job>(taken(std::move(job))); }

Texts inspected(const Model& model, std::size_t width) {
  return {report::inspect_model_json(model), report::inspect_model(model, width)};
}
Texts inspected(const Cluster& cluster, std::size_t width) {
  return {report::inspect_cluster_json(cluster), report::inspect_cluster(cluster, width)};
}

}  // namespace

void bind_jobs(nb::module_& m) {
  nb::class_<Texts>(m, "Texts", "A JSON document, and the same for people.")
      .def_ro("json", &Texts::json)
      .def_ro("text", &Texts::text);

  nb::class_<Job>(m, "Job", doc::job_file)
      .def_ro("engine", &Job::engine)
      .def_ro("notes", &Job::notes, "What every command says of the inputs.")
      .def_prop_ro("question", &question_of, "What plan() answers: \"plan\", \"objective\", \"long-run\" or \"over-time\".")
      .def_prop_ro("model_name", [](const Job& job) { return job.model.name; })
      .def_prop_ro("parameters", [](const Job& job) { return parameter_count(job.model); })
      .def_prop_ro("devices", [](const Job& job) { return job.cluster.devices(); })
      .def(
          "inspect_model", [](const Job& job, std::size_t width) { return inspected(job.model, width); }, "width"_a = 0,
          doc::inspect_file)
      .def(
          "inspect_cluster", [](const Job& job, std::size_t width) { return inspected(job.cluster, width); }, "width"_a = 0,
          doc::inspect_file);

  m.def(
      "load_job_file",
      [](const std::string& path, const std::vector<std::string>& overrides) { return shared(load_job_file(path, overrides)); },
      "path"_a, "overrides"_a = std::vector<std::string>(), doc::job_load_job_file);
  m.def(
      "load_job",
      [](const std::string& text, const std::string& where, const std::string& base_directory,
         const std::vector<std::string>& overrides) { return shared(load_job(text, where, base_directory, overrides)); },
      "text"_a, "where"_a, "base_directory"_a, "overrides"_a = std::vector<std::string>(), doc::job_load_job);
  m.def(
      "inspect_model_file",
      [](const std::string& path, std::size_t width) { return inspected(taken(load_model_file(path)), width); }, "path"_a,
      "width"_a = 0, doc::inspect_file);
  m.def(
      "inspect_model_text",
      [](const std::string& text, const std::string& where, std::size_t width) {
        return inspected(taken(load_model(text, where)), width);
      },
      "text"_a, "where"_a, "width"_a = 0, doc::inspect_file);
  m.def(
      "inspect_cluster_file",
      [](const std::string& path, std::size_t width) { return inspected(taken(load_cluster_file(path)), width); }, "path"_a,
      "width"_a = 0, doc::inspect_file);
  m.def(
      "inspect_cluster_text",
      [](const std::string& text, const std::string& where, std::size_t width) {
        return inspected(taken(load_cluster(text, where, ".")), width);
      },
      "text"_a, "where"_a, "width"_a = 0, doc::inspect_file);
}

}  // namespace espalier::python
