// SPDX-License-Identifier: Apache-2.0
// Writes the figures of the first screen, and how each is derived.
#include <algorithm>

#include "base/format.h"
#include "plan/sample_tokens.h"
#include "planner/time_parts.h"
#include "report/flops_text.h"
#include "report/page_parts.h"
#include "report/shown_stage.h"

namespace espalier::report {
namespace {

bool has_tokens(const Plan& plan) { return plan.training.sequence.main > 0 || plan.training.sequence.encoder > 0; }

const DeviceKind& first_device(const Job& job) { return job.cluster.groups.front().device; }

/// Returns where a part of the shown stage is in result.json.
std::string source_of_part(const Prediction& p, const char* part) {
  return cat(is_pipeline(p) ? "prediction.bottleneck.breakdown_s" : "prediction.breakdown_s", *part == '\0' ? "" : ".", part);
}
std::string parts_source(const Prediction& p, const char* part) {
  const std::string stage = shown_stage(p);
  return cat(source_of_part(p, part), stage.empty() ? "" : ", of ", stage, "; docs/simulation.md");
}
/// Returns "120.0 ms of stage 3, the busiest".
std::string of_stage(const std::string& text, const Prediction& p) {
  const std::string stage = shown_stage(p);
  return cat(text, stage.empty() ? "" : " of ", stage);
}

Figure step_figure(const PlannerResult& r) {
  const Prediction& p = r.prediction;
  Figure f{"iteration",
           "Step time",
           seconds(p.iteration_ns),
           "",
           "prediction.iteration_s",
           "the simulated time of one step, from the start of its first instruction to the end of its last"};
  if (p.confidence.high_s > 0)
    f.note = cat(seconds(static_cast<std::int64_t>(p.confidence.low_s * 1e9)), " – ",
                 seconds(static_cast<std::int64_t>(p.confidence.high_s * 1e9)), " with ", percent(p.confidence.level));
  else
    f.note = p.confidence.basis;
  for (const planner::TimePart& part : planner::time_parts(shown_parts(p), planner::host_work_of(r.plan)))
    f.derivation.push_back(
        {part.name, cat(seconds(part.ns), " (", percent(share_of(part.ns, p.iteration_ns)), ")"), parts_source(p, "")});
  f.derivation.push_back({"interval", f.note, p.confidence.basis});
  return f;
}

Figure throughput_figure(const Job& job, const PlannerResult& r) {
  const Prediction& p = r.prediction;
  const bool tokens = has_tokens(r.plan);
  Figure f{"throughput",
           tokens ? "Tokens / s / GPU" : "Samples / s / GPU",
           count(p.tokens_per_s_per_device),
           "",
           "prediction.tokens_per_s_per_gpu",
           tokens ? "global batch · tokens per sample / (step time · devices)" : "global batch / (step time · devices)"};
  const std::int64_t devices = job.cluster.devices();
  f.note = cat(count(p.tokens_per_s_per_device * static_cast<double>(devices)), tokens ? " tokens/s on " : " samples/s on ",
               grouped(devices), " GPUs");
  f.derivation.push_back({"global batch", cat(grouped(r.plan.training.global_batch), " samples"), "plan.training.global_batch"});
  if (tokens)
    f.derivation.push_back(
        {"tokens per sample", grouped(sample_tokens(r.plan.training.sequence)), "plan.training.sequence_length"});
  f.derivation.push_back({"step time", seconds(p.iteration_ns), "prediction.iteration_s"});
  f.derivation.push_back({"devices", grouped(devices), "plan.cluster"});
  return f;
}

Figure mfu_figure(const Job& job, const PlannerResult& r) {
  const Prediction& p = r.prediction;
  Figure f{"mfu",
           "MFU",
           percent(p.mfu),
           cat("of ", report::peak_text(p.mfu_peak_tflops), ", attention in full"),
           "prediction.mfu",
           "model FLOPs of a step / (step time · devices · peak); recomputation does not count as work"};
  f.share = p.mfu;
  f.derivation.push_back({"model TFLOP/s/GPU", fixed(p.model_tflops_per_device, 1),
                          "prediction.model_tflops_per_gpu; three forward passes, docs/cost-model.md"});
  if (p.mfu_causal > 0)
    f.derivation.push_back({"causal attention counted half", percent(p.mfu_causal), "prediction.mfu_causal, docs/cost-model.md"});
  f.derivation.push_back({"peak", cat(fixed(p.mfu_peak_tflops, 1), " TFLOP/s, dense ", to_string(r.plan.training.precision)),
                          source_of(first_device(job), "peak_tflops")});
  f.derivation.push_back({"parameters", base::short_count(static_cast<double>(parameter_count(job.model))), "plan.model"});
  return f;
}

std::size_t fullest_stage(const Prediction& p) {
  const auto& peaks = p.peak_memory_bytes_per_stage;
  return static_cast<std::size_t>(std::max_element(peaks.begin(), peaks.end()) - peaks.begin());
}

Figure memory_figure(const Job& job, const PlannerResult& r) {
  const Prediction& p = r.prediction;
  const double share = share_of(p.peak_memory_bytes, p.memory_limit_bytes);
  Figure f{"memory",
           "Fullest rank",
           gib(p.peak_memory_bytes),
           cat("of ", gib(p.memory_limit_bytes), ", ", percent(share)),
           "prediction.peak_memory_bytes",
           "the peak of what the rank holds, including the reserve of the allocator"};
  if (!p.fits)
    f.note += p.peak_memory_bytes > p.memory_limit_bytes ? ": DOES NOT FIT" : ": the hosts CANNOT HOLD the offloaded data";
  else if (!p.fits_with_margin)
    f.note += cat(": MAY NOT FIT, the memory margin is ", percent(p.memory_margin));
  f.share = share;
  for (const MemoryPart& part : memory_parts(p.memory))
    f.derivation.push_back({part.name, gib(part.bytes), cat("prediction.memory_breakdown_bytes, of stage ", fullest_stage(p))});
  const DeviceKind& device = first_device(job);
  f.derivation.push_back(
      {"memory of the device", gib(static_cast<std::int64_t>(device.memory.count())), source_of(device, "memory")});
  f.derivation.push_back({"reserved by the driver", gib(static_cast<std::int64_t>(device.context_reserve.count())),
                          source_of(device, "context_reserve")});
  if (p.memory_margin > 0)
    f.derivation.push_back({"left free by a search", percent(p.memory_margin),
                            r.search.memory_margin_basis.empty() ? "prediction.memory_margin" : r.search.memory_margin_basis});
  return f;
}

Figure share_figure(const char* id, const char* name, std::int64_t part, const Prediction& p, std::string note,
                    std::string from) {
  Figure f{id, name, percent(share_of(part, p.iteration_ns)), std::move(note), std::move(from), "of the step time"};
  f.share = share_of(part, p.iteration_ns);
  return f;
}

Figure bubble_figure(const Prediction& p) {
  const std::int64_t bubble = shown_parts(p).bubble_ns;
  Figure f = share_figure("bubble", "Pipeline bubble", bubble, p, of_stage(seconds(bubble), p), source_of_part(p, "bubble"));
  f.derivation.push_back({"bubble", seconds(bubble), parts_source(p, "bubble")});
  for (std::size_t stage = 0; stage < p.bottleneck.busy_per_stage.size(); ++stage)
    f.derivation.push_back(
        {cat("stage ", stage, " is busy"), percent(p.bottleneck.busy_per_stage[stage]), "prediction.bottleneck.busy_per_stage"});
  return f;
}

Figure exposed_figure(const Prediction& p) {
  const std::int64_t exposed = shown_parts(p).exposed_communication_ns;
  Figure f = share_figure("exposed", "Exposed communication", exposed, p, of_stage(seconds(exposed), p),
                          source_of_part(p, "exposed_communication"));
  f.derivation.push_back({"exposed", seconds(exposed), parts_source(p, "exposed_communication")});
  f.derivation.push_back(
      {is_pipeline(p) ? cat("hidden under compute, stage ", p.last_stage, ", which finishes last") : "hidden under compute",
       seconds(p.hidden_communication_ns), "prediction.hidden_communication_s"});
  return f;
}

Figure days_figure(const PlannerResult& r) {
  const Prediction& p = r.prediction;
  Figure f{"days",
           "Whole run",
           "not requested",
           "set training.tokens in the job to get days",
           "",
           "tokens / (tokens per step) · step time"};
  if (p.days <= 0) return f;
  f.text = cat(fixed(p.days, 1), " days");
  f.note = cat(count(p.device_hours), " GPU-hours");
  f.from = "prediction.days";
  f.derivation.push_back({"tokens", count(r.plan.training.tokens), "plan.training.tokens"});
  f.derivation.push_back({"step time", seconds(p.iteration_ns), "prediction.iteration_s"});
  return f;
}

Figure cost_figure(const PlannerResult& r) {
  Figure f{"cost",      "Cost",
           "not known", "set price_per_device_hour in the cluster to get it",
           "",          "price of the devices · step time, and traffic that leaves sites"};
  if (!r.prediction.cost) return f;
  const Expense& cost = *r.prediction.cost;
  const auto money = [&](double amount, int digits) { return cat(fixed(amount, digits), " ", cost.currency); };
  f.from = cost.whole_run > 0 ? "prediction.cost.whole_run" : "prediction.cost.per_step";
  f.text = cost.whole_run > 0 ? money(cost.whole_run, 0) : cat(money(cost.per_step, cost.per_step < 1 ? 4 : 2), " per step");
  f.note = cat(money(cost.per_hour, 2), " per hour for ", grouped(cost.devices), " devices");
  f.derivation.push_back({"per step", money(cost.per_step, 6), "prediction.cost.per_step"});
  f.derivation.push_back({has_tokens(r.plan) ? "per million tokens" : "per million samples", money(cost.per_token * 1e6, 3),
                          "prediction.cost.per_token"});
  f.derivation.push_back({"per hour", money(cost.per_hour, 2), "prediction.cost.per_hour; prices of the cluster file"});
  return f;
}

}  // namespace

std::vector<Figure> page_figures(const Job& job, const PlannerResult& result) {
  const Prediction& p = result.prediction;
  return {step_figure(result),     throughput_figure(job, result),
          mfu_figure(job, result), memory_figure(job, result),
          bubble_figure(p),        exposed_figure(p),
          days_figure(result),     cost_figure(result)};
}

}  // namespace espalier::report
