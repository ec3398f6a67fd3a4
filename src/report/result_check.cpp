// SPDX-License-Identifier: Apache-2.0
#include "report/result_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/document.h"
#include "check/verdict.h"
#include "job/calibration_file.h"
#include "job/search_part.h"
#include "plan/engine.h"
#include "plan/process_groups.h"
#include "planner/estimate.h"
#include "planner/group_baselines.h"
#include "planner/prediction.h"
#include "report/beside_check.h"
#include "report/digest.h"
#include "report/search_json.h"

namespace espalier::report {
namespace {

/// Collects findings by name, in the order in which they were first named. Each shows its first fault and the number
/// of further ones.
class Findings {
 public:
  /// Adds a finding that has its own text.
  void add(const Finding& finding) {
    const auto [at, fresh] = index_.try_emplace(finding.name, all_.size());
    if (fresh) all_.push_back(finding);
    if (!finding.ok) ++faults_[finding.name];
  }
  void expect(const std::string& name, bool ok, const std::string& fault) {
    const auto [at, fresh] = index_.try_emplace(name, all_.size());
    if (fresh) all_.push_back({name, true, ""});
    if (ok) return;
    Finding& finding = all_[at->second];
    if (finding.ok) finding.text = fault;
    finding.ok = false;
    ++faults_[name];
  }
  [[nodiscard]] std::vector<Finding> take(const std::string& summary) {
    for (Finding& f : all_) {
      if (f.ok && f.text.empty()) f.text = summary;
      if (const int more = faults_[f.name] - 1; !f.ok && more > 0) f.text += check::say(" (and ", more, " more)");
    }
    return std::move(all_);
  }

 private:
  std::vector<Finding> all_;
  std::map<std::string, std::size_t> index_;
  std::map<std::string, int> faults_;
};

std::string written(const Node* node) { return node == nullptr ? "nothing" : base::to_json(*node).substr(0, 120); }

bool equal_leaves(const Node& a, const Node& b) {
  const auto number = [](const Node& n) { return n.kind == NodeKind::integer || n.kind == NodeKind::real; };
  if (a.kind == NodeKind::integer && b.kind == NodeKind::integer) return a.integer == b.integer;
  if (number(a) && number(b)) return a.real == b.real;
  return a.kind == b.kind && a.boolean == b.boolean && a.text == b.text;
}

/// Calls fault(path, claimed, derived) for every leaf in which the trees differ; nullptr means that it is missing
/// there.
template <class Fault>
void compare(const std::string& path, const Node* claimed, const Node* derived, const Fault& fault) {
  if (claimed == nullptr || derived == nullptr) {
    if (claimed != derived) fault(path, claimed, derived);
    return;
  }
  if (claimed->kind == NodeKind::mapping && derived->kind == NodeKind::mapping) {
    for (const auto& [key, value] : derived->members) compare(path + "." + key, claimed->find(key), &value, fault);
    for (const auto& [key, value] : claimed->members)
      if (derived->find(key) == nullptr) fault(path + "." + key, &value, nullptr);
    return;
  }
  if (claimed->kind == NodeKind::sequence && derived->kind == NodeKind::sequence) {
    const std::size_t most = std::max(claimed->items.size(), derived->items.size());
    for (std::size_t i = 0; i < most; ++i)
      compare(check::say(path, "[", i, "]"), i < claimed->items.size() ? &claimed->items[i] : nullptr,
              i < derived->items.size() ? &derived->items[i] : nullptr, fault);
    return;
  }
  if (!equal_leaves(*claimed, *derived)) fault(path, claimed, derived);
}

/// Returns the finding that covers a key of `prediction`.
std::string prediction_finding(const std::string& key) {
  static const std::map<std::string, std::string> kNames = {
      {"iteration_s", "iteration"},
      {"breakdown_s", "breakdown"},
      {"hidden_communication_s", "breakdown"},
      {"peak_memory_bytes", "peak"},
      {"peak_memory_bytes_per_stage", "peak"},
      {"memory_breakdown_bytes", "memory-breakdown"},
      {"memory_limit_bytes", "limit"},
      {"fits", "limit"},
      {"tokens_per_s_per_gpu", "throughput"},
      {"model_tflops_per_gpu", "throughput"},
      {"mfu", "throughput"},
      {"mfu_causal", "throughput"},
      {"mfu_peak_tflops", "throughput"},
      {"days", "throughput"},
      {"gpu_hours", "throughput"},
      {"confidence", "confidence"},
      {"cost", "cost"},
  };
  const auto at = kNames.find(key);
  return at == kNames.end() ? "prediction" : at->second;
}

/// Compares every part of the prediction with that of a simulation.
void compare_prediction(const Node& claimed, const Node& derived, Findings& findings) {
  const Node* said = claimed.find("prediction");
  const Node* found = derived.find("prediction");
  const auto part = [&](const std::string& key) {
    const std::string name = prediction_finding(key);
    findings.expect(name, true, "");
    compare("prediction." + key, said == nullptr ? nullptr : said->find(key), found->find(key),
            [&](const std::string& path, const Node* a, const Node* b) {
              findings.expect(name, false, check::say(path, ": claimed ", written(a), ", simulated ", written(b)));
            });
  };
  for (const auto& [key, value] : found->members) part(key);
  for (const auto& [key, value] : said->members)
    if (found->find(key) == nullptr) part(key);
  const auto differs = [&](const std::string& path, const Node* a, const Node* b) {
    findings.expect("operators", false, check::say(path, ": claimed ", written(a), ", derived ", written(b)));
  };
  compare("operators", claimed.find("operators"), derived.find("operators"), differs);
  compare("engine", claimed.find("engine"), derived.find("engine"), [&](const std::string& path, const Node* a, const Node* b) {
    findings.expect("prediction", false, check::say(path, ": claimed ", written(a), ", the plan gives ", written(b)));
  });
}

void check_certificate(const PlannerResult& r, Findings& findings) {
  const SearchSummary& s = r.search;
  const std::int64_t time = r.prediction.iteration_ns;
  const auto expect = [&](bool ok, const std::string& fault) { findings.expect("certificate", ok, fault); };
  expect(s.lower_bound_ns >= 0 && s.lower_bound_ns <= time,
         check::say("lower_bound_s of ", s.lower_bound_ns, " ns exceeds the plan's ", time, " ns"));
  const double gap = time > 0 ? static_cast<double>(time - s.lower_bound_ns) / static_cast<double>(time) : 0;
  expect(std::abs(gap - s.gap) <= 1e-12, check::say("gap ", s.gap, ", the bound and the time give ", gap));
  expect(s.optimal == (s.reason == SearchEnd::optimal),
         check::say("optimal is ", s.optimal ? "true" : "false", ", the reason \"", to_string(s.reason), "\""));
  expect(!s.optimal || s.lower_bound_ns == time, "optimal, but a gap remains");
  if (covers_groups(s) && s.space == SpaceKind::uniform && !s.asked.simple && !s.phases.empty()) {
    std::int64_t least = time;
    for (const PhaseSummary& phase : s.phases) least = std::min(least, phase.lower_bound_ns);
    expect(s.lower_bound_ns == least,
           check::say("lower_bound_s of ", s.lower_bound_ns, " ns, the lowest of the phases is ", least, " ns"));
  }
  expect(s.asked.simple || best_uniform_ns(s) == 0 || best_uniform_ns(s) >= time,
         "the best uniform plan is faster than the answer");
  for (const Alternative& a : r.alternatives)
    expect(!s.optimal || a.baseline || !a.fits || a.iteration_ns >= time, check::say("optimal, but ", a.label, " is faster"));
}

/// Checks that every device has work, where the search required it.
void check_devices(const Job& job, const PlannerResult& claimed, Findings& findings) {
  if (claimed.search.asked.space.devices != DeviceChoice::all) return;
  std::set<std::int64_t> used;
  for (const Pipeline& pipeline : claimed.plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      for (const std::int64_t device : devices_of(stage.devices)) used.insert(device);
  findings.expect("devices", static_cast<std::int64_t>(used.size()) == job.cluster.devices(),
                  check::say(used.size(), " of ", job.cluster.devices(), " devices have work, but all are required"));
}

/// Checks the counters of a phase against each other. None of them exceeds what it is a part of.
void check_phase_counters(const PhaseSummary& phase, Findings& findings) {
  constexpr std::pair<SearchCounter, SearchCounter> kParts[] = {
      {SearchCounter::out_of_memory, SearchCounter::simulated},
      {SearchCounter::dropped, SearchCounter::options},
      {SearchCounter::kept, SearchCounter::strategies},
      {SearchCounter::bounded, SearchCounter::choices},
      {SearchCounter::inexact_searches, SearchCounter::operator_searches}};
  const SearchCounters& counters = phase.counters;
  const auto expect = [&](bool ok, const std::string& fault) {
    findings.expect("counters", ok, check::say("phase ", phase.name, ": ", fault));
  };
  for (const auto& [part, whole] : kParts) {
    if (!counters.contains(part) || !counters.contains(whole)) continue;
    const std::int64_t n = counters.at(part), most = counters.at(whole);
    expect(n <= most, check::say(row_of(part).name, " is ", n, ", ", row_of(whole).name, " only ", most));
  }
  if (!counters.contains(SearchCounter::candidates)) return;
  const std::int64_t simulated = count_of(counters, SearchCounter::simulated),
                     candidates = counters.at(SearchCounter::candidates), refined = count_of(counters, SearchCounter::refined);
  expect(simulated <= candidates + refined,
         check::say(simulated, " plans simulated of ", candidates, " candidates and ", refined, " changes of them"));
}

/// Checks that an answer of node groups comes from a plan that was simulated and fits. Where there are several groups,
/// no uniform configurations are counted.
void check_group_counters(const SearchSummary& s, Findings& findings) {
  const bool fitting = std::any_of(s.phases.begin(), s.phases.end(), [](const PhaseSummary& p) {
    return count_of(p.counters, SearchCounter::simulated) > count_of(p.counters, SearchCounter::out_of_memory);
  });
  findings.expect("counters", !is_whole(s.reason) || fitting || s.simulated > 0, "an answer, but no simulated plan fits");
}

void check_counters(const SearchSummary& s, Findings& findings) {
  for (const PhaseSummary& phase : s.phases) check_phase_counters(phase, findings);
  if (covers_groups(s)) check_group_counters(s, findings);
  if (covers_groups(s) && s.space_size == 0) return;
  const auto expect = [&](bool ok, const std::string& fault) { findings.expect("counters", ok, fault); };
  const double slack = s.space_size < 0x1p53 ? 0 : 1e-9 * s.space_size;
  const auto equal = [&](double a, double b) { return std::abs(a - b) <= slack; };
  const bool uniform = s.space == SpaceKind::uniform, ended = is_whole(s.reason);
  expect(!ended || !s.by_dimension.empty(), "no configurations by dimension");
  for (const auto& [dimension, counts] : s.by_dimension) {
    double sum = 0;
    for (const auto& [value, count] : counts) sum += count;
    expect(equal(sum, s.space_size),
           check::say("the values of ", dimension, " count ", sum, " configurations, the space ", s.space_size));
  }
  double pruned = 0;
  for (const auto& [rule, count] : s.pruned) pruned += count;
  const double seen = pruned + static_cast<double>(s.simulated);
  expect(pruned <= s.space_size + slack, check::say("the rules removed ", pruned, " of ", s.space_size, " configurations"));
  expect(!ended || seen >= s.space_size - slack, check::say("pruned and simulated configurations are ", seen, " of ",
                                                            s.space_size, ", but the search claims to be complete"));
  expect(!uniform || seen <= s.space_size + slack,
         check::say("pruned and simulated configurations are ", seen, ", more than the space's ", s.space_size));
  // In larger spaces the answer may be from another phase, where nothing uniform fits.
  const bool elsewhere =
      (covers_layers(s) && best_uniform_ns(s) == 0) || (covers_partitions(s) && best_without_partitions_ns(s) == 0);
  expect(s.bounded >= 0 && s.simulated >= (ended && !elsewhere ? 1 : 0), check::say(s.simulated, " configurations simulated"));
}

/// Checks the alternatives of an answer on unlike devices. They are the best plans of parts of the cluster, derived
/// again and compared by name.
void check_group_alternatives(const Job& job, const EngineModel& engine, const PlannerResult& r, Findings& findings) {
  findings.expect("alternatives", true, "");
  const auto whole = planner::whole_cluster_plans(job, engine, 1, {});
  const std::vector<Alternative> again = planner::group_alternatives(job, engine, r, nullptr, whole, 1, {});
  findings.expect("alternatives", again.size() == r.alternatives.size(),
                  check::say(r.alternatives.size(), " alternatives, found again ", again.size()));
  for (std::size_t i = 0; i < std::min(again.size(), r.alternatives.size()); ++i) {
    const Alternative &said = r.alternatives[i], &found = again[i];
    findings.expect("alternatives",
                    said.label == found.label && said.iteration_ns == found.iteration_ns && said.fits == found.fits &&
                        said.peak_memory_bytes == found.peak_memory_bytes,
                    check::say(said.label, ": claimed ", said.iteration_ns, " ns, found again ", found.label, " with ",
                               found.iteration_ns, " ns"));
  }
}

void check_alternatives(const Job& job, const EngineModel& engine, const PlannerResult& r, Findings& findings) {
  findings.expect("alternatives", true, "");
  for (const Alternative& a : r.alternatives) {
    const auto expect = [&](bool ok, const std::string& fault) {
      findings.expect("alternatives", ok, check::say(a.label, ": ", fault));
    };
    if (!a.configuration) {
      expect(a.iteration_ns == 0 && !a.fits, "a time without a configuration");
      continue;
    }
    const auto& [strategy, schedule] = *a.configuration;
    const EngineModel* own = a.engine.empty() ? &engine : find_engine(a.engine);
    if (own == nullptr) {
      expect(false, check::say("engine ", a.engine, " is not known"));
      continue;
    }
    const auto p = planner::predict_with(job, *own, strategy, schedule);
    if (!p) {
      expect(false, p.error().message());
      continue;
    }
    expect(p->iteration_ns == a.iteration_ns, check::say("claimed ", a.iteration_ns, " ns, simulated ", p->iteration_ns));
    expect(p->peak_memory_bytes == a.peak_memory_bytes,
           check::say("claimed a peak of ", a.peak_memory_bytes, " bytes, simulated ", p->peak_memory_bytes));
    expect(p->fits == a.fits, check::say("claimed to ", a.fits ? "" : "not ", "fit"));
    const std::string label = planner::document_of(job, *own, strategy, schedule).label();
    expect(a.plan_label == label, check::say("its configuration is ", a.plan_label, ", derived ", label));
    expect(a.baseline || a.label == label, check::say("the label of a runner-up differs from its configuration, ", label));
  }
}

std::string name_of(const MadeBy& m) {
  if (m.version.empty()) return "an unnamed build";
  return check::say("espalier ", m.version, " (figures ", m.calibration, ")");
}

Result<Node> tree_of(std::string_view json, const std::string& where) {
  auto document = base::read_json(json, where);
  if (!document) return document.error();
  return std::move(document->root);
}

/// Returns the version of the result's plan.
PlanSchema plan_schema_of(const Node& result) {
  const Node* plan = result.find("plan");
  const Node* schema = plan == nullptr ? nullptr : plan->find("schema");
  return schema != nullptr && schema->text == "espalier.plan/1" ? PlanSchema::one : PlanSchema::two;
}

ResultVersion version_of(const Node& result) {
  const Node* schema = result.find("schema");
  return (schema == nullptr ? std::nullopt : result_version_of(schema->text)).value_or(ResultVersion::two);
}

/// Compares whole documents except wall-clock values, by their first key. A document of version 1 lacks parts of
/// `search`.
void compare_documents(const Node& claimed, const Node& derived, ResultVersion version, Findings& findings) {
  for (const auto& [key, value] : derived.members) {
    if (key == "timing" || key == "made_by" || key == "digest") continue;
    const std::string name = "search-again: " + key;
    const bool may_lack = version == ResultVersion::one && key == "search";
    findings.expect(name, true, "");
    compare(key, claimed.find(key), &value, [&](const std::string& path, const Node* a, const Node* b) {
      if (may_lack && a == nullptr) return;
      findings.expect(name, false, check::say(path, ": claimed ", written(a), ", found again ", written(b)));
    });
  }
}

}  // namespace

std::vector<Finding> check_result(std::string_view text, const Job& of_plan, const PlannerResult& claimed) {
  Findings findings;
  Job job = of_plan;
  job.search.recompute_modules = claimed.search.asked.space.recompute_modules;
  if (Status status = job::mean_modules(job); !status.ok()) return {{"search", false, status.error().message()}};
  const bool same = claimed.made_by == this_build();
  findings.expect(
      "made-by", same,
      check::say("made by ", name_of(claimed.made_by), ", this is ", name_of(this_build()), "; its figures are not compared"));
  if (!same) return findings.take("");
  const auto engine = planner::engine_of(job);
  if (!engine) return {{"prediction", false, engine.error().message()}};
  // The margin is a choice of the job, not a figure. A search and an estimate record the requested margin.
  Job with_margin = job;
  if (searched(claimed.search.reason))
    with_margin.search.memory_margin = claimed.search.asked.space.memory_margin;
  else
    with_margin.search.memory_margin = claimed.prediction.memory_margin;
  if (claimed.prediction.network) with_margin.network = NetworkKind::flow;
  auto again = simulate(with_margin, claimed.plan);
  if (!again) return {{"prediction", false, again.error().message()}};
  const auto said = tree_of(text, "result"), found = tree_of(to_json(*again, false), "simulation");
  if (!said || !found) return {{"prediction", false, (said ? found : said).error().message()}};
  const Finding digest = check_digest(
      *said, present_keys(*said, {"search", "runnable", "engines", "restriction", "simplest", "batch_hint", "reasons", "notes"}));
  findings.add(digest);
  compare_prediction(*said, *found, findings);
  for (const Finding& f : check_beside(with_margin, claimed)) findings.add(f);
  const bool search = said->find("search") != nullptr;
  if (job.cluster.equal_devices() || (job.cluster.homogeneous() && !search))
    check_alternatives(job, **engine, claimed, findings);
  else if (search && digest.ok) {  // which searches the groups again
    Job as_asked = with_margin;
    as_asked.search = claimed.search.asked.space;
    check_group_alternatives(as_asked, **engine, claimed, findings);
  }
  if (search) {
    check_certificate(claimed, findings);
    check_devices(job, claimed, findings);
    check_counters(claimed.search, findings);
  }
  return findings.take("as simulated again");
}

std::vector<Finding> check_search(std::string_view text, Job job, const PlannerResult& claimed, PlannerOptions how) {
  const SearchRequest& asked = claimed.search.asked;
  if (!searched(claimed.search.reason)) return {{"search-again", false, "the result does not come from a search"}};
  if (ended_by_clock(claimed.search.reason))
    return {{"search-again", true, "the clock stopped the search: it cannot be repeated"}};
  job.search = asked.space;
  if (Status status = job::mean_modules(job); !status.ok()) return {{"search-again", false, status.error().message()}};
  if (claimed.prediction.network) job.network = NetworkKind::flow;
  how.node_limit = asked.node_limit;
  how.disabled_rules = asked.disabled_rules;
  how.left_out_phases = asked.left_out_phases;
  how.exhaustive = asked.exhaustive;
  how.alternatives = asked.alternatives;
  how.simple = asked.simple;
  how.engines = asked.engines;
  how.restriction = asked.restriction;
  how.engine_options = asked.engine_options;
  how.simple_within = asked.simple_within;
  auto again = plan(job, how);
  if (!again) return {{"search-again", false, again.error().message()}};
  auto said = tree_of(text, "result");
  if (!said) return {{"search-again", false, said.error().message()}};
  const PlanSchema plan_schema = plan_schema_of(*said);
  const ResultVersion version = version_of(*said);
  if (version == ResultVersion::one) said = tree_of(to_json(claimed, false, plan_schema), "result");
  const auto found = tree_of(to_json(*again, false, plan_schema), "search");
  if (!said || !found) return {{"search-again", false, (said ? found : said).error().message()}};
  Findings findings;
  compare_documents(*said, *found, version, findings);
  return findings.take("as searched again");
}

Finding check_summaries(const Job& job, const Plan& plan) {
  const Plan derived = make_uniform_plan(job.model, job.cluster, job.training, plan.engine, {}, {}, SplitPolicy::balanced);
  Findings findings;
  const auto expect = [&](const char* what, const std::string& claimed, const std::string& found) {
    findings.expect("summaries", claimed == found,
                    check::say(what, ": the plan says \"", claimed, "\", its inputs \"", found, "\""));
  };
  expect("model summary", plan.model_summary, derived.model_summary);
  expect("cluster summary", plan.cluster_summary, derived.cluster_summary);
  expect("model hash", plan.model_hash, base::content_hash(plan.model_source));
  expect("cluster hash", plan.cluster_hash, base::content_hash(plan.cluster_source));
  if (!plan.calibration_source.empty())
    expect("calibration hash", plan.calibration_hash, base::content_hash(plan.calibration_source));
  return findings.take("as in the embedded inputs").front();
}

}  // namespace espalier::report
