// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_over_time.h"

#include "espalier/policy.h"

namespace espalier::cli {

int run_over_time(Context& context, const Job& job, const PlannerOptions& options, const OutputFlags& output) {
  adapt::OverTimeOptions how;
  how.change.threads = options.threads;
  how.change.interrupted = context.surroundings.interrupted;
  const auto answer = adapt::plan_over_time(job, how);
  if (!answer) return fail(context, answer.error());
  if (!output.folder.empty()) {
    const auto written = report::write_answer(output.folder, answer->start, "", plan_schema_of(context));
    if (!written) return fail(context, written.error());
  }
  print_either(
      context, [&] { return to_json(*answer); },
      [&] { return answer->start.plan.label() + ", if it is never changed\n" + to_text(*answer); });
  return context.interrupted() ? kInterrupted : kOk;
}

}  // namespace espalier::cli
