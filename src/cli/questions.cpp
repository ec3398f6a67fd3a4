// SPDX-License-Identifier: Apache-2.0
#include "cli/questions.h"

#include <algorithm>

#include "base/document.h"
#include "base/format.h"
#include "plan/step_tokens.h"

namespace espalier::cli {
namespace {

Error usage(std::string where, std::string found, std::string expected, std::string hint) {
  return {ErrorKind::usage, std::move(where), std::move(found), std::move(expected), std::move(hint)};
}

/// Adds a price for every node of the cluster.
void add_price(const Job& job, double price, const char* currency, std::vector<std::string>& overrides) {
  const auto source = base::read_json(job.cluster_source, "cluster");
  const bool groups = source && source->root.find("groups") != nullptr;
  for (std::size_t g = 0; groups && g < job.cluster.groups.size(); ++g)
    overrides.push_back(cat("cluster.groups.", static_cast<std::int64_t>(g), ".price_per_device_hour=", base::six_digits(price)));
  if (!groups) overrides.push_back(cat("cluster.price_per_device_hour=", base::six_digits(price)));
  if (currency != nullptr) overrides.push_back(cat("cluster.currency=", currency));
}

bool has_prices(const Job& job) {
  return std::all_of(job.cluster.groups.begin(), job.cluster.groups.end(),
                     [](const NodeGroup& g) { return g.price_per_device_hour.has_value(); });
}

}  // namespace

void add_question_flags(Command& command, QuestionFlags& flags) {
  command
      .add_option("--deadline", flags.deadline,
                  "find the cheapest cluster size that trains training.tokens within this time: 10d, 36h")
      ->type_name("TIME");
  command.add_option("--budget", flags.budget, "find the fastest cluster size that trains training.tokens for at most this cost")
      ->positive()
      ->type_name("MONEY");
  command.add_option("--price", flags.price, "price per device-hour, if the cluster file has none")
      ->positive()
      ->type_name("MONEY");
  command.add_option("--tokens", flags.tokens, "tokens of the whole training; short for --set training.tokens=N")
      ->positive()
      ->type_name("N");
}

Result<JobFlags> with_questions(Context& context, const JobFlags& flags, const QuestionFlags& q) {
  JobFlags out = flags;
  if (!q.any()) return out;
  if (q.tokens > 0) out.overrides.push_back(cat("training.tokens=", base::six_digits(q.tokens)));
  const auto job = load_job_of(context, out);
  if (!job) return job.error();
  if (q.price > 0) add_price(*job, q.price, nullptr, out.overrides);
  if (q.deadline.empty() && q.budget == 0) return out;
  if (job->objective) return usage("--deadline", "a job with search.objective", "one without", "the flags state the objective");
  if (job->training.tokens <= 0)
    return usage(q.deadline.empty() ? "--budget" : "--deadline", "no length of the run", "training.tokens", "--tokens 1e12");
  if (!q.deadline.empty() && !base::parse_duration(q.deadline))
    return usage("--deadline", cat("\"", q.deadline, "\""), "a time with its unit", "10d, 36h");
  const bool priced = q.price > 0 || has_prices(*job);
  if (q.budget > 0 && !priced)
    return usage("--budget", "no price of a device", "price_per_device_hour of the cluster", "--price 2.5, per device-hour");
  if (!priced) {
    add_price(*job, 1, "device-hours", out.overrides);
    note(context, "no prices are known: sizes are compared by device-hours; --price sets the price of one");
  }
  out.overrides.push_back(cat("search.objective.minimise=", q.deadline.empty() ? "time" : "cost"));
  if (!q.deadline.empty()) out.overrides.push_back(cat("search.objective.deadline=", q.deadline));
  if (q.budget > 0)
    out.overrides.push_back(cat("search.objective.budget_per_step=", base::fixed(q.budget / steps_of_run(job->training), 15)));
  return out;
}

}  // namespace espalier::cli
