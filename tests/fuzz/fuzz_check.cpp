// SPDX-License-Identifier: Apache-2.0
// Fuzzes `check` of plans, results and answers of what-if, --survive and replan. Bytes alone rarely pass the readers,
// so inputs are mutated as documents. Leaves are changed, made absurd or removed, half of them with a recomputed
// digest. Nothing may crash: bad input is an Error or a finding, and an internal error stops the target.
#include <algorithm>
#include <cstring>

#include "../mutation/json_leaves.h"
#include "fuzz_expect.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

using namespace espalier;
using namespace espalier::mutation;

std::string mutated(base::Node root, Engine& engine) {
  const std::vector<Leaf> leaves = leaves_of(root);
  if (leaves.empty()) return "";
  std::vector<std::string> words = words_of(root, leaves);
  if (words.empty()) words.emplace_back("x");
  const std::size_t edits = 1 + below(engine, 3);
  for (std::size_t k = 0; k < edits; ++k) {
    base::Node& leaf = leaf_at(root, leaves[below(engine, leaves.size())]);
    if (below(engine, 3) == 0)
      make_absurd(leaf, engine);
    else
      change(leaf, words, engine);
  }
  const Leaf& last = leaves[below(engine, leaves.size())];
  if (below(engine, 4) == 0 && !last.steps.empty()) remove_leaf(root, last);
  return below(engine, 2) == 0 ? resealed(root) : base::to_json(root);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  Engine engine(seed);
  const auto document = base::read_json(fuzz::text_of(data, size), "input");
  if (!document.ok() || below(engine, 16) == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string text = mutated(document->root, engine);
  if (text.empty() || text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const CheckReport report = checked(std::string(fuzz::text_of(data, size)));
  fuzz::expect(!report.findings.empty(), "a check finds something");
  for (const Finding& f : report.findings)
    fuzz::expect(!f.name.empty() && !f.text.empty(), "a finding has a name and a text", f.name);
  (void)report::to_text(report, "document");
  (void)report::to_json(report, "document");
  return 0;
}
