// SPDX-License-Identifier: Apache-2.0
// Fuzzes read_json with any bytes: no crash, helpful errors, and an accepted input is written and read back to
// the same text.
#include "base/document.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto document = base::read_json(fuzz::text_of(data, size), "fuzz.json");
  if (!document.ok()) {
    fuzz::expect_helpful(document.error());
    fuzz::expect(!document.error().hint.empty(), "there is a hint", document.error().message());
    return 0;
  }
  const std::string text = base::to_json(document->root);
  const auto again = base::read_json(text, "again.json");
  fuzz::expect(again.ok(), "written JSON reads back", text);
  fuzz::expect(base::to_json(again->root) == text, "and is the same", text);
  // Lists, mappings and strings of JSON are also YAML, so both readers must agree.
  const base::NodeKind kind = document->root.kind;
  if (kind != base::NodeKind::sequence && kind != base::NodeKind::mapping && kind != base::NodeKind::string) return 0;
  const auto yaml = base::read_yaml(fuzz::text_of(data, size), "fuzz.yaml");
  fuzz::expect(yaml.ok() && base::to_json(yaml->root) == text, "the YAML reader takes JSON", text);
  return 0;
}
