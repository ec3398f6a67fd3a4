// SPDX-License-Identifier: Apache-2.0
// plan_from_json on any bytes: what it accepts is validated, written and read back to an equal plan with the same text; then the
// job embedded in the plan is read.
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
  if (validate(*plan)) return 0;
  const auto job = job_of_plan(*plan);
  if (!job.ok()) fuzz::expect(!job.error().message().empty(), "a refused job says why");
  return 0;
}
