// SPDX-License-Identifier: Apache-2.0
// Fuzzes indices of tokenised data sets with any bytes: every sequence of an accepted index is inside the
// file of tokens.
#include "fuzz_expect.h"
#include "storage/tokens.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  constexpr std::int64_t kBytes = 4096;
  const auto index = storage::read_token_index(fuzz::text_of(data, size), kBytes, "text.idx");
  if (!index.ok()) {
    fuzz::expect_helpful(index.error());
    return 0;
  }
  fuzz::expect(index->first.size() == index->place.size() + 1, "a first token of every sequence");
  for (std::size_t s = 0; s < index->place.size(); ++s) {
    const std::int64_t length = index->first[s + 1] - index->first[s];
    fuzz::expect(length >= 0 && index->place[s] >= 0 && index->place[s] + length * storage::bytes_of(index->type) <= kBytes,
                 "sequences lie inside the file");
  }
  return 0;
}
