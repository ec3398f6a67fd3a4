// SPDX-License-Identifier: Apache-2.0
// What the files of the Python module share. The module espalier._native sits on the public headers alone
// (include/espalier): it turns their values into handles, NumPy columns and texts, and nothing else; what people import
// is python/espalier.
//
// Failure. An Error of the library is thrown as Failure and becomes an exception of espalier.errors, by its kind.
// Waiting. What takes long runs on a thread of its own while the caller's thread has given up Python's lock and looks
// for signals 20 times a second. So other Python threads run, and Ctrl-C (or whatever handler the program has set) is
// seen; searches then end with the best so far.
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

/// The value, or the Error thrown.
template <class T>
T taken(Result<T> result) {
  if (!result) throw Failure(result.error());
  return std::move(result).value();
}

/// A signal that Python's handler made an exception of, while something long ran.
class Interruption {
 public:
  /// To be polled by the library, from any thread.
  [[nodiscard]] std::function<bool()> polled() {
    return [this] { return asked_.load(); };
  }
  /// Whether Python raised KeyboardInterrupt. Any other exception of a signal handler is thrown on.
  [[nodiscard]] bool by_keyboard();
  /// With Python's lock: runs signal handlers, keeps the first exception.
  void look();

 private:
  std::atomic<bool> asked_{false};
  std::optional<nb::python_error> raised_;
};

/// What `work` returns; it must not touch Python. Called with Python's lock, which others have meanwhile.
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

/// The same where there is nothing to interrupt: KeyboardInterrupt comes when it is done.
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

/// A document of ours and the same for people.
struct Texts {
  std::string json, text;
};

/// A result, and the job whose devices and layers it speaks of.
struct Answer {
  std::shared_ptr<const Job> job;
  PlannerResult result;
};

/// The job under another network model; the same where none is named. "closed" or "flow".
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
