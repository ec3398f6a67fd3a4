// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include <nanobind/stl/string.h>

#include "bindings.h"

namespace espalier::python {
namespace {

const char* name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::internal: return "InternalError";
    case ErrorKind::usage: return "UsageError";
    case ErrorKind::bad_input: return "InputError";
    case ErrorKind::infeasible: return "InfeasibleError";
    case ErrorKind::check_failed: return "CheckError";
    case ErrorKind::limit: return "LimitError";
  }
  return "InternalError";
}

void raise(const Error& error) {
  const nb::object kind = nb::module_::import_("espalier.errors").attr(name_of(error.kind));
  const nb::object exception = kind(error.where, error.found, error.expected, error.hint);
  PyErr_SetObject(kind.ptr(), exception.ptr());
}

}  // namespace

bool Interruption::by_keyboard() {
  if (!raised_) return false;
  if (raised_->matches(PyExc_KeyboardInterrupt)) return true;
  throw std::move(*raised_);
}

void Interruption::look() {
  if (PyErr_CheckSignals() == 0) return;
  nb::python_error now;  // takes the exception that is set
  if (!raised_) raised_.emplace(std::move(now));
  asked_ = true;
}

std::shared_ptr<const Job> under_network(const std::shared_ptr<const Job>& job, const std::string& network) {
  if (network.empty()) return job;
  if (network != "closed" && network != "flow")
    throw Failure({ErrorKind::usage, "network", "\"" + network + "\"", "\"closed\" or \"flow\"", ""});
  auto other = std::make_shared<Job>(*job);
  other->network = network == "flow" ? NetworkKind::flow : NetworkKind::closed;
  return other;
}

void bind_errors(nb::module_& m) {
  (void)m;
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Failure& failure) {
          raise(failure.error);
        } catch (const std::logic_error& bug) {  // a check inside the library failed
          raise({ErrorKind::internal, "", bug.what(), "", "this is a bug of espalier"});
        }
      },
      nullptr);
}

}  // namespace espalier::python

NB_MODULE(_native, m) {
  using namespace espalier::python;
  m.doc() = "What espalier is made of: handles of the C++ library. Import espalier instead.";
  bind_errors(m);
  bind_jobs(m);
  bind_plans(m);
  bind_planning(m);
  bind_timeline(m);
  bind_answers(m);
  bind_measured(m);
  bind_change(m);
  bind_formats(m);
}
