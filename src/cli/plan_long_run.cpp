// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_long_run.h"

#include "espalier/documents.h"
#include "espalier/long_run.h"

namespace espalier::cli {

int run_long_run(Context& context, const Job& job, const PlannerOptions& options, const OutputFlags& output) {
  const auto answer = adapt::plan_for_long_run(job, options);
  if (!answer) return fail(context, answer.error());
  if (!output.folder.empty()) {
    const auto written = report::write_answer(output.folder, answer->answer, "", plan_schema_of(context));
    if (!written) return fail(context, written.error());
  }
  print_either(
      context, [&] { return to_json(*answer); }, [&] { return to_text(*answer) + "\n" + answer_text(context, answer->answer); });
  return context.interrupted() ? kInterrupted : kOk;
}

}  // namespace espalier::cli
