// SPDX-License-Identifier: Apache-2.0
// Declares what the files of the Python module share. The module espalier._native is built on the public
// headers alone (include/espalier). It only turns their values into handles, NumPy columns and texts;
// users import python/espalier.
//
// Failure. An Error of the library is thrown as Failure and becomes an exception of espalier.errors, by its kind.
//
// Waiting. Long work runs on its own thread. The caller's thread releases the GIL and checks for signals 20 times a
// second. So other Python threads run, and Ctrl-C (or the handler that the program set) takes effect. Searches then
// end with the best answer so far.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <nanobind/nanobind.h>

#include "espalier/job.h"
#include "espalier/planner.h"
#include "espalier/result.h"

namespace espalier::python {

namespace nb = nanobind;

struct Failure : std::exception {
  explicit Failure(Error e) : error(std::move(e)), text(error.message()) {}
  [[nodiscard]] const char* what() const noexcept override { return text.c_str(); }
  Error error;
  std::string text;
};

/// Returns the value or throws the Error.
template <class T>
T taken(Result<T> result) {
  if (!result) throw Failure(result.error());
  return std::move(result).value();
}

/// Holds the exception that Python's signal handler raised during long work.
class Interruption {
 public:
  /// Returns a callback that the library polls, from any thread.
  [[nodiscard]] std::function<bool()> polled() {
    return [this] { return asked_.load(); };
  }
  /// Returns true if Python raised KeyboardInterrupt. Rethrows any other exception of a signal handler.
  [[nodiscard]] bool by_keyboard();
  /// Runs signal handlers and keeps the first exception; needs the GIL.
  void look();

 private:
  std::atomic<bool> asked_{false};
  std::optional<nb::python_error> raised_;
};

/// Returns the result of `work`, which must not touch Python. Called with the GIL, which is released meanwhile.
template <class Work>
auto waited_for(Interruption& interruption, Work work) {
  using Value = std::invoke_result_t<Work>;
  constexpr auto kLook = std::chrono::milliseconds(50);
  std::packaged_task<Value()> task(std::move(work));
  std::future<Value> done = task.get_future();
  nb::gil_scoped_release others_run;
  std::thread worker(std::move(task));
  while (done.wait_for(kLook) != std::future_status::ready) {
    nb::gil_scoped_acquire locked;
    interruption.look();
  }
  worker.join();
  return done.get();
}

/// Waits for work that cannot be interrupted: KeyboardInterrupt is raised when it is done.
template <class Work>
auto waited_for(Work work) {
  Interruption interruption;
  auto value = waited_for(interruption, std::move(work));
  if (interruption.by_keyboard()) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw nb::python_error();
  }
  return value;
}

/// Holds a document as JSON and as readable text.
struct Texts {
  std::string json, text;
};

/// Holds a result and the job that its devices and layers belong to.
struct Answer {
  std::shared_ptr<const Job> job;
  PlannerResult result;
};

/// Returns the job under another network model, "closed" or "flow"; returns the same job if `network` is empty.
std::shared_ptr<const Job> under_network(const std::shared_ptr<const Job>& job, const std::string& network);

void bind_errors(nb::module_& m);
void bind_jobs(nb::module_& m);
void bind_plans(nb::module_& m);
void bind_planning(nb::module_& m);
void bind_timeline(nb::module_& m);
void bind_answers(nb::module_& m);
void bind_measured(nb::module_& m);
void bind_change(nb::module_& m);
void bind_formats(nb::module_& m);

}  // namespace espalier::python
