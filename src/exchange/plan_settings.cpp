// SPDX-License-Identifier: Apache-2.0
#include "exchange/plan_settings.h"

#include <algorithm>
#include <vector>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "espalier/exchange.h"
#include "exchange/launch_script.h"
#include "exchange/megatron.h"
#include "exchange/settings.h"
#include "exchange/torchtitan.h"

namespace espalier::exchange {
namespace {

/// The exporter's fault; rules of the model's architecture do not matter to a file that holds it already.
Status refused(const char* exporter, const Job& job, const Plan& plan) {
  if (plan.pipelines.size() != 1 || !plan.uniform())
    return Error{ErrorKind::check_failed, exporter, "layers of different strategies", "one strategy for all layers", ""};
  const Exporter& format = *find_exporter(exporter);
  const auto fault = format.fault == nullptr ? std::nullopt : format.fault(job, plan);
  if (!fault || fault->id.ends_with("-FAMILY") || fault->id.ends_with("-BLOCK-KINDS")) return {};
  return to_error(*fault, format);
}

PlanSettings of_flags(const std::vector<LaunchFlag>& flags) {
  PlanSettings out;
  for (const LaunchFlag& flag : flags) {
    ESPALIER_CHECK(!flag.name.empty());
    out[flag.name] = flag.value.empty() ? kSwitch : flag.value;
  }
  return out;
}

Result<PlanSettings> megatron(const Job& job, const Plan& plan) {
  if (auto error = refused("megatron-core", job, plan)) return *error;
  return of_flags(megatron_plan_flags(job, plan));
}

/// "--compile.no-enable" is compile.enable = false.
Result<PlanSettings> torchtitan(const Job& job, const Plan& plan) {
  if (auto error = refused("torchtitan", job, plan)) return *error;
  PlanSettings out;
  for (const LaunchFlag& flag : titan_plan_flags(job, plan)) {
    std::string key = flag.name.substr(2), value = flag.value.empty() ? "true" : flag.value;
    const std::size_t no = key.find(".no-");
    if (no != std::string::npos) {
      key.erase(no + 1, 3);
      value = "false";
    }
    std::replace(key.begin(), key.end(), '-', '_');
    out[key] = value;
  }
  const Recompute& r = plan.strategy().recompute;
  out["activation_checkpoint.mode"] = to_string(r.kind);
  return out;
}

/// Keys of what the exporter writes, without Espalier's own.
Result<PlanSettings> of_document(const char* exporter, const Job& job, const Plan& plan, bool json) {
  if (auto error = refused(exporter, job, plan)) return *error;
  const auto text = find_exporter(exporter)->write({job, plan});
  if (!text) return text.error();
  const auto document = json ? base::read_json(*text, exporter) : base::read_yaml(*text, exporter);
  if (!document) return document.error();
  PlanSettings out;
  for (const Setting& setting : settings_of(document->root))
    if (!setting.key.starts_with("espalier.")) out[setting.key] = setting.value;
  out["@recompute"] = to_string(plan.strategy().recompute.kind);
  return out;
}

Result<PlanSettings> accelerate(const Job& job, const Plan& plan) {
  auto out = of_document("accelerate-fsdp", job, plan, false);
  if (!out) return out;
  (*out)["@micro-batch"] = std::to_string(plan.only_pipeline().schedule.micro_batch);
  (*out)["gradient_accumulation_steps"] = std::to_string(plan.only_pipeline().schedule.microbatches);
  return out;
}

}  // namespace

Result<PlanSettings> plan_settings(const std::string& format, const Job& job, const Plan& plan) {
  ESPALIER_CHECK(!format.empty() && !plan.pipelines.empty());
  if (format == "megatron-args") return megatron(job, plan);
  if (format == "torchtitan") return torchtitan(job, plan);
  if (format == "deepspeed") return of_document("deepspeed", job, plan, true);
  if (format == "accelerate") return accelerate(job, plan);
  return Error{ErrorKind::bad_input, "format", format, "one of configuration_formats()", ""};
}

}  // namespace espalier::exchange
