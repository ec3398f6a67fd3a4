// SPDX-License-Identifier: Apache-2.0
// Fuzzes load_job with any bytes, relative to a folder that does not exist (model and cluster are inline in the
// seeds). The first line may be "#set a.b=c", an override as on the command line.
#include "espalier/planner.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  std::string_view text = fuzz::text_of(data, size);
  std::vector<std::string> overrides;
  if (text.starts_with("#set ")) {
    const std::string_view line = text.substr(0, text.find('\n'));
    overrides.emplace_back(line.substr(5));
    text.remove_prefix(line.size());
  }
  const auto job = load_job(text, "job.yaml", "/nonexistent", overrides);
  if (job.ok()) {
    fuzz::expect(job->training.global_batch > 0 && job->cluster.devices() > 0, "an accepted job can be planned");
  } else if (job.error().kind != ErrorKind::usage) {  // a malformed override is a usage error
    fuzz::expect_helpful(job.error());
  }
  return 0;
}
