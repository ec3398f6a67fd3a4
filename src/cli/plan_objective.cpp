// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_objective.h"

#include "base/format.h"
#include "espalier/documents.h"
#include "espalier/objective.h"

namespace espalier::cli {

int run_objective(Context& context, const Job& job, const PlannerOptions& options, const OutputFlags& output) {
  const auto answer = adapt::plan_for_objective(job, options);
  if (!answer) return fail(context, answer.error());
  if (!output.folder.empty()) {
    const auto written = report::write_answer(output.folder, *answer->answer, "", plan_schema_of(context));
    if (!written) return fail(context, written.error());
  }
  // The sizes are at most that of the cluster; a larger one would be another question.
  const adapt::SizeAnswer* fewest = nullptr;
  for (const adapt::SizeAnswer& size : answer->sizes)
    if (size.within && (fewest == nullptr || size.devices < fewest->devices)) fewest = &size;
  if (fewest != nullptr && !context.json)
    note(context, base::cat("fewest devices within budget and deadline: ", fewest->devices,
                            fewest->days ? base::cat(", ", base::fixed(*fewest->days, 1), " days") : "", "; searched up to ",
                            job.cluster.devices(), ": --set cluster.nodes=N raises this limit"));
  print_either(
      context, [&] { return to_json(*answer); }, [&] { return to_text(*answer) + "\n" + answer_text(context, *answer->answer); });
  return context.interrupted() ? kInterrupted : kOk;
}

}  // namespace espalier::cli
