// SPDX-License-Identifier: Apache-2.0
// Writes the terminal answer: what to run, how fast it will be, whether it fits, how sure that is, and which
// alternatives it beats.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/format.h"
#include "espalier/planner.h"
#include "plan/listed_devices.h"
#include "plan/stage_schedules.h"
#include "planner/time_parts.h"
#include "report/beside_text.h"
#include "report/brief_layers.h"
#include "report/brief_text.h"
#include "report/flops_text.h"
#include "report/operator_text.h"
#include "report/plan_words.h"
#include "report/shown_stage.h"
#include "report/text_layout.h"

namespace espalier::report {
namespace {

constexpr int kBarWidth = 34;  // a line with its label and figures then has 80 columns

std::string sequence_text(const Sequence& s) {
  if (s.main > 0 && s.encoder > 0) return cat("sequence ", grouped(s.main), ", ", grouped(s.encoder), " patches");
  if (s.encoder > 0) return cat("sequence ", grouped(s.encoder), " + ", grouped(s.decoder));
  return s.main > 0 ? cat("sequence ", grouped(s.main)) : "images";
}

/// Returns the numbers of simulated and pruned configurations of the uniform space.
std::string work_text(const SearchSummary& s) {
  std::string work = cat(" (", grouped(s.simulated), " simulated");
  if (s.lowered > 0) work += cat(", ", grouped(s.lowered), " lowered");
  for (const auto& [rule, n] : s.pruned) work += cat(", ", count(n), " by ", rule);
  return work + ")";
}

/// Lists the plans that no search covered, and how far the answer was refined.
std::string not_searched(const SearchSummary& s) {
  std::string out;
  if (!s.freedom.empty()) out += "; " + s.freedom;
  if (!s.split.empty() && !covers_layers(s)) out += "; the split of layers over stages is " + s.split;
  const PhaseSummary* refined = s.counted(SearchCounter::refinement_tried);
  if (refined == nullptr || s.asked.simple) return out;
  const std::int64_t tried = count_of(refined->counters, SearchCounter::refinement_tried),
                     left = count_of(refined->counters, SearchCounter::refinement_left);
  if (tried == 0) return out;
  if (left > 0) return cat(out, "; ", grouped(left), " changes of single layers were not tried");
  return cat(out, "; no single change of a layer or boundary is faster (", grouped(tried), " tried)");
}

/// Names the plans that the certificate excludes for the error of the memory model.
std::string margin_of(const SearchSummary& s) {
  return s.memory_margin > 0 ? cat(" that leaves ", percent(s.memory_margin), " of memory free") : std::string();
}

/// Names the plan that nothing is faster than: the answer, or with --simple the fastest plan found.
std::string than_what(const SearchSummary& s) { return s.asked.simple ? " than the fastest plan found" : ""; }

std::string layerwise_certificate(const SearchSummary& s) {
  const std::string uniform = cat("none of the ", count(s.space_size), " uniform ones is", margin_of(s), work_text(s));
  const std::string gap = cat(at_most(s.gap), " from the best layer-wise plan (none is below ", seconds(s.lower_bound_ns), ")");
  if (s.optimal) return cat("optimal: no layer-wise plan is faster, and ", uniform);
  if (s.reason == SearchEnd::gap)
    return cat(gap, "; of the ", count(s.space_size), " uniform ones", margin_of(s), " none is faster", than_what(s),
               work_text(s));
  return cat("not proven (", to_string(s.reason), "): ", gap, work_text(s));
}

/// Writes the certificate of partitions of operators, offered or not.
std::string partition_certificate(const SearchSummary& s) {
  const std::string gap =
      cat(at_most(s.gap), " from the best plan with any partition of operators (none is below ", seconds(s.lower_bound_ns), ")");
  const std::string flat = cat("; of the ", count(s.space_size), " uniform ones with those offered", margin_of(s),
                               " none is faster", than_what(s), work_text(s));
  if (s.optimal) return cat("optimal, whatever the partition of operators", flat);
  return s.reason == SearchEnd::gap ? cat(gap, flat) : cat("not proven (", to_string(s.reason), "): ", gap, work_text(s));
}

/// Names the plans that a phase of a search on several node groups covers.
std::string space_of(const PhaseSummary& phase, const SearchSummary& s) {
  const bool zero_bubble = admits_zero_bubble(s.asked.space);
  if (phase.name == kUniformPhase) return "uniform plans on all devices";
  if (phase.name == kEachGroupPhase) return "uniform plans on one node group or some of its nodes";
  if (phase.name == kDeviceGroupsPhase) return cat("chains of stages under ", zero_bubble ? "1f1b and zb-h1" : "1f1b");
  if (phase.name == kWholeClusterPhase) return "uniform plans across node groups";
  if (phase.name == kPipelinesPhase) return "one pipeline on each of several node groups";
  if (phase.name == kReplicasPhase) return "one stage with uneven replicas on several node groups";
  return cat(phase.name, " plans");
}

std::string spaces_of(const SearchSummary& s) {
  std::string out;
  for (const PhaseSummary& phase : s.phases) {
    if (phase.left_out) continue;
    out += cat(out.empty() ? "" : ", ", space_of(phase, s), " (", grouped(count_of(phase.counters, SearchCounter::simulated)),
               " simulated)");
  }
  return out;
}

/// Lists the spaces in which a faster plan may exist, with their bounds.
std::string open_spaces(const SearchSummary& s) {
  std::string out;
  const std::int64_t best_ns = s.gap < 1 ? std::llround(static_cast<double>(s.lower_bound_ns) / (1 - s.gap)) - 1 : INT64_MAX;
  for (const PhaseSummary& phase : s.phases)
    if (!phase.left_out && phase.lower_bound_ns < best_ns)
      out += cat(out.empty() ? "; not excluded: " : ", ", space_of(phase, s), " from ", seconds(phase.lower_bound_ns));
  return out;
}

/// Writes the certificate, which names every space that was searched: it covers these plans and no others.
std::string groups_certificate(const SearchSummary& s) {
  const std::string spaces = cat(margin_of(s), " in the spaces searched: ", spaces_of(s));
  if (s.optimal) return cat("optimal: no plan is faster", spaces);
  const std::string gap = cat(at_most(s.gap), " from the best plan", spaces, open_spaces(s));
  return s.reason == SearchEnd::gap ? gap : cat("not proven (", to_string(s.reason), "): ", gap);
}

std::string certificate(const SearchSummary& s) {
  if (!searched(s.reason)) return "none: one given configuration, not searched for";
  if (covers_groups(s)) return groups_certificate(s);
  if (covers_partitions(s)) return partition_certificate(s);
  if (covers_layers(s)) return layerwise_certificate(s);
  const std::string space = count(s.space_size) + " configurations";
  const std::string margin = margin_of(s);
  if (s.optimal)
    return cat("optimal: none of the ", space, " is faster", margin, work_text(s), "; overlap_tp is off unless the job sets it");
  if (s.reason == SearchEnd::gap) return cat(at_most(s.gap), " from the fastest of ", space, margin, work_text(s));
  if (s.lower_bound_ns == 0)
    return cat("not proven (", to_string(s.reason), "): plans that were not examined may be faster", work_text(s));
  return cat("not proven (", to_string(s.reason), "): ", at_most(s.gap), " from the best of ", space, work_text(s));
}

/// Returns the number of configurations of each pipeline degree: "1: 58.4M · 2: 659M …".
std::string by_stages(const SearchSummary& s) {
  const auto found = s.by_dimension.find("pp");
  if (found == s.by_dimension.end()) return "";
  std::string out;
  for (const auto& [pp, n] : found->second) out += cat(out.empty() ? "" : " · ", std::to_string(pp), ": ", short_count(n));
  return out;
}

std::string confidence_text(const Confidence& c) {
  if (c.high_s <= 0) return c.basis;
  return seconds(static_cast<std::int64_t>(c.low_s * 1e9)) + " – " + seconds(static_cast<std::int64_t>(c.high_s * 1e9)) +
         " with " + percent(c.level) + " · " + c.basis;
}

std::string headline(const PlannerResult& r) {
  const Prediction& p = r.prediction;
  const bool tokens = counts_tokens(r.plan);
  std::string out = r.plan.label() + "\n";
  out += answer_line("step", seconds(p.iteration_ns) + "   " + count(p.tokens_per_s_per_device) +
                                 (tokens ? " tokens/s/GPU" : " samples/s/GPU") + "   MFU " + mfu_text(p) + " of " +
                                 report::peak_text(p.mfu_peak_tflops) + " (" +
                                 report::model_rate_text(p.model_tflops_per_device) + ")");
  out +=
      answer_line("memory", gib(p.peak_memory_bytes) + " of " + gib(p.memory_limit_bytes) + " on the fullest rank" + fit_note(p));
  out += wrapped_line("certificate", certificate_text(r.search));
  if (covers_layers(r.search)) out += answer_line("layer-wise", layerwise_gain(r.search, p.iteration_ns));
  if (const std::string stages = by_stages(r.search); !stages.empty()) out += wrapped_line("space by pp", stages);
  out += answer_line("confidence", confidence_text(p.confidence));
  if (const std::string engines = runs_on_text(r); !engines.empty()) out += wrapped_line("runs on", engines);
  if (const std::string price = restriction_text(r); !price.empty()) out += wrapped_line("restriction", price);
  if (const std::string simplest = simplest_text(r); !simplest.empty()) out += wrapped_line("simplest", simplest);
  for (const auto& [name, text] : option_lines(r)) out += wrapped_line(name, text);
  if (const std::string margin = margin_text(r); !margin.empty()) out += wrapped_line("memory margin", margin);
  if (p.cost) out += wrapped_line("cost", cost_text(*p.cost, tokens));
  if (p.days > 0) out += answer_line("whole run", run_words(p));
  return out;
}

/// Draws the parts of the busiest stage as bars. Where another stage finishes last, its shares are printed beside
/// these bars.
std::string time_section(const Prediction& p, planner::HostWork host) {
  const double whole = p.iteration_ns > 0 ? static_cast<double>(p.iteration_ns) : 1.0;
  const bool pipeline = p.bottleneck.busy_per_stage.size() > 1;
  const bool two = pipeline && p.bottleneck.stage != p.last_stage;
  const std::vector<planner::TimePart> parts = planner::time_parts(pipeline ? p.bottleneck.breakdown : p.breakdown, host),
                                       last = planner::time_parts(p.breakdown, host);
  std::string out = "\nWhere the time goes";
  if (pipeline)
    out +=
        cat(" (stage ", std::to_string(p.bottleneck.stage), ", the busiest",
            two ? cat("; in brackets: stage ", std::to_string(p.last_stage), ", which finishes last)") : "; it finishes last)");
  out += "\n";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double share = static_cast<double>(parts[i].ns) / whole;
    const std::string blocks = bar(share, kBarWidth);
    const std::string beside = two ? cat("  (", pad_left(percent(static_cast<double>(last[i].ns) / whole), 6), ")") : "";
    out += cat("  ", pad_right(parts[i].name, 22), pad_left(percent(share), 8), pad_left(seconds(parts[i].ns), 12), beside,
               blocks.empty() ? "" : cat("  ", blocks), "\n");
  }
  if (p.hidden_communication_ns > 0)
    out += cat("  ", seconds(p.hidden_communication_ns), " of communication is hidden under compute\n");
  return out;
}

/// Shows how sharing of links changes the time, and the busiest links.
std::string network_section(const Prediction& p) {
  if (!p.network) return "";
  const NetworkPrediction& n = *p.network;
  std::string out = "\nAll messages in flight share the links";
  if (p.iteration_ns == n.closed_iteration_ns)
    out += "; without sharing, the time would be the same\n";
  else
    out +=
        cat("; without sharing, the time would be ", seconds(n.closed_iteration_ns), ", ",
            percent(std::abs(static_cast<double>(p.iteration_ns - n.closed_iteration_ns)) / static_cast<double>(p.iteration_ns)),
            p.iteration_ns > n.closed_iteration_ns ? " less\n" : " more\n");
  if (const std::string links = busiest_links(p); !links.empty()) out += cat("  busiest links: ", links, "\n");
  return out;
}

std::string memory_section(const Prediction& p) {
  const MemoryBreakdown& m = p.memory;
  return cat("\nMemory of the fullest rank\n  parameters ", gib(m.parameters), " · gradients ", gib(m.gradients), " · optimizer ",
             gib(m.optimizer), " · activations ", gib(m.activations), " · buffers ", gib(m.communication_buffers),
             " · framework ", gib(m.framework), "\n");
}

std::string stage_section(const PlannerResult& r) {
  const Pipeline& first = r.plan.pipelines.front();
  const std::vector<std::int64_t>& peaks = r.prediction.peak_memory_bytes_per_stage;
  const bool one_stage = first.stages.size() < 2;
  if (std::string tables = layer_tables(one_stage ? "Layers" : "Pipeline", r.plan, peaks); !tables.empty()) return tables;
  if (one_stage) return "";
  std::vector<std::vector<std::string>> rows{{"stages", "layers of each", "peak"}};
  for (const StageRun& run : stage_runs(first, peaks)) {
    const std::string name =
        run.first == run.last ? std::to_string(run.first) : std::to_string(run.first) + "–" + std::to_string(run.last);
    rows.push_back({name, run.layers, gib(run.peak_bytes)});
  }
  return cat("\nPipeline\n", table(rows, {1}));
}

std::string balance_section(const PlannerResult& r) {
  if (r.search.balance.empty()) return "";
  return cat("\nStage balance\n", balance_table(r.search.balance, r.plan));
}

std::string alternative_section(const PlannerResult& r) {
  if (r.alternatives.empty()) return "";
  std::vector<std::vector<std::string>> rows{{"baselines and runners-up", "step", "against", "memory", "lost time"}};
  for (const Alternative& a : r.alternatives) {
    const bool timed = a.iteration_ns > 0 && r.prediction.iteration_ns > 0;
    const double slower = timed ? static_cast<double>(a.iteration_ns) / static_cast<double>(r.prediction.iteration_ns) - 1 : 0;
    std::string name = a.label;
    if (a.baseline && a.plan) name += ": " + a.plan->label();
    if (a.outside_space) name += " (outside the searched space)";
    rows.push_back({name, timed ? seconds(a.iteration_ns) : "–", timed ? cat(slower >= 0 ? "+" : "", percent(slower)) : "–",
                    a.peak_memory_bytes > 0 ? gib(a.peak_memory_bytes) + (a.fits ? "" : " !") : "–", a.lost_to});
  }
  return cat("\n", table(rows, {4}));
}

std::string short_reasons(const PlannerResult& r) {
  if (r.reasons.empty()) return "";
  std::string out = "\nWhy\n";
  for (const std::string& reason : r.reasons) out += cat("  - ", wrap(reason, 110, "    "), "\n");
  return out;
}

}  // namespace

std::string job_words(const Plan& plan) {
  const Training& t = plan.training;
  return plan.model_name + " on " +
         (plan.cluster_summary.empty() ? std::to_string(device_count(plan)) + " devices" : plan.cluster_summary) + " · " +
         std::string(to_string(t.precision)) + " · " + sequence_text(t.sequence) + " · global batch " + grouped(t.global_batch);
}

std::string job_line(const Plan& plan) { return cat(job_words(plan), " · engine ", plan.engine); }

std::string certificate_text(const SearchSummary& s) { return certificate(s) + not_searched(s); }

std::string answer_line(std::string_view name, const std::string& value) { return cat("  ", pad_right(name, 14), value, "\n"); }

std::string wrapped_line(std::string_view name, const std::string& value) {
  return answer_line(name, wrap(value, 100, std::string(16, ' ')));
}

std::string at_most(double gap) { return gap > 0 && gap < 0.0005 ? "less than 0.1 %" : cat("at most ", percent(gap)); }

std::string signed_percent(double fraction) { return cat(fraction >= 0 ? "+" : "", percent(fraction)); }

std::string cost_text(const Expense& cost, bool tokens) {
  const auto money = [&](double amount, int digits) { return cat(fixed(amount, digits), " ", cost.currency); };
  std::string out =
      cat(money(cost.per_step, cost.per_step < 1 ? 4 : 2), " per step, ", money(cost.per_token * 1e6, 3), " per million ",
          tokens ? "tokens" : "samples", " · ", std::to_string(cost.devices), " devices, ", money(cost.per_hour, 2), " per hour");
  if (cost.egress_per_step > 0) out += cat(" · ", money(cost.egress_per_step, 4), " per step of it for bytes between sites");
  if (cost.whole_run > 0) out += cat(" · ", money(cost.whole_run, 0), " for the whole run");
  return out;
}

std::string fit_note(const Prediction& p) {
  if (p.fits && !p.fits_with_margin) return cat("   MAY NOT FIT: the memory margin is ", percent(p.memory_margin));
  if (p.fits) return "";
  return p.peak_memory_bytes > p.memory_limit_bytes ? "   DOES NOT FIT" : "   DOES NOT FIT into the hosts' memory";
}

std::string busiest_links(const Prediction& p) {
  if (!p.network || p.network->links.empty()) return "";
  const std::vector<LinkUse>& links = p.network->links;
  const LinkUse& busiest =
      *std::max_element(links.begin(), links.end(), [](const auto& a, const auto& b) { return a.busy < b.busy; });
  return cat(busiest.link, ", ", percent(busiest.busy), " of the step, ", percent(busiest.highest_load),
             " of its capacity at peak");
}

std::string run_words(const Prediction& p) { return cat(fixed(p.days, 1), " days, ", count(p.device_hours), " GPU-hours"); }

bool counts_tokens(const Plan& plan) { return plan.training.sequence.main > 0 || plan.training.sequence.encoder > 0; }

}  // namespace espalier::report

namespace espalier {

using namespace report;

std::string PlannerResult::brief(std::size_t width) const {
  const std::string text = headline(*this) + "  " + job_line(plan) + "\n" +
                           time_section(prediction, planner::host_work_of(plan)) + network_section(prediction) +
                           memory_section(prediction) + stage_section(*this) + balance_section(*this) + operator_section(*this) +
                           alternative_section(*this) + engine_section(*this) + short_reasons(*this);
  return lay_out(text, width);
}

}  // namespace espalier
