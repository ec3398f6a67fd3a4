// SPDX-License-Identifier: Apache-2.0
// Records the signature of the planner: its answer for every example, in every space, for four engines. A commit that
// changes a line of answers.txt states the reason. Search counters are separate, in answers_counters.txt, since a
// better search may count less.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "answer_file.h"
#include "answer_text.h"

namespace espalier::answers_test {
namespace {

using golden::AnswerLine;

const std::vector<std::string> kSpaces = {"uniform", "layerwise", "full"};
/// Covers the unrestricted engine, and the three that `plan` names where no engine runs its answer.
const std::vector<std::string> kEngines = {"generic", "megatron-core", "torchtitan", "deepspeed"};

/// Lists searches that take longer than 20 s; they have no line.
const std::set<std::string> kNeverAsked = {"layerwise deepseek-v3-on-2048xh100", "layerwise llama3.1-405b-on-16384xh100",
                                           "full deepseek-v3-on-2048xh100", "full llama3.1-405b-on-16384xh100"};
/// Lists layer-wise searches above a second; they run only with ESPALIER_ALL_ANSWERS=1.
const std::set<std::string> kSlow = {"layerwise llama3-70b-on-64xh100",
                                     "layerwise mixtral-8x7b-on-32xa100",
                                     "layerwise opt-175b-6-blocks-on-32xv100",
                                     "layerwise qwen2.5-7b-on-32xl40s-slow-network",
                                     "full llama3-70b-on-64xh100",
                                     "full mixtral-8x7b-on-32xa100",
                                     "full opt-175b-6-blocks-on-32xv100",
                                     "full qwen2.5-7b-on-32xl40s-slow-network",
                                     "full t5-11b-on-16xtitan"};
/// Lists examples whose uniform searches, with any engine, also run only with ESPALIER_ALL_ANSWERS=1.
const std::set<std::string> kLarge = {"deepseek-v3-on-2048xh100", "llama3-70b-on-64xh100", "llama3.1-405b-on-16384xh100"};

struct Question {
  std::string space, engine, example;
  [[nodiscard]] std::string key() const { return space + " " + engine + " " + example; }
  [[nodiscard]] std::string search() const { return space + " " + example; }
};

/// Returns the names of examples/*.yaml in order.
std::vector<std::string> examples() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ESPALIER_SOURCE_DIR "/examples"))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<Question> questions() {
  std::vector<Question> out;
  const std::vector<std::string> names = examples();
  for (const std::string& space : kSpaces)
    for (const std::string& engine : kEngines)
      for (const std::string& example : names) {
        const Question q{space, engine, example};
        if (engine == "deepspeed" || kNeverAsked.count(q.search()) == 0) out.push_back(q);  // its layers may not differ
      }
  return out;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // ten times as slow: uniform searches alone
#else
constexpr bool kSanitized = false;
#endif

bool left_out(const Question& q) {
  if (golden::all_answers()) return false;
  if (q.space != "uniform")
    return kSanitized || kSlow.count(q.search()) > 0 || (q.engine != "generic" && kLarge.count(q.example) > 0);
  return kLarge.count(q.example) > 0;
}

std::string refusal(const Error& error) {
  const std::string root = ESPALIER_SOURCE_DIR "/";
  std::string text = error.message();
  if (const std::size_t at = text.find(root); at != std::string::npos) text.erase(at, root.size());
  return "refused: " + text.substr(0, text.find('\n'));
}

/// Returns presets and the best plan of the smaller space, which hold whatever the search did.
std::string baselines(const PlannerResult& r) {
  std::string out;
  for (const Alternative& a : r.alternatives)
    if (a.baseline) out += "; " + a.label + ": " + std::to_string(a.iteration_ns) + (a.fits ? "" : " does not fit");
  return out;
}

std::string words(const Alternative& a) {
  return a.label + " " + std::to_string(a.iteration_ns) + " " + std::to_string(a.peak_memory_bytes) + " " + a.lost_to;
}

/// Returns hashes of the rest of the answer: alternatives and sentences.
std::string hashes(const PlannerResult& r) {
  std::string alternatives, reasons;
  for (const Alternative& a : r.alternatives) alternatives += words(a) + "\n";
  for (const std::string& sentence : r.reasons) reasons += sentence + "\n";
  return " alternatives=" + base::content_hash(alternatives) + " reasons=" + base::content_hash(reasons);
}

std::string beside(const PlannerResult& r) {
  std::string out;
  if (r.simplest) out += "; simplest: " + r.simplest->label + " " + std::to_string(r.simplest->iteration_ns);
  if (r.runnable)
    out += "; runnable: " + r.runnable->engine + " " + r.runnable->label + " " + std::to_string(r.runnable->iteration_ns);
  if (r.batch_hint) out += "; batch " + std::to_string(r.batch_hint->global_batch) + ": " + r.batch_hint->label;
  if (covers_layers(r.search)) {
    std::string balance;
    for (const StageBalance& b : r.search.balance) balance += b.name + " " + std::to_string(b.iteration_ns) + "\n";
    out += "; uniform: " + std::to_string(best_uniform_ns(r.search)) + " balance=" + base::content_hash(balance);
  }
  if (covers_partitions(r.search)) out += "; without partitions: " + std::to_string(best_without_partitions_ns(r.search));
  return out;
}

std::string answer(const PlannerResult& r) {
  return golden::plan_words(r.plan) + " " + golden::prediction_words(r.prediction) + hashes(r) + "; " +
         std::string(to_string(r.search.reason)) + baselines(r) + beside(r);
}

std::string counters(const SearchSummary& s) {
  std::string out = "space=" + std::to_string(static_cast<std::int64_t>(s.space_size)) + " bounded=" + std::to_string(s.bounded) +
                    " simulated=" + std::to_string(s.simulated) + " lower_bound_ns=" + std::to_string(s.lower_bound_ns);
  const auto number = [](const PhaseSummary* phase, SearchCounter counter) {
    return std::to_string(count_of(phase->counters, counter));
  };
  if (const PhaseSummary* l = s.counted(SearchCounter::strategies))
    out += " layerwise: outer=" + number(l, SearchCounter::choices) + " solved=" + number(l, SearchCounter::bounded) +
           " simulated=" + std::to_string(s.count(SearchCounter::simulated, {kLayersPhase, kOperatorsByLayerPhase})) +
           " refined=" + number(l, SearchCounter::refinement_tried) + "," + number(l, SearchCounter::refinement_left);
  if (const PhaseSummary* p = s.counted(SearchCounter::partitions))
    out += " partitions: groups=" + number(p, SearchCounter::tensor_groups) +
           " solved=" + number(p, SearchCounter::operator_searches) + " offered=" + number(p, SearchCounter::partitions) +
           " lower_bound_ns=" + std::to_string(s.phases.back().partition_bound_ns);
  return out;
}

TEST(Golden, Answers) {
  std::vector<AnswerLine> answers, counted;
  for (const Question& q : questions()) {
    AnswerLine line{q.key(), std::nullopt}, count{q.key(), std::nullopt};
    if (!left_out(q)) {
      const auto job = load_job_file(ESPALIER_SOURCE_DIR "/examples/" + q.example + ".yaml",
                                     {"engine=" + q.engine, "search.space=" + q.space});
      const auto result = job ? plan(*job, {}) : Result<PlannerResult>(job.error());
      line.answer = result ? answer(*result) : refusal(result.error());
      count.answer = result ? counters(result->search) : "refused";
    }
    answers.push_back(line);
    counted.push_back(count);
  }
  golden::expect_answers("answers.txt", answers);
  golden::expect_answers("answers_counters.txt", counted);
}

}  // namespace
}  // namespace espalier::answers_test
