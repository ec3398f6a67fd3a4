// SPDX-License-Identifier: Apache-2.0
// Fuzzes read_calibration with any bytes; an accepted input reads back from the canonical text that plans embed.
#include "fuzz_expect.h"
#include "job/calibration_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto calibration = read_calibration(fuzz::text_of(data, size), "calibration.yaml");
  if (!calibration.ok()) {
    fuzz::expect_helpful(calibration.error());
    return 0;
  }
  const auto again = read_calibration((*calibration)->source, "plan");
  fuzz::expect(again.ok() && (*again)->hash == (*calibration)->hash, "the embedded form is the same calibration");
  return 0;
}
