// SPDX-License-Identifier: Apache-2.0
// Fuzzes plan_from_json with any bytes. An accepted plan is validated, written and read back to an equal plan with
// the same text. This includes version 1 where it can express the plan. Then the job embedded in the plan is read. A
// part that has no price must be rejected by name at this point, not later.
#include "espalier/plan.h"
#include "espalier/planner.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto plan = plan_from_json(fuzz::text_of(data, size), "plan.json");
  if (!plan.ok()) {
    fuzz::expect_helpful(plan.error());
    return 0;
  }
  const std::string text = to_json(*plan);
  const auto again = plan_from_json(text, "again.json");
  fuzz::expect(again.ok(), "a written plan reads back", text);
  fuzz::expect(*again == *plan, "and is equal", text);
  fuzz::expect(to_json(*again) == text, "and is written the same", text);
  fuzz::expect(content_hash(*again) == content_hash(*plan), "and has the same hash", text);
  if (unwritable(*plan, PlanSchema::one).ok()) {
    const auto one = plan_from_json(to_json(*plan, PlanSchema::one), "one.json");
    fuzz::expect(one.ok() && *one == *plan, "version 1 reads back equal", text);
  }
  if (!validate(*plan).ok()) return 0;
  if (const Status status = unsupported(*plan); !status.ok()) {
    fuzz::expect_helpful(status.error());
    return 0;
  }
  fuzz::expect(plan->pipelines.size() == 1, "what has a price is one pipeline", text);
  const auto job = job_of_plan(*plan);
  if (!job.ok()) fuzz::expect(!job.error().message().empty(), "a refused job says why");
  return 0;
}
