// SPDX-License-Identifier: Apache-2.0
// Fuzzes read_yaml with any bytes: no crash, helpful errors, and an accepted input is valid JSON when written. Then a
// Reader requests values of every type.
#include "base/document.h"
#include "fuzz_expect.h"

namespace {

using namespace espalier;

void ask_everything(const base::Document& document) {
  base::ErrorSink sink;
  base::Reader reader = base::Reader::root(document, sink);
  for (const char* key : {"a", "b", "c"}) {
    static_cast<void>(reader.optional_int(key, 0, 9, 0));
    static_cast<void>(reader.optional_real(key, 0, 1, 0));
    static_cast<void>(reader.optional_choice(key, {"ring", "all-to-all"}, 0));
    static_cast<void>(reader.optional_int_list(key, 0, 9));
    static_cast<void>(reader.optional_bytes(key, 0));
    static_cast<void>(reader.optional_bandwidth(key, 1));
    static_cast<void>(reader.optional_duration(key, 0));
    reader.child(key, false).finish();
    reader.each(key, false, [](base::Reader& item) { item.finish(); });
  }
  reader.finish();
  if (!sink.ok()) fuzz::expect_helpful(sink.first().error());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto document = base::read_yaml(fuzz::text_of(data, size), "fuzz.yaml");
  if (!document.ok()) {
    fuzz::expect_helpful(document.error());
    fuzz::expect(!document.error().hint.empty(), "there is a hint", document.error().message());
    return 0;
  }
  const std::string text = base::to_json(document->root);
  const auto again = base::read_json(text, "again.json");
  fuzz::expect(again.ok() && base::to_json(again->root) == text, "written JSON reads back", text);
  ask_everything(*document);
  return 0;
}
