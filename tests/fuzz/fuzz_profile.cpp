// SPDX-License-Identifier: Apache-2.0
// Fuzzes records of measured operators with any bytes, as `espalier profile` reads them: a record is rejected with a
// helpful error, or becomes a profile that jobs read.
#include "espalier/calibration.h"
#include "espalier/profile.h"
#include "fuzz_expect.h"

namespace {

using namespace espalier;

/// Returns a job with one block, so that few operators need a time.
const Job& small_job() {
  static const Job job =
      load_job(
          "model: {model_type: llama, hidden_size: 8, num_hidden_layers: 1, num_attention_heads: 2, num_key_value_heads: 1, "
          "intermediate_size: 16, vocab_size: 32, tie_word_embeddings: false}\n"
          "cluster: {nodes: 1, devices_per_node: 1, device: t4}\n"
          "engine: espalier\ntraining: {sequence_length: 4, global_batch: 4, precision: fp32, optimizer: adam}\n",
          "job.yaml", ".", {})
          .value();
  return job;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ProfileInputs inputs;
  inputs.records = {{{"record.json", std::string(fuzz::text_of(data, size))}, 2, true}};
  inputs.note = "fuzz";
  const auto profile = make_profile(small_job(), inputs);
  if (!profile.ok()) {
    fuzz::expect_helpful(profile.error());
    return 0;
  }
  const auto calibration = read_calibration(profile->yaml, "profile.yaml");
  fuzz::expect(calibration.ok(), "a profile is read", calibration.ok() ? profile->yaml : calibration.error().message());
  return 0;
}
