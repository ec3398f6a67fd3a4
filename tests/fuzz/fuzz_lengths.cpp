// SPDX-License-Identifier: Apache-2.0
// Fuzzes a table of sequence lengths (training.lengths of a job) with any bytes. It is rejected with a helpful error,
// or gives ascending lengths with weights, from which the composition of samples follows.
#include <cmath>

#include "fuzz_expect.h"
#include "job/training_lengths.h"
#include "plan/sequence_lengths.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto table = job::read_length_table(fuzz::text_of(data, size), "lengths.tsv");
  if (!table.ok()) {
    fuzz::expect_helpful(table.error());
    return 0;
  }
  Training training;
  training.sequence.main = table->back().tokens;
  training.lengths.histogram = *table;
  training.lengths.packing = Packing::packed;
  const LengthFacts facts = length_facts(training);
  fuzz::expect(facts.real_tokens > 0 && facts.real_tokens <= 1 + 1e-9, "samples are filled with real tokens");
  fuzz::expect(std::isfinite(facts.spread) && facts.spread >= 0 && facts.longest >= 0, "facts are numbers");
  fuzz::expect(length_excess(facts, 8, 4, 1, 2) >= 1, "unlike samples shorten nothing");
  return 0;
}
