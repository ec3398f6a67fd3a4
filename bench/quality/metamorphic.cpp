// SPDX-License-Identifier: Apache-2.0
// Checks that more resources do not make an answer slower. Random jobs of all kinds are planned, then planned again
// with one improvement. This is twice a bandwidth, half a latency, a faster device kind, more memory, another node or
// group, another order of the groups, or twice the batch (compared per sample). In each pair the answer of the better
// job must not be slower. The old answer is also carried over and simulated under the better job: `same_plan_s`.
//
// Theorems. For bandwidth, latency, device and memory, the price of a plan is monotone in all spaces. The old answer
// is then a plan of the new space that is not slower. Node and group hold where devices may be left out (`devices:
// any`, the default on several groups). Batch holds for a plan with m micro-batches that fits with 2m and then takes
// at most twice as long. Only pairs whose old answer does so are counted; others are listed. Order: uniform plans on
// the whole cluster follow the order of the file. An answer should not depend on it, so neither order may be slower.
//
// Prices alone: --plans random legal plans of each job (not layer-wise ones) are priced under every better network
// and device; none may be slower. Many more plans than answers are tried this way, and the search cannot be the cause
// of a violation. With --prices nothing else is done.
//
// Prints one JSON object per violated pair and one per job, then pairs and violations by kind of change and class:
//     uniform      equal devices, one strategy, closed network                      0 wanted
//     certified    several groups, both answers called optimal                      0 wanted
//     groups       several groups otherwise                                         at most 0.5 % of pairs, 2 % in size
//     layer-wise, flow                                                              listed only.
//
// Exit code 1 if these limits are missed. Usage:
//
//   espalier_bench_quality_metamorphic [--jobs 40] [--from 0] [--seed 1] [--changes 8] [--plans 24] [--out DIR]
//                                      [--kind all|uniform|any|groups|layerwise|flow] [--plan-time 30] [--time 0]
//                                      [--threads 1] [--prices] [--layerwise] [--groups] [--brief]
//
// --changes     most changes drawn per job; 0: all, about twenty
// --plan-time   limit of a search
// --time        start no job after this many seconds
// --out         folder for both jobs of each violation
//
// Job i of a seed and kind does not depend on the other arguments: `--from 17 --jobs 1` runs it alone.
#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "bench_options.h"
#include "espalier/planner.h"
#include "job_changes.h"
#include "planner/estimate.h"
#include "rival_makers.h"

namespace {

using namespace espalier;
using namespace espalier::bench;

enum class Class : std::uint8_t { uniform, certified, groups, layerwise, flow };
constexpr std::array<std::string_view, 5> kClasses = {"uniform", "certified", "groups", "layer-wise", "flow"};
constexpr double kShare = 0.005, kSize = 0.02;  ///< limits for pairs on several groups that are not certified

struct Tally {
  /// Counts compared pairs; `price` counts the violations where the same plan is also slower.
  std::int64_t pairs = 0, violations = 0, listed = 0, price = 0;
  double worst = 0;
  void add(const Tally& other) {
    pairs += other.pairs;
    violations += other.violations;
    listed += other.listed;
    price += other.price;
    worst = std::max(worst, other.worst);
  }
};
using Tallies = std::map<std::pair<Class, ChangeKind>, Tally>;

struct Planned {
  std::optional<Job> job;
  std::optional<PlannerResult> answer;
  std::string error;
  bool internal = false, infeasible = false;
  [[nodiscard]] std::int64_t ns() const { return answer->prediction.iteration_ns; }
};

struct JobOutcome {
  Tallies tallies, prices;  ///< by answers, and by given plans
  std::int64_t planned = 0, internal = 0, no_job = 0, no_answer = 0;
};

class Pairs {
 public:
  Pairs(const Arguments& arguments, std::string name, const JobText& text)
      : arguments_(arguments), name_(std::move(name)), text_(text) {}

  JobOutcome run(Random& random, std::string& lines) {
    const Stopwatch watch;
    const Planned before = arguments_.flag("--prices") ? loaded() : planned(text_, "before");
    if (before.answer)
      for (const Change& change : chosen(random)) compare(before, change);
    if (before.infeasible) ++o_.no_answer;
    if (before.job && text_.space.empty()) price(*before.job, random);
    std::int64_t pairs = 0, violations = 0;
    for (const auto& [key, tally] : o_.tallies) {
      pairs += tally.pairs;
      violations += tally.violations;
    }
    lines = lines_ + cat("{\"bench\": \"metamorphic\", \"job\": ", json_text(name_), ", \"devices\": ", text_.total(),
                         ", \"pairs\": ", pairs, ", \"violations\": ", violations, ", \"seconds\": ", figure(watch.seconds()),
                         before.infeasible ? cat(", \"no_answer\": ", json_text(before.error)) : "", "}\n");
    return o_;
  }

 private:
  /// Prices given plans under every better network and device; none may become slower.
  void price(const Job& before, Random& random) {
    Field field(before);
    Makers makers(field, random);
    std::vector<std::pair<Plan, std::int64_t>> plans;
    const auto wanted = static_cast<std::size_t>(arguments_.whole("--plans"));
    for (std::size_t i = 0; i < 4 * wanted && plans.size() < wanted; ++i) {
      const Rival rival = makers.make(draw_kind(random));
      if (rival.empty()) continue;
      Plan plan = field.document(rival);
      if (const auto ns = priced_ns(before, plan)) plans.emplace_back(std::move(plan), *ns);
    }
    for (const Change& change : Changes(text_, random).all()) {
      if (change.kind > ChangeKind::device) continue;
      const auto after = load(change.job, name_);
      for (const auto& [plan, ns] : plans)
        if (after) price(*after, change, plan, ns);
    }
  }

  [[nodiscard]] RivalKind draw_kind(Random& random) const {
    if (text_.groups.size() == 1) return text_.devices == "any" && random.one_in(2) ? RivalKind::chain : RivalKind::whole;
    return random.of<RivalKind>(
        {RivalKind::whole, RivalKind::alone, RivalKind::pipelines, RivalKind::chain, RivalKind::replicas});
  }

  static std::optional<std::int64_t> priced_ns(const Job& job, const Plan& plan) {
    try {
      const auto priced = planner::predict_plan(job, plan);
      return priced ? std::optional(priced->iteration_ns) : std::nullopt;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  void price(const Job& after, const Change& change, const Plan& plan, std::int64_t before_ns) {
    const auto ns = priced_ns(after, plan);
    if (!ns) return;
    const bool mixed = text_.groups.size() > 1 || text_.devices == "any" || !text_.groups.front().speed.empty();
    const Class c = text_.flow ? Class::flow : mixed ? Class::groups : Class::uniform;
    Tally& tally = o_.prices[{c, change.kind}];
    ++tally.pairs;
    if (*ns <= before_ns) return;
    const double size = static_cast<double>(*ns) / static_cast<double>(before_ns) - 1.0;
    const bool worst = size > tally.worst;
    ++tally.violations;
    tally.worst = std::max(tally.worst, size);
    if (!worst) return;
    char figures[120];
    std::snprintf(figures, sizeof figures, "\"price_size\": %.6f, \"before_ns\": %lld, \"after_ns\": %lld", size,
                  static_cast<long long>(before_ns), static_cast<long long>(*ns));
    lines_ += cat("{\"bench\": \"metamorphic\", \"job\": ", json_text(name_),
                  ", \"class\": ", json_text(kClasses[static_cast<std::size_t>(c)]), ", \"what\": ", json_text(change.what), ", ",
                  figures, ", \"plan\": ", json_text(plan.label()), "}\n");
    const std::string file = cat(name_, ".price", ++priced_);
    write_file(arguments_.text("--out"), file + ".before.yaml", text_of(text_));
    write_file(arguments_.text("--out"), file + ".after.yaml", text_of(change.job));
    write_file(arguments_.text("--out"), file + ".plan.json", to_json(plan));
  }

  /// Returns all changes, or a random selection.
  std::vector<Change> chosen(Random& random) {
    std::vector<Change> all = Changes(text_, random).all();
    const auto most = static_cast<std::size_t>(arguments_.whole("--changes"));
    if (most == 0 || all.size() <= most) return all;
    random.shuffle(all);
    all.resize(most);
    return all;
  }
  Planned loaded() {
    Planned out;
    if (auto job = load(text_, name_)) out.job = std::move(*job);
    return out;
  }
  Planned planned(const JobText& text, const std::string& what) {
    Planned out;
    ++o_.planned;
    auto job = load(text, name_);
    if (!job) {
      ++o_.no_job;
      out.error = job.error().message();
      report_error(text, what, out.error);
      return out;
    }
    out.job = std::move(*job);
    PlannerOptions options;
    options.threads = 1;
    options.alternatives = 0;
    options.time_limit_s = arguments_.real("--plan-time");
    try {
      auto answer = plan(*out.job, options);
      if (answer) {
        out.answer = std::move(*answer);
      } else {
        out.error = answer.error().message();
        out.internal = answer.error().kind == ErrorKind::internal;
      }
    } catch (const std::exception& e) {
      out.error = e.what();
      out.internal = true;
    }
    out.infeasible = !out.answer && !out.internal;
    if (out.internal) ++o_.internal;
    if (out.internal) report_error(text, what, out.error);
    return out;
  }

  void report_error(const JobText& text, const std::string& what, const std::string& error) {
    lines_ += cat("{\"bench\": \"metamorphic\", \"job\": ", json_text(name_), ", \"change\": ", json_text(what),
                  ", \"error\": ", json_text(error), "}\n");
    write_file(arguments_.text("--out"), cat(name_, ".error", ++errors_, ".yaml"), text_of(text));
  }

  [[nodiscard]] Class class_of(const Planned& a, const Planned& b) const {
    if (text_.flow) return Class::flow;
    if (text_.space == "layerwise") return Class::layerwise;
    const bool mixed = text_.groups.size() > 1 || text_.devices == "any" || !text_.groups.front().speed.empty();
    if (!mixed) return Class::uniform;
    return a.answer->search.optimal && b.answer && b.answer->search.optimal ? Class::certified : Class::groups;
  }

  /// Simulates the old answer on the same devices under the changed job; twice the batch means twice as many
  /// micro-batches. Returns 0 if it is rejected or does not fit.
  static std::int64_t carried_ns(const Planned& before, const Planned& after, const Change& change) {
    Plan plan = before.answer->plan;
    const std::int64_t times = after.job->training.global_batch / before.job->training.global_batch;
    for (Pipeline& pipeline : plan.pipelines) {
      pipeline.samples *= times;
      pipeline.schedule.microbatches = static_cast<std::int32_t>(pipeline.schedule.microbatches * times);
      for (Stage& stage : pipeline.stages) {
        std::vector<std::int64_t> devices = devices_in(stage.devices);
        for (std::int64_t& d : devices) d = change.device[static_cast<std::size_t>(d)];
        stage.devices = ranges_of(devices);
      }
    }
    plan.training = after.job->training;
    try {
      const auto same = simulate(*after.job, plan);
      return same && same->prediction.fits_with_margin ? same->prediction.iteration_ns : 0;
    } catch (const std::exception&) {
      return 0;
    }
  }

  void compare(const Planned& before, const Change& change) {
    const Planned after = planned(change.job, change.what);
    if (!after.job || after.internal) return;
    const Class c = class_of(before, after);
    Tally& tally = o_.tallies[{c, change.kind}];
    const std::int64_t same = carried_ns(before, after, change);
    const bool batch = change.kind == ChangeKind::batch;
    const std::int64_t most = before.ns() * (batch ? 2 : 1);
    const bool listed = batch && (same == 0 || same > most);
    (listed ? tally.listed : tally.pairs) += 1;
    double size = after.answer ? static_cast<double>(after.ns()) / static_cast<double>(most) - 1.0 : 9.99;
    const bool either = change.kind == ChangeKind::order && after.answer && after.ns() < most;
    if (either) size = static_cast<double>(most) / static_cast<double>(after.ns()) - 1.0;
    if (!either && after.answer && after.ns() <= most) return;
    if (!listed) {
      ++tally.violations;
      tally.worst = std::max(tally.worst, size);
      if (same > most) ++tally.price;
    }
    report(before, after, change, c, same, size, listed);
  }

  void report(const Planned& before, const Planned& after, const Change& change, Class c, std::int64_t same, double size,
              bool listed) {
    char figures[300];
    std::snprintf(figures, sizeof figures, "\"size\": %.6f, \"before_s\": %.9f, \"after_s\": %.9f, \"same_plan_s\": %.9f", size,
                  static_cast<double>(before.ns()) * 1e-9, after.answer ? static_cast<double>(after.ns()) * 1e-9 : 0.0,
                  static_cast<double>(same) * 1e-9);
    const auto optimal = [](const Planned& p) { return p.answer && p.answer->search.optimal ? "true" : "false"; };
    lines_ +=
        cat("{\"bench\": \"metamorphic\", \"job\": ", json_text(name_),
            ", \"class\": ", json_text(kClasses[static_cast<std::size_t>(c)]),
            ", \"change\": ", json_text(kChangeKinds[static_cast<std::size_t>(change.kind)]),
            ", \"what\": ", json_text(change.what), ", \"counted\": ", listed ? "false" : "true", ", ", figures,
            ", \"optimal\": [", optimal(before), ", ", optimal(after), "], \"plan\": ", json_text(before.answer->plan.label()),
            ", \"then\": ", json_text(after.answer ? after.answer->plan.label() : after.error), "}\n");
    const std::string& out = arguments_.text("--out");
    const std::string file = cat(name_, ".", ++reported_);
    write_file(out, file + ".before.yaml", text_of(text_));
    write_file(out, file + ".after.yaml", text_of(change.job));
  }

  const Arguments& arguments_;
  const std::string name_;
  const JobText& text_;
  JobOutcome o_;
  std::string lines_;
  int errors_ = 0, reported_ = 0, priced_ = 0;
};

const std::vector<std::string> kKinds = {"uniform", "any", "groups", "layerwise", "flow"};

/// Returns the kind of job `index`. With `all`, half of the jobs are on several groups.
std::string kind_of(const Arguments& arguments, std::int64_t index) {
  if (arguments.flag("--layerwise")) return "layerwise";
  if (arguments.flag("--groups")) return "groups";
  if (arguments.text("--kind") != "all") return arguments.text("--kind");
  static const std::vector<std::string> turns = {"groups",  "uniform", "groups",    "any",    "groups",
                                                 "uniform", "groups",  "layerwise", "groups", "flow"};
  return turns[static_cast<std::size_t>(index) % turns.size()];
}

JobText job_of(const std::string& kind, Random& random) {
  if (kind == "uniform" || kind == "any") return random_single_job(random, kind == "any");
  if (kind == "layerwise") {
    JobText job;
    do job = random_single_job(random, false);
    while (job.total() > 8);
    job.space = "layerwise";
    return job;
  }
  JobText job;
  const bool small = kind == "flow" || !random.one_in(8);
  do job = random_groups_job(random, random.one_in(3) ? Size::tiny : Size::middle, true);
  while (job.devices == "all" || job.total() > (small ? 12 : 32));
  job.flow = kind == "flow";
  return job;
}

void print_prices(const Tallies& prices) {
  for (const auto& [key, t] : prices)
    std::printf(
        "{\"bench\": \"metamorphic\", \"prices\": \"%s\", \"change\": \"%s\", \"pairs\": %lld, \"violations\": %lld, \"worst\": "
        "%.5f}\n",
        std::string(kClasses[static_cast<std::size_t>(key.first)]).c_str(),
        std::string(kChangeKinds[static_cast<std::size_t>(key.second)]).c_str(), static_cast<long long>(t.pairs),
        static_cast<long long>(t.violations), t.worst);
}

/// Checks the classes of the closed network; violations under the flow network are only listed.
bool prices_hold(const Tallies& prices) {
  return std::all_of(prices.begin(), prices.end(),
                     [](const auto& row) { return row.first.first == Class::flow || row.second.violations == 0; });
}

void print(const Tallies& all, const std::array<Tally, kClasses.size()>& by_class) {
  const auto line = [](std::string_view c, std::string_view change, const Tally& t) {
    std::printf(
        "{\"bench\": \"metamorphic\", \"class\": \"%.*s\", \"change\": \"%.*s\", \"pairs\": %lld, \"violations\": %lld, "
        "\"share\": %.5f, "
        "\"worst\": %.5f, \"same_plan_slower\": %lld, \"listed\": %lld}\n",
        static_cast<int>(c.size()), c.data(), static_cast<int>(change.size()), change.data(), static_cast<long long>(t.pairs),
        static_cast<long long>(t.violations),
        t.pairs > 0 ? static_cast<double>(t.violations) / static_cast<double>(t.pairs) : 0.0, t.worst,
        static_cast<long long>(t.price), static_cast<long long>(t.listed));
  };
  for (const auto& [key, tally] : all)
    line(kClasses[static_cast<std::size_t>(key.first)], kChangeKinds[static_cast<std::size_t>(key.second)], tally);
  for (std::size_t c = 0; c < kClasses.size(); ++c) line(kClasses[c], "all", by_class[c]);
}

bool holds(const std::array<Tally, kClasses.size()>& of) {
  const Tally& groups = of[static_cast<std::size_t>(Class::groups)];
  const bool rare = static_cast<double>(groups.violations) <= kShare * static_cast<double>(groups.pairs) && groups.worst <= kSize;
  return of[static_cast<std::size_t>(Class::uniform)].violations == 0 &&
         of[static_cast<std::size_t>(Class::certified)].violations == 0 && rare;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments(argc, argv,
                            {{"--jobs", "40"},
                             {"--from", "0"},
                             {"--seed", "1"},
                             {"--kind", "all"},
                             {"--plan-time", "30"},
                             {"--time", "0"},
                             {"--threads", "1"},
                             {"--changes", "8"},
                             {"--plans", "24"},
                             {"--out", ""},
                             {"--prices", "no"},
                             {"--layerwise", "no"},
                             {"--groups", "no"}});
  if (arguments.names_problems()) return 0;
  const Stopwatch watch;
  const auto count = static_cast<std::size_t>(arguments.count("--jobs"));
  std::vector<JobOutcome> outcomes(count);
  OrderedLines lines(count);
  base::parallel_for(count, static_cast<int>(arguments.whole("--threads")), 1, [&](std::size_t i, int) {
    const double limit = arguments.real("--time");
    std::string text = "\n";
    if (limit <= 0 || watch.seconds() < limit) {
      const std::int64_t index = arguments.whole("--from") + static_cast<std::int64_t>(i), seed = arguments.whole("--seed");
      const std::string kind = kind_of(arguments, index);
      Random random(static_cast<std::uint64_t>(seed) * 1'000'033U + static_cast<std::uint64_t>(index) * 7927U);
      const JobText job = job_of(kind, random);
      outcomes[i] = Pairs(arguments, cat(kind, "-", seed, "-", index), job).run(random, text);
    }
    lines.put(i, std::move(text));
  });
  Tallies all, prices;
  std::array<Tally, kClasses.size()> by_class;
  JobOutcome sum;
  for (const JobOutcome& o : outcomes) {
    for (const auto& [key, tally] : o.tallies) {
      all[key].add(tally);
      by_class[static_cast<std::size_t>(key.first)].add(tally);
    }
    for (const auto& [key, tally] : o.prices) prices[key].add(tally);
    sum.planned += o.planned;
    sum.internal += o.internal;
    sum.no_job += o.no_job;
    sum.no_answer += o.no_answer;
  }
  print_prices(prices);
  print(all, by_class);
  std::printf(
      "{\"bench\": \"metamorphic\", \"jobs\": %zu, \"planned\": %lld, \"without_answer\": %lld, \"internal_errors\": %lld, "
      "\"not_a_job\": %lld, \"seconds\": %.1f}\n",
      count, static_cast<long long>(sum.planned), static_cast<long long>(sum.no_answer), static_cast<long long>(sum.internal),
      static_cast<long long>(sum.no_job), watch.seconds());
  return holds(by_class) && prices_hold(prices) && sum.internal == 0 && sum.no_job == 0 ? 0 : 1;
}
