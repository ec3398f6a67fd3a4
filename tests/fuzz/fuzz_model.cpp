// SPDX-License-Identifier: Apache-2.0
// Fuzzes load_model with any bytes; an accepted model has layers of known kinds and counts that are not negative.
#include <cmath>

#include "espalier/model.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto model = load_model(fuzz::text_of(data, size), "config.json");
  if (!model.ok()) {
    fuzz::expect_helpful(model.error());
    return 0;
  }
  fuzz::expect(model->layers.size() >= 2, "an embedding and a head at least");
  for (const std::int32_t layer : model->layers) {
    fuzz::expect(layer >= 0 && static_cast<std::size_t>(layer) < model->kinds.size(), "layers are of known kinds");
  }
  fuzz::expect(parameter_count(*model) > 0, "a model has parameters");
  fuzz::expect(active_parameter_count(*model) <= parameter_count(*model), "a token passes through at most all of them");
  const double flops = training_flops(*model, Sequence{2048, 2048, 2048}).count();
  fuzz::expect(std::isfinite(flops) && flops > 0, "training takes work");
  return 0;
}
