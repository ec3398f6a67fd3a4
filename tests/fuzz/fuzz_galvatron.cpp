// SPDX-License-Identifier: Apache-2.0
// Fuzzes Galvatron's files with any bytes. An accepted strategy file is written and read back to an equal document
// with the same text. The plan that it gives for a toy model converts back. The readers of profile files and of the
// published constants reject helpfully or return.
#include "fuzz_expect.h"
#include "galvatron/plan_conversion.h"
#include "galvatron/profile_files.h"
#include "galvatron/strategy_document.h"
#include "plan/test_problem.h"
#include "reference/v1_profile.h"

namespace {

template <class T>
void expect_read(const espalier::Result<T>& read) {
  if (!read.ok()) espalier::fuzz::expect_helpful(read.error());
}

/// Converts a document for a toy model with as many blocks on eight devices. A resulting plan must convert back to a
/// document that becomes the same plan.
void convert(const espalier::galvatron::StrategyDocument& document) {
  using namespace espalier;
  using namespace espalier::galvatron;
  if (document.layers.size() > 64) return;
  plan_test::Shape shape;
  shape.blocks = static_cast<std::int32_t>(document.layers.size());
  const Model model = plan_test::decoder(shape);
  const Cluster cluster = plan_test::cluster(1, 8);
  const Training training = plan_test::training(64, document.global_batch);
  const auto plan = plan_of(document, model, cluster, training);
  if (!plan.ok()) return fuzz::expect_helpful(plan.error());
  const auto back = document_of(*plan);
  fuzz::expect(back.ok(), "a plan from a document becomes a document", to_json(document));
  const auto again = plan_of(*back, model, cluster, training);
  fuzz::expect(again.ok() && *again == *plan, "and the same plan again", to_json(document));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  using namespace espalier::galvatron;
  using namespace espalier::reference;
  const std::string_view text = fuzz::text_of(data, size);
  expect_read(read_computation_profile(text, "computation.json"));
  expect_read(read_memory_profile(text, "memory.json"));
  expect_read(read_all_reduce_bandwidth(text, "all_reduce.json"));
  expect_read(read_p2p_bandwidth(text, "p2p.json"));
  expect_read(read_overlap_coefficient(text, "overlap.json"));
  expect_read(read_collective_times(text, "sp_time.json"));
  expect_read(read_v1_profiles(text, "v1.json"));
  const auto document = read_strategy_document(text, "strategy.json");
  if (!document.ok()) {
    fuzz::expect_helpful(document.error());
    return 0;
  }
  const std::string written = to_json(*document);
  const auto again = read_strategy_document(written, "again.json");
  fuzz::expect(again.ok(), "a written document reads back", written);
  fuzz::expect(*again == *document, "and is equal", written);
  fuzz::expect(to_json(*again) == written, "and is written the same", written);
  convert(*document);
  return 0;
}
