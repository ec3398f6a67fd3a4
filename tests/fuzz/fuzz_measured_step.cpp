// SPDX-License-Identifier: Apache-2.0
// Fuzzes read_measured_step with any bytes: an accepted input is written and read back unchanged.
#include "espalier/measured_step.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto step = read_measured_step(std::string(fuzz::text_of(data, size)), "step.json");
  if (!step.ok()) {
    fuzz::expect_helpful(step.error());
    return 0;
  }
  const auto again = read_measured_step(to_json(*step), "again.json");
  fuzz::expect(again.ok() && *again == *step, "a step that was read is written as it is");
  return 0;
}
