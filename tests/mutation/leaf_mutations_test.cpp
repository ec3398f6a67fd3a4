// SPDX-License-Identifier: Apache-2.0
// Changes every leaf of every kind of document to another value of its type or deletes it. Also deletes whole parts
// and makes joint edits. `check` may accept an edit only if it lists the key as not verified, and nothing may crash.
// A subset runs with the other tests. This runs all of it, and 20,000 random documents:
//   mutation_tests --gtest_also_run_disabled_tests --gtest_filter='LeafMutation.*'
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "espalier/documents.h"
#include "leaf_documents.h"

namespace espalier::mutation {
namespace {

bool listed(const CheckReport& report, const std::string& path) {
  return std::any_of(report.not_verified.begin(), report.not_verified.end(), [&](const std::string& what) {
    const std::string key = what.substr(0, what.find(':'));
    return path == key || path.rfind(key + ".", 0) == 0;
  });
}

struct Counts {
  int tried = 0, rejected = 0, not_verified = 0;
};

/// Checks that a mutation is accepted only where the key is listed.
void judge(const std::string& name, const Node& original, const Node& mutated, const std::string& path, Counts& counts) {
  const std::string text = base::to_json(mutated);
  if (text == base::to_json(original)) return;
  ++counts.tried;
  const CheckReport report = checked(text);
  if (!report.ok()) {
    ++counts.rejected;
    return;
  }
  const bool excused = listed(report, path);
  counts.not_verified += excused ? 1 : 0;
  EXPECT_TRUE(excused) << name << ": " << path << " was changed, and every check holds";
}

/// Changes, then deletes every `step`-th leaf of every document, from `from` on.
Counts every_leaf(std::size_t from, std::size_t step) {
  Counts counts;
  Engine engine(2026);
  for (const LeafDocument& d : leaf_documents()) {
    const Node root = base::read_json(d.text, d.name)->root;
    const std::vector<Leaf> leaves = leaves_of(root);
    const std::vector<std::string> words = words_of(root, leaves);
    for (std::size_t i = from; i < leaves.size(); i += step) {
      Node changed = root, deleted = root;
      change(leaf_at(changed, leaves[i]), words, engine);
      judge(d.name, root, changed, leaves[i].path, counts);
      remove_leaf(deleted, leaves[i]);
      judge(d.name, root, deleted, leaves[i].path + " (deleted)", counts);
    }
  }
  return counts;
}

Node* find(Node& root, const std::string& path) {
  const std::size_t dot = path.find('.');
  auto* node = const_cast<Node*>(root.find(path.substr(0, dot)));
  return node == nullptr || dot == std::string::npos ? node : find(*node, path.substr(dot + 1));
}

/// Weakens a certificate without a contradiction: bound, gap, reason and the claims of the phases.
bool weaken_certificate(Node& root, double share) {
  Node* search = find(root, "search");
  if (search == nullptr) return false;
  const double time = find(root, "prediction.iteration_s")->real, bound = std::floor(time * share * 1e9) / 1e9;
  set_real(*find(*search, "lower_bound_s"), bound);
  set_real(*find(*search, "gap"), (time - bound) / time);
  find(*search, "optimal")->boolean = share == 1;
  find(*search, "reason")->text = share == 1 ? "optimal" : "gap";
  return true;
}

bool erase(Node& root, const std::string& key) {
  return std::erase_if(root.members, [&](const auto& member) { return member.first == key; }) > 0;
}

/// Edits several values at once, so that they agree.
void joint_edits(const LeafDocument& d, Counts& counts) {
  const Node root = base::read_json(d.text, d.name)->root;
  const auto with = [&](const char* what, const std::function<bool(Node&)>& edit) {
    Node mutated = root;
    if (edit(mutated)) judge(d.name, root, mutated, what, counts);
  };
  with("a weaker certificate", [](Node& r) { return weaken_certificate(r, 0.9); });
  with("a certificate of optimality", [](Node& r) { return weaken_certificate(r, 1); });
  for (const char* key : {"search", "simplest", "runnable", "runs_on", "engines", "restriction", "batch_hint", "reasons", "notes",
                          "alternatives", "operators", "made_by", "digest", "others", "observed", "prediction", "plan"})
    with(key, [&](Node& r) { return erase(r, key); });
  with("search and reasons", [](Node& r) { return erase(r, "search") && erase(r, "reasons"); });
  with("rows of alternatives exchanged", [](Node& r) {
    Node* rows = find(r, "alternatives");
    return rows != nullptr && rows->items.size() > 1 && (std::swap(rows->items.front(), rows->items.back()), true);
  });
}

/// Makes random documents: one to three leaves changed, absurd or deleted, half of them with a digest that fits.
Counts random_documents(int number, unsigned seed) {
  Counts counts;
  Engine engine(seed);
  std::vector<LeafDocument> documents = leaf_documents();
  documents.push_back(plan_document());
  std::vector<Node> roots;
  std::vector<std::vector<Leaf>> leaves;
  std::vector<std::vector<std::string>> words;
  for (const LeafDocument& d : documents) {
    roots.push_back(base::read_json(d.text, d.name)->root);
    leaves.push_back(leaves_of(roots.back()));
    words.push_back(words_of(roots.back(), leaves.back()));
  }
  for (int i = 0; i < number; ++i) {
    const std::size_t d = below(engine, documents.size());
    Node mutated = roots[d];
    const std::size_t edits = 1 + below(engine, 3);
    for (std::size_t k = 0; k < edits; ++k) {
      const Leaf& leaf = leaves[d][below(engine, leaves[d].size())];
      if (below(engine, 3) == 0)
        make_absurd(leaf_at(mutated, leaf), engine);
      else
        change(leaf_at(mutated, leaf), words[d], engine);
    }
    if (below(engine, 4) == 0) remove_leaf(mutated, leaves[d][below(engine, leaves[d].size())]);
    const std::string text = below(engine, 2) == 0 ? resealed(mutated) : base::to_json(mutated);
    ++counts.tried;
    counts.rejected += checked(text).ok() ? 0 : 1;  // an internal error throws and fails the test
  }
  return counts;
}

/// Extends every range of layers in the document far beyond the model, in all pipelines of all plans.
int stretch_ranges(Node& node) {
  int changed = 0;
  for (auto& [key, member] : node.members) {
    if (key == "last" && node.find("first") != nullptr && node.find("strategy") != nullptr) {
      set_integer(member, member.integer + 40);
      ++changed;
    }
    changed += stretch_ranges(member);
  }
  for (Node& item : node.items) changed += stretch_ranges(item);
  return changed;
}

void print(const char* what, const Counts& c) {
  std::printf("%s: %d tried, %d rejected, %d not verified\n", what, c.tried, c.rejected, c.not_verified);
}

TEST(LeafMutation, EveryTenthLeafIsVerifiedOrListed) { print("every 10th leaf", every_leaf(7, 10)); }
TEST(LeafMutation, DISABLED_EveryLeafIsVerifiedOrListed) { print("every leaf", every_leaf(0, 1)); }

TEST(LeafMutation, JointEditsAreRejected) {
  Counts counts;
  for (const LeafDocument& d : leaf_documents()) joint_edits(d, counts);
  print("joint edits", counts);
  EXPECT_EQ(counts.tried, counts.rejected);
}

TEST(LeafMutation, RandomDocumentsCrashNothing) { print("random documents", random_documents(300, 1)); }
TEST(LeafMutation, DISABLED_TwentyThousandDocumentsCrashNothing) { print("random documents", random_documents(20'000, 2)); }

// A document whose digest was recomputed passes only with figures that nothing but a search derives. No figure of the
// prediction or of an action is among them.
TEST(LeafMutation, FiguresAreDerivedAgainWhateverTheDigest) {
  Engine engine(5);
  int tried = 0;
  for (const LeafDocument& d : leaf_documents()) {
    const Node root = base::read_json(d.text, d.name)->root;
    const std::vector<Leaf> leaves = leaves_of(root);
    const std::vector<std::string> words = words_of(root, leaves);
    for (std::size_t i = 3; i < leaves.size(); ++i) {
      const std::string& path = leaves[i].path;
      const auto has = [&](const char* part) { return path.find(part) != std::string::npos; };
      const bool figure = path.rfind("prediction.", 0) == 0 || has(".move.") || has("bytes_per_link") || has("iteration_s") ||
                          has("pause_s") || has("break_even_s") || has("runs_on") || has("memory_margin");
      const bool of_a_search =
          has("search.balance") || has("phases") || has("restriction") || has("batch_hint") || has("engines[") || has("runnable");
      if (!figure || of_a_search || below(engine, 8) != 0) continue;
      Node changed = root;
      change(leaf_at(changed, leaves[i]), words, engine);
      if (base::to_json(changed) == base::to_json(root)) continue;
      // A pause and a horizon are sums of rounded times, known to some nanoseconds.
      const double by = std::abs(leaf_at(changed, leaves[i]).real - leaf_at(const_cast<Node&>(root), leaves[i]).real);
      if ((has("pause_s") || has("break_even_s")) && by < 1e-6) continue;
      ++tried;
      EXPECT_FALSE(checked(resealed(changed)).ok()) << d.name << ": " << path;
    }
  }
  std::printf("figures with a new digest: %d tried\n", tried);
}

// Structure comes first: a plan that holds layers which its model lacks is not priced. Tests each kind of document,
// and each plan in it alone.
TEST(LeafMutation, ARangeBeyondTheModelIsAFinding) {
  std::vector<LeafDocument> documents = leaf_documents();
  documents.push_back(plan_document());
  for (const LeafDocument& d : documents) {
    Node whole = base::read_json(d.text, d.name)->root;
    EXPECT_GT(stretch_ranges(whole), 0) << d.name;
    EXPECT_FALSE(checked(resealed(whole)).ok()) << d.name;
    for (std::size_t i = 0; i < whole.members.size(); ++i) {
      Node one = base::read_json(d.text, d.name)->root;
      if (stretch_ranges(one.members[i].second) == 0) continue;
      EXPECT_FALSE(checked(resealed(one)).ok()) << d.name << ": " << one.members[i].first;
    }
  }
}

// A plan.json has no other claims: a changed leaf is rejected, or makes another plan.
TEST(LeafMutation, AChangedPlanIsAnotherPlan) {
  const LeafDocument& d = plan_document();
  const Node root = base::read_json(d.text, d.name)->root;
  const std::vector<Leaf> leaves = leaves_of(root);
  const std::vector<std::string> words = words_of(root, leaves);
  const std::string hash = content_hash(report::read_plan_document(d.text, d.name)->plan);
  Engine engine(9);
  int others = 0;
  for (const Leaf& leaf : leaves) {
    Node changed = root;
    change(leaf_at(changed, leaf), words, engine);
    const std::string text = base::to_json(changed);
    if (!checked(text).ok()) continue;
    ++others;
    EXPECT_NE(content_hash(report::read_plan_document(text, d.name)->plan), hash) << leaf.path;
  }
  std::printf("plan: %zu leaves, %d of them make another sound plan\n", leaves.size(), others);
}

}  // namespace
}  // namespace espalier::mutation
