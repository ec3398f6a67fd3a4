// SPDX-License-Identifier: Apache-2.0
// Attacks answers on several node groups. The clusters are random, with two to four groups, and at least a fifth of
// them have more than 64 devices. Each answer of plan() meets many rivals that share no code with the search:
//   * uniform plans on the whole cluster, on one group, on fewer nodes and on groups in another order
//   * concurrent pipelines with any split of the samples
//   * chains of stages
//   * unequal replicas
//   * edits of the answer
// The fastest rivals of each kind are changed further.
//
// A rival must obey the rules and fit with the margin. It is a violation if it is faster than an answer called
// optimal, or faster than a printed bound; the planner's public simulate() confirms it. A job without an answer
// although a rival fits is also a violation.
//
// Rivals outside the spaces that docs/clusters.md names are also tried and counted separately ("wide"). These are
// uniform plans on part of a group, other schedules of chains, and layers of unlike pipelines. The count "beaten" is
// the number of answers of finished searches that a rival beats within their bound. Prints one JSON object a line.
// Exit code 1 on a violation, 3 if all violations are wide.
//
//   espalier_bench_quality_mixed_attack [--clusters 60] [--from 0] [--seed 1] [--tries 2000] [--time 0]
//                                       [--plan-time 60] [--threads 1] [--out DIR] [--job FILE [--flow]] [--brief]
//
// --tries       rivals of each cluster
// --time        begin no job after this many seconds
// --plan-time   limit of a search
// --job         attack this job file instead, with another seed for each "cluster"
// --brief       a tenth of the clusters
// --out         folder for every job and the fastest rival of each violation
//               (NAME.yaml, NAME.faster.plan.json, NAME.wide.plan.json).
//
// Job i of a seed does not depend on the other arguments: `--from 17 --clusters 1` runs it alone.
#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <string>
#include <vector>

#include "base/invariant.h"
#include "base/parallel.h"
#include "bench_options.h"
#include "random_jobs.h"
#include "rival_makers.h"

namespace {

using namespace espalier;
using namespace espalier::bench;

constexpr std::size_t kPool = 4;  ///< rivals of a kind that are changed further

struct Best {
  std::int64_t ns = INT64_MAX;
  RivalKind kind = RivalKind::whole;
  std::string label;
};

/// Holds the answer to one job and the result of its attack.
struct Outcome {
  std::string error;  ///< from the planner; empty if there is an answer
  bool internal = false, answered = false, optimal = false, above_64 = false;
  bool cut_short = false;  ///< the search hit its time limit
  std::int64_t answer_ns = INT64_MAX, bound_ns = 0, tried = 0, fit = 0, refused = 0, broken = 0;
  /// Counts rivals as [named by the docs, wide]: faster than the answer, those that the answer denies, and
  /// below the bound.
  std::array<std::int64_t, 2> faster{}, denied{}, below_bound{};
  std::array<Best, 2> best, best_denied;
  double gap = 0;
};

class Attack {
 public:
  Attack(const Job& job, const std::string& name, const std::string& out, std::uint64_t seed, Outcome& o)
      : job_(job), name_(name), out_(out), random_(seed), field_(job), makers_(field_, random_), o_(o) {}

  void run(std::int64_t tries, const PlannerResult* answer) {
    if (answer != nullptr) begin(*answer);
    for (std::int64_t i = 0; i < tries; ++i) step();
  }

 private:
  struct Pooled {
    Rival rival;
    std::int64_t ns;
  };
  using Pool = std::vector<Pooled>;

  void begin(const PlannerResult& answer) {
    const Rival rival = field_.read(answer.plan);
    try {
      const auto judged = field_.judge(rival);
      if (!judged || !judged->fits || judged->ns != answer.prediction.iteration_ns)
        std::fprintf(stderr, "%s: the answer takes %.0f here, %.0f there\n", name_.c_str(), judged ? double(judged->ns) : -1.0,
                     double(answer.prediction.iteration_ns));
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: the answer: %s\n", name_.c_str(), e.what());
    }
    pools_[static_cast<std::size_t>(RivalKind::edited)].push_back({rival, answer.prediction.iteration_ns});
  }

  RivalKind draw_kind() {
    static const std::vector<RivalKind> weighted = {
        RivalKind::whole,     RivalKind::whole, RivalKind::whole, RivalKind::alone,    RivalKind::alone,    RivalKind::pipelines,
        RivalKind::pipelines, RivalKind::chain, RivalKind::chain, RivalKind::replicas, RivalKind::replicas, RivalKind::fewer};
    return random_.of(weighted);
  }

  void step() {
    RivalKind kind = draw_kind();
    Rival rival;
    if (random_.below(100) < 55) {
      kind = random_.one_in(3) ? RivalKind::edited : kind;
      const Pool& pool = pools_[static_cast<std::size_t>(kind)];
      if (pool.empty()) return;
      const Pooled& from = pool[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(pool.size())))];
      rival = makers_.change(from.rival);
    } else {
      rival = makers_.make(kind);
    }
    if (!rival.empty() && field_.legal(rival)) judge(kind, rival);
  }

  void judge(RivalKind kind, const Rival& rival) {
    std::optional<Judged> judged;
    try {
      judged = field_.judge(rival);
    } catch (const std::exception& e) {
      if (o_.broken++ == 0) report_broken(rival, e.what());
      return;
    }
    if (!judged) return;
    ++o_.tried;
    if (!judged->fits) return;
    ++o_.fit;
    remember(kind, rival, judged->ns);
    if (judged->ns >= o_.answer_ns && judged->ns >= o_.bound_ns) return;
    count(kind, rival, judged->ns);
  }

  void remember(RivalKind kind, const Rival& rival, std::int64_t ns) {
    Pool& pool = pools_[static_cast<std::size_t>(kind)];
    if (std::any_of(pool.begin(), pool.end(), [&](const Pooled& p) { return p.ns == ns; })) return;
    if (pool.size() >= kPool && pool.back().ns <= ns) return;
    const auto at = std::upper_bound(pool.begin(), pool.end(), ns, [](std::int64_t n, const Pooled& p) { return n < p.ns; });
    pool.insert(at, {rival, ns});
    if (pool.size() > kPool) pool.pop_back();
  }

  void count(RivalKind kind, const Rival& rival, std::int64_t ns) {
    const std::size_t wide = field_.documented(rival) ? 0 : 1;
    const bool denied = (o_.optimal && ns < o_.answer_ns) || ns < o_.bound_ns || !o_.answered;
    const bool better = ns < o_.best[wide].ns, better_denied = denied && ns < o_.best_denied[wide].ns;
    if ((better || better_denied) && !confirmed(kind, rival, ns, wide, denied)) return;
    ++o_.faster[wide];
    if (denied) ++o_.denied[wide];
    if (ns < o_.bound_ns) ++o_.below_bound[wide];
  }

  bool confirmed(RivalKind kind, const Rival& rival, std::int64_t ns, std::size_t wide, bool denied) {
    const Plan plan = field_.document(rival);
    Result<PlannerResult> result = [&]() -> Result<PlannerResult> {
      try {
        return simulate(job_, plan);
      } catch (const std::exception& e) {
        return Error{ErrorKind::internal, "simulate", e.what(), "", ""};
      }
    }();
    if (!result || result->prediction.iteration_ns != ns || !result->prediction.fits_with_margin) {
      if (o_.refused++ == 0)
        std::fprintf(stderr, "%s: not confirmed: %s: %s\n", name_.c_str(), plan.label().c_str(),
                     result ? "another time or no room" : result.error().message().c_str());
      return false;
    }
    if (ns < o_.best[wide].ns) o_.best[wide] = {ns, kind, plan.label()};
    if (!denied || ns >= o_.best_denied[wide].ns) return true;
    o_.best_denied[wide] = {ns, kind, plan.label()};
    write_file(out_, name_ + (wide == 0 ? ".faster" : ".wide") + ".plan.json", to_json(plan));
    return true;
  }

  void report_broken(const Rival& rival, const char* what) {
    const Plan plan = field_.document(rival);
    std::fprintf(stderr, "%s: a legal plan cannot be priced: %s: %s\n", name_.c_str(), plan.label().c_str(), what);
    write_file(out_, name_ + ".broken.plan.json", to_json(plan));
  }

  const Job& job_;
  const std::string name_, out_;
  Random random_;
  Field field_;
  Makers makers_;
  Outcome& o_;
  std::array<Pool, kRivalKinds.size()> pools_;
};

std::string name_of(std::int64_t seed, std::int64_t index) { return cat("mixed-", seed, "-", index); }

std::uint64_t seed_of(std::int64_t seed, std::int64_t index) {
  return static_cast<std::uint64_t>(seed) * 1'000'003U + static_cast<std::uint64_t>(index) * 7919U;
}

Result<PlannerResult> answer_of(const Job& job, double limit_s) {
  PlannerOptions options;
  options.threads = 1;
  options.time_limit_s = limit_s;
  options.alternatives = 0;
  try {
    return plan(job, options);
  } catch (const std::exception& e) {
    return Error{ErrorKind::internal, "plan", e.what(), "", ""};
  }
}

std::string line_of(const std::string& name, const Job& job, const Outcome& o, const std::string& label, double plan_s,
                    double all_s) {
  std::string worst;
  for (const std::size_t wide : {std::size_t{0}, std::size_t{1}}) {
    const Best& best = o.best[wide];
    if (best.ns == INT64_MAX) continue;
    worst += cat(", \"", wide == 0 ? "faster" : "wide_faster", "\": ", o.faster[wide], ", \"", wide == 0 ? "ratio" : "wide_ratio",
                 "\": ", o.answered ? figure(static_cast<double>(o.answer_ns) / static_cast<double>(best.ns) - 1.0) : "null",
                 ", \"", wide == 0 ? "by" : "wide_by", "\": ", json_text(kRivalKinds[static_cast<std::size_t>(best.kind)]),
                 ", \"", wide == 0 ? "rival" : "wide_rival", "\": ", json_text(best.label), ", \"",
                 wide == 0 ? "violations" : "wide_violations", "\": ", o.denied[wide], ", \"",
                 wide == 0 ? "below_bound" : "wide_below_bound", "\": ", o.below_bound[wide]);
  }
  char figures[400];
  std::snprintf(figures, sizeof figures,
                "\"devices\": %lld, \"groups\": %zu, \"answer_s\": %.9f, \"optimal\": %s, \"bound_s\": %.9f, \"gap\": %.5f, "
                "\"tried\": %lld, \"fit\": %lld, \"refused\": %lld, \"broken\": %lld, \"plan_s\": %.2f, \"seconds\": %.2f",
                static_cast<long long>(job.cluster.devices()), job.cluster.groups.size(),
                o.answered ? static_cast<double>(o.answer_ns) * 1e-9 : 0.0, o.optimal ? "true" : "false",
                static_cast<double>(o.bound_ns) * 1e-9, o.gap, static_cast<long long>(o.tried), static_cast<long long>(o.fit),
                static_cast<long long>(o.refused), static_cast<long long>(o.broken), plan_s, all_s);
  return cat("{\"bench\": \"mixed attack\", \"job\": ", json_text(name), ", ", figures, ", \"plan\": ", json_text(label),
             o.cut_short ? ", \"end\": \"time limit\"" : "", o.error.empty() ? "" : cat(", \"error\": ", json_text(o.error)),
             worst, "}\n");
}

struct Totals {
  std::int64_t jobs = 0, above_64 = 0, answered = 0, cut_short = 0, optimal = 0, internal = 0, rivals = 0, fit = 0, broken = 0,
               refused = 0;
  std::array<std::int64_t, 2> optimal_jobs{}, bound_jobs{}, unanswered_jobs{}, beaten_jobs{};
  std::array<double, 2> worst_optimal{}, worst_bound{}, worst_beaten{};
  double gap = 0;

  void add(const Outcome& o) {
    ++jobs;
    above_64 += o.above_64 ? 1 : 0;
    answered += o.answered ? 1 : 0;
    cut_short += o.cut_short ? 1 : 0;
    optimal += o.optimal ? 1 : 0;
    internal += o.internal ? 1 : 0;
    rivals += o.tried;
    fit += o.fit;
    broken += o.broken;
    refused += o.refused;
    if (o.answered) gap += o.gap;
    for (const std::size_t w : {std::size_t{0}, std::size_t{1}}) add(o, w);
  }
  void add(const Outcome& o, std::size_t w) {
    if (o.best[w].ns == INT64_MAX) return;
    if (!o.answered) {
      ++unanswered_jobs[w];
      return;
    }
    const auto best = static_cast<double>(o.best[w].ns);
    const double ratio = static_cast<double>(o.answer_ns) / best - 1.0;
    if (!o.cut_short && ratio > 0) ++beaten_jobs[w];
    if (!o.cut_short) worst_beaten[w] = std::max(worst_beaten[w], ratio);
    if (o.optimal && ratio > 0) ++optimal_jobs[w];
    if (o.optimal) worst_optimal[w] = std::max(worst_optimal[w], ratio);
    if (o.below_bound[w] == 0) return;
    ++bound_jobs[w];
    worst_bound[w] = std::max(worst_bound[w], static_cast<double>(o.bound_ns) / best - 1.0);
  }
  [[nodiscard]] std::int64_t violations(std::size_t w) const { return optimal_jobs[w] + bound_jobs[w] + unanswered_jobs[w]; }
  void print(double seconds) const {
    for (const std::size_t w : {std::size_t{0}, std::size_t{1}})
      std::printf(
          "{\"bench\": \"mixed attack\", \"rivals\": \"%s\", \"optimal_beaten\": %lld, \"worst\": %.5f, \"below_bound\": %lld, "
          "\"worst_below\": %.5f, \"no_answer\": %lld, \"beaten\": %lld, \"worst_beaten\": %.5f}\n",
          w == 0 ? "named" : "wide", static_cast<long long>(optimal_jobs[w]), worst_optimal[w],
          static_cast<long long>(bound_jobs[w]), worst_bound[w], static_cast<long long>(unanswered_jobs[w]),
          static_cast<long long>(beaten_jobs[w]), worst_beaten[w]);
    std::printf(
        "{\"bench\": \"mixed attack\", \"jobs\": %lld, \"above_64_devices\": %lld, \"answered\": %lld, \"time_limit\": %lld, "
        "\"optimal\": %lld, "
        "\"internal_errors\": %lld, \"tried\": %lld, \"fit\": %lld, \"not_confirmed\": %lld, \"not_priced\": %lld, \"mean_gap\": "
        "%.5f, "
        "\"seconds\": %.1f}\n",
        static_cast<long long>(jobs), static_cast<long long>(above_64), static_cast<long long>(answered),
        static_cast<long long>(cut_short), static_cast<long long>(optimal), static_cast<long long>(internal),
        static_cast<long long>(rivals), static_cast<long long>(fit), static_cast<long long>(refused),
        static_cast<long long>(broken), answered > 0 ? gap / static_cast<double>(answered) : 0.0, seconds);
  }
};

/// Holds a job with the text that it was read from.
struct Subject {
  std::string name, text;
  Result<Job> job;
};

/// Returns the size of job `index`: a quarter above 64 devices, a quarter tiny.
Size size_of(std::int64_t index) { return index % 4 == 0 ? Size::large : index % 4 == 1 ? Size::tiny : Size::middle; }

Subject subject_of(const Arguments& arguments, std::int64_t index) {
  const std::int64_t seed = arguments.whole("--seed");
  if (const std::string& file = arguments.text("--job"); !file.empty()) {
    auto job = load_job_file(file, {});
    if (job && arguments.flag("--flow")) job->network = NetworkKind::flow;
    return {cat("job-", seed, "-", index), "", std::move(job)};
  }
  const std::string name = name_of(seed, index);
  Random random(seed_of(seed, index));
  const JobText text = random_groups_job(random, size_of(index), false);
  return {name, text_of(text), load(text, name)};
}

Outcome attack(const Arguments& arguments, std::int64_t index, std::string& line) {
  const Stopwatch watch;
  const Subject subject = subject_of(arguments, index);
  const std::string& name = subject.name;
  const std::string& out = arguments.text("--out");
  const Result<Job>& job = subject.job;
  Outcome o;
  if (!job) {
    o.internal = true;
    o.error = job.error().message();
    line = cat("{\"bench\": \"mixed attack\", \"job\": ", json_text(name), ", \"not_a_job\": ", json_text(o.error), "}\n");
    write_file(out, name + ".yaml", subject.text);
    return o;
  }
  o.above_64 = job->cluster.devices() > 64;
  const auto answer = answer_of(*job, arguments.real("--plan-time"));
  const double plan_s = watch.seconds();
  if (answer) {
    o.answered = true;
    o.optimal = answer->search.optimal;
    o.answer_ns = answer->prediction.iteration_ns;
    o.bound_ns = answer->search.lower_bound_ns;
    o.gap = answer->search.gap;
    o.cut_short = answer->search.reason == SearchEnd::time_limit;
  } else {
    o.error = answer.error().message();
    o.internal = answer.error().kind == ErrorKind::internal;
  }
  const std::int64_t tries = arguments.whole("--tries");
  Attack(*job, name, out, seed_of(arguments.whole("--seed"), index) ^ 0x5eedU, o).run(tries, answer ? &*answer : nullptr);
  write_file(out, name + ".yaml", subject.text);
  line = line_of(name, *job, o, answer ? answer->plan.label() : "", plan_s, watch.seconds());
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments(argc, argv,
                            {{"--clusters", "60"},
                             {"--from", "0"},
                             {"--seed", "1"},
                             {"--tries", "2000"},
                             {"--time", "0"},
                             {"--plan-time", "60"},
                             {"--threads", "1"},
                             {"--out", ""},
                             {"--job", ""},
                             {"--flow", "no"}});
  if (arguments.names_problems()) return 0;
  const Stopwatch watch;
  const auto count = static_cast<std::size_t>(arguments.count("--clusters"));
  std::vector<Outcome> outcomes(count);
  std::vector<char> begun(count, 0);
  OrderedLines lines(count);
  base::parallel_for(count, static_cast<int>(arguments.whole("--threads")), 1, [&](std::size_t i, int) {
    const double limit = arguments.real("--time");
    std::string line = "\n";
    if (limit <= 0 || watch.seconds() < limit) {
      begun[i] = 1;
      outcomes[i] = attack(arguments, arguments.whole("--from") + static_cast<std::int64_t>(i), line);
    }
    lines.put(i, std::move(line));
  });
  Totals totals;
  for (std::size_t i = 0; i < count; ++i)
    if (begun[i] != 0) totals.add(outcomes[i]);
  totals.print(watch.seconds());
  if (totals.violations(0) > 0 || totals.internal > 0 || totals.broken > 0) return 1;
  return totals.violations(1) > 0 ? 3 : 0;
}
