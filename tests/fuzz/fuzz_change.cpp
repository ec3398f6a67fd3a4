// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of answers of what-if, replan and --survive with any bytes. It must reject them with a helpful
// error, and is_answer_to_change must agree with it.
#include "espalier/check.h"
#include "fuzz_expect.h"
#include "report/change_claims.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string_view text = fuzz::text_of(data, size);
  const auto claimed = report::read_claims(text, "answer.json");
  if (!claimed.ok()) {
    fuzz::expect(!claimed.error().where.empty() && !claimed.error().found.empty(), "a refusal says where and what",
                 claimed.error().message());
    return 0;
  }
  fuzz::expect(report::is_answer_to_change(text), "what is read is an answer to a change");
  fuzz::expect(!claimed->running.pipelines.empty(), "it names the plan that runs");
  for (const report::ClaimedChange& change : claimed->changes)
    for (const std::int64_t node : change.nodes) fuzz::expect(node >= 0, "nodes are numbered from 0");
  return 0;
}
