// SPDX-License-Identifier: Apache-2.0
// Fuzzes logs of training frameworks and output of nccl-tests with any bytes.
#include "fuzz_expect.h"
#include "runlog/argument_block.h"
#include "runlog/nccl_tests.h"
#include "runlog/step_log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string_view text = fuzz::text_of(data, size);
  const auto log = runlog::read_step_log(text, "run.log");
  if (log.ok()) {
    const runlog::StepSummary s = runlog::summarize(*log);
    fuzz::expect(s.steps > 0 && (s.seconds || s.tokens_per_s_per_device || s.samples_per_s), "an accepted log has a step time");
  } else {
    fuzz::expect_helpful(log.error());
  }
  const auto arguments = runlog::read_argument_block(text, "run.log");
  if (arguments.ok()) {
    for (const auto& [name, argument] : *arguments)
      fuzz::expect(!name.empty() && !argument.value.empty() && argument.line > 0, "an argument has a name and a value");
  } else {
    fuzz::expect_helpful(arguments.error());
  }
  const auto tables = runlog::read_nccl_tests(text, "nccl.txt");
  if (tables.ok()) {
    for (const auto& table : *tables)
      fuzz::expect(!table.rows.empty() && table.ranks > 1, "an accepted table has rows and ranks");
  } else {
    fuzz::expect_helpful(tables.error());
  }
  return 0;
}
