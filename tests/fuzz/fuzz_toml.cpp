// SPDX-License-Identifier: Apache-2.0
// Fuzzes TOML with any bytes: an accepted input is a tree that passes through JSON unchanged.
#include "base/toml.h"

#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto document = base::read_toml(fuzz::text_of(data, size), "file.toml");
  if (!document.ok()) {
    fuzz::expect_helpful(document.error());
    return 0;
  }
  const std::string json = base::to_json(document->root);
  const auto back = base::read_json(json, "back");
  fuzz::expect(back.ok(), "a tree becomes JSON", back.ok() ? "" : back.error().message());
  fuzz::expect(base::to_json(back->root) == json, "and comes back");
  return 0;
}
