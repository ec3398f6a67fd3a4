// SPDX-License-Identifier: Apache-2.0
// read_run_records on any bytes (JSON lines).
#include "fuzz_expect.h"
#include "planner/run_record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto records = read_run_records(fuzz::text_of(data, size), "runs.jsonl");
  if (!records.ok()) fuzz::expect_helpful(records.error());
  return 0;
}
