// SPDX-License-Identifier: Apache-2.0
// Fuzzes result_from_json with any bytes; an accepted result is written and reads back unchanged.
#include "espalier/planner.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto result = result_from_json(fuzz::text_of(data, size), "result.json");
  if (!result.ok()) {
    fuzz::expect_helpful(result.error());
    return 0;
  }
  const std::string text = to_json(*result, true);
  const auto again = result_from_json(text, "again.json");
  fuzz::expect(again.ok(), "a written result reads back", text);
  fuzz::expect(to_json(*again, true) == text, "and is written the same", text);
  (void)result->brief();
  return 0;
}
