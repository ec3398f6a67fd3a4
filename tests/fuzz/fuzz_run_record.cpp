// SPDX-License-Identifier: Apache-2.0
// Fuzzes read_run_records with any bytes (JSON lines), and the mapping of the records to a configuration.
#include "fuzz_expect.h"
#include "runs/mapping.h"
#include "runs/network_cases.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  if (const auto rates = runs::read_network_case(fuzz::text_of(data, size), "matrix.json", 1); !rates.ok())
    fuzz::expect_helpful(rates.error());
  const auto records = read_run_records(fuzz::text_of(data, size), "runs.jsonl");
  if (!records.ok()) {
    fuzz::expect_helpful(records.error());
    return 0;
  }
  for (const Error& line : records->unreadable) fuzz::expect_helpful(line);
  // Each record is mapped, or skipped with a reason; its words are as hostile as its bytes.
  for (RunRecord record : records->records) {
    record.model.config.clear();            // names a file
    record.mixture.network.matrix.clear();  // names one as well
    const RunMapping mapping = runs::map_run(record, job::run_defaults());
    const auto* skip = std::get_if<RunSkip>(&mapping);
    fuzz::expect(skip == nullptr || !skip->reason.empty(), "a skipped record says why");
  }
  return 0;
}
