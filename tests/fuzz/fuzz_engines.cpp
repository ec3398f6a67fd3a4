// SPDX-License-Identifier: Apache-2.0
// Fuzzes read_engines with any bytes: it gives a helpful error, or engines that can be queried.
#include "fuzz_expect.h"
#include "plan/engine.h"
#include "plan/engine_reader.h"
#include "plan/engine_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto engines = read_engines(fuzz::text_of(data, size), "engines.yaml");
  if (!engines.ok()) {
    fuzz::expect_helpful(engines.error());
    return 0;
  }
  for (const EngineModel& e : engines->engines) {
    for (std::size_t i = 0; i < e.options.size(); ++i)
      fuzz::expect(with_options(*engines, e, {i}).name == e.base + "+" + e.options[i].name, "an option is named");
    fuzz::expect(!e.runs.schedules.empty() && !e.runs.zero.empty(), "an engine runs something");
    (void)engine_rule_catalogue(e);
    (void)to_string(e.layers);
    for (const LayerClass& c : classes_of(e.layers, Strategy{})) (void)admits(e.layers, c, Strategy{}, true);
  }
  return 0;
}
