// SPDX-License-Identifier: Apache-2.0
// Builds the documents to falsify, and checks that true ones pass.
#include <algorithm>
#include <charconv>

#include "cases.h"
#include "espalier/planner.h"
#include "job/search_part.h"
#include "json_leaves.h"
#include "result_suite.h"

namespace espalier::mutation {
namespace {

ResultCase answer(const std::string& name, Job job, const std::string& search) {
  const auto document = base::read_yaml(search, name);
  EXPECT_TRUE(document.ok());
  base::ErrorSink sink;
  base::Reader reader = base::Reader::root(*document, sink);
  job.search = job::read_search_space(reader);
  EXPECT_TRUE(sink.ok()) << sink.first().error().message();
  PlannerOptions how;
  how.threads = 1;
  const auto result = plan(job, how);
  EXPECT_TRUE(result.ok()) << name << ": " << (result.ok() ? "" : result.error().message());
  if (!result) return {name, job, ""};
  return {name, job, to_json(*result)};
}

}  // namespace

const std::vector<ResultCase>& result_cases() {
  static const std::vector<ResultCase> cases = [] {
    const std::vector<RealPlan>& six = real_plans();
    const std::string plain = "overlap_grad: false, overlap_param: false, overlap_p2p: false, recompute: none, cp: 1";
    return std::vector<ResultCase>{
        answer("tied", six[0].job, "{fix: {pp: 2, tp: 2, " + plain + "}}"),
        answer("encoder-decoder", six[1].job, "{fix: {pp: 4, tp: 1, " + plain + "}}"),
        answer("experts", six[2].job, "{fix: {pp: 2, tp: 2, ep: 8, zero: 1, schedule: 1f1b, " + plain + "}}"),
        answer("layer-wise", six[3].job,
               "{space: layerwise, allow: {tp: [1, 2], zero: [0, 1]}, fix: {pp: 1, micro_batch: 2, sp: none, " + plain + "}}"),
        answer("interleaved", six[4].job,
               "{fix: {pp: 2, tp: 2, schedule: interleaved, vpp: 4, micro_batch: 1, zero: 1, " + plain + "}}"),
        answer("zb-v", six[5].job, "{fix: {pp: 4, schedule: zb-v, micro_batch: 2, zero: 1, " + plain + "}}"),
    };
  }();
  return cases;
}

Node* value_at(Node& root, const std::string& path) {
  Node* node = &root;
  std::size_t begin = 0;
  while (node != nullptr && begin < path.size()) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    std::string key = path.substr(begin, end - begin);
    begin = end + 1;
    std::size_t index = std::string::npos;
    if (const std::size_t open = key.find('['); open != std::string::npos) {
      std::from_chars(key.data() + open + 1, key.data() + key.size() - 1, index);
      key.resize(open);
    }
    node = const_cast<Node*>(node->find(key));
    if (node == nullptr || index == std::string::npos) continue;
    node = index < node->items.size() ? &node->items[index] : nullptr;
  }
  return node;
}

std::vector<Finding> findings_of(const ResultCase& c, const std::string& mutated) {
  const auto document = base::read_json(mutated, c.name);
  if (!document) return {{"reader", false, document.error().message()}};
  const std::string text = resealed(document->root);  // the old digest alone would reject all of them
  const auto read = result_from_json(text, c.name);
  if (!read) return {{"reader", false, read.error().message()}};
  const auto job = job_of_plan(read->plan);
  if (!job) return {{"reader", false, job.error().message()}};
  std::vector<Finding> all = report::check_result(text, *job, *read);
  all.push_back(report::check_summaries(*job, read->plan));
  return all;
}

void expect_rejected(const std::vector<ResultMutation>& mutations) { expect_rejected(mutations, result_cases()); }

void expect_rejected(const std::vector<ResultMutation>& mutations, const std::vector<ResultCase>& cases) {
  int rejected = 0;
  for (const ResultMutation& mutation : mutations) {
    int applied = 0;
    for (const ResultCase& c : cases) {
      if (c.text.empty()) continue;
      Node root = base::read_json(c.text, c.name)->root;
      if (!mutation.apply(root)) continue;
      ++applied;
      const std::vector<Finding> findings = findings_of(c, base::to_json(root));
      const bool named = std::any_of(findings.begin(), findings.end(), [&](const Finding& f) {
        return !f.ok && (f.name == mutation.finding || f.name == "reader") && !f.text.empty();
      });
      EXPECT_TRUE(named) << mutation.name << " in " << c.name << " passes '" << mutation.finding << "'";
      rejected += named ? 1 : 0;
    }
    EXPECT_GT(applied, 0) << mutation.name << " applies nowhere";
  }
  std::printf("%d kinds on %d documents: %d rejected by name\n", static_cast<int>(mutations.size()),
              static_cast<int>(cases.size()), rejected);
}

TEST(ResultMutation, TruthfulDocumentsPass) {
  for (const ResultCase& c : result_cases()) {
    ASSERT_FALSE(c.text.empty()) << c.name;
    for (const Finding& f : findings_of(c, c.text)) EXPECT_TRUE(f.ok) << c.name << ": " << f.name << ": " << f.text;
  }
}

TEST(ResultMutation, ASearchFoundAgainIsTheSame) {
  for (const ResultCase& c : result_cases()) {
    if (c.name != "tied" && c.name != "layer-wise") continue;
    const auto read = result_from_json(c.text, c.name);
    ASSERT_TRUE(read.ok());
    PlannerOptions how;
    how.threads = 2;
    for (const Finding& f : report::check_search(c.text, *job_of_plan(read->plan), *read, how))
      EXPECT_TRUE(f.ok) << f.name << ": " << f.text;
  }
}

}  // namespace espalier::mutation
