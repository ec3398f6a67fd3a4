// SPDX-License-Identifier: Apache-2.0
// Galvatron's files on any bytes: a strategy file that is accepted is written and read back to an equal document with the same
// text; the readers of profile files and of the published constants refuse helpfully or return.
#include "fuzz_expect.h"
#include "galvatron/profile_files.h"
#include "galvatron/strategy_document.h"
#include "galvatron/v1_profile.h"

namespace {

template <class T>
void expect_read(const espalier::Result<T>& read) {
  if (!read.ok()) espalier::fuzz::expect_helpful(read.error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  using namespace espalier::galvatron;
  const std::string_view text = fuzz::text_of(data, size);
  expect_read(read_computation_profile(text, "computation.json"));
  expect_read(read_memory_profile(text, "memory.json"));
  expect_read(read_all_reduce_bandwidth(text, "all_reduce.json"));
  expect_read(read_p2p_bandwidth(text, "p2p.json"));
  expect_read(read_overlap_coefficient(text, "overlap.json"));
  expect_read(read_collective_times(text, "sp_time.json"));
  expect_read(read_v1_profiles(text, "v1.json"));
  const auto document = read_strategy_document(text, "strategy.json");
  if (!document.ok()) {
    fuzz::expect_helpful(document.error());
    return 0;
  }
  const std::string written = to_json(*document);
  const auto again = read_strategy_document(written, "again.json");
  fuzz::expect(again.ok(), "a written document reads back", written);
  fuzz::expect(*again == *document, "and is equal", written);
  fuzz::expect(to_json(*again) == written, "and is written the same", written);
  return 0;
}
