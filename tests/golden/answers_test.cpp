// SPDX-License-Identifier: Apache-2.0
// The signature of the planner: what it answers for the small examples. A commit that changes a line of answers.txt says why.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "data/source_dir.h"
#include "espalier/planner.h"
#include "golden.h"

namespace espalier {
namespace {

/// Examples planned in well under a second; the large ones belong to `./dev bench`.
const std::vector<std::string> kExamples = {"bert-large-on-8xv100", "gpt2-on-4xrtx4090", "llama3-8b-megatron-1f1b",
                                            "llama3-8b-on-8xh100"};

std::string answer(const std::string& name) {
  const auto job = load_job_file(ESPALIER_SOURCE_DIR "/examples/" + name + ".yaml", {});
  if (!job) return name + ": " + job.error().message() + "\n";
  const auto result = plan(*job, {});
  if (!result) return name + ": " + result.error().message() + "\n";
  std::ostringstream out;
  out << name << "\n  " << result->plan.label() << "\n  iteration_ns " << result->prediction.iteration_ns << "\n  peak_bytes "
      << result->prediction.peak_memory_bytes << "\n  space " << static_cast<long long>(result->search.space_size) << "\n  "
      << result->search.reason << "\n";
  for (const Alternative& a : result->alternatives) {
    if (a.baseline) out << "  " << a.label << ": " << a.iteration_ns << (a.fits ? "" : " does not fit") << "\n";
  }
  return out.str();
}

TEST(Golden, Answers) {
  std::string text;
  for (const std::string& name : kExamples) text += answer(name);
  golden::expect_golden("answers.txt", text);
}

}  // namespace
}  // namespace espalier
