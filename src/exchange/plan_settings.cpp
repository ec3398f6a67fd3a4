// SPDX-License-Identifier: Apache-2.0
#include "exchange/plan_settings.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "espalier/exchange.h"
#include "exchange/format_rules.h"
#include "exchange/launch_script.h"
#include "exchange/megatron.h"
#include "exchange/settings.h"
#include "exchange/torchtitan.h"

namespace espalier::exchange {
namespace {

/// Returns the exporter's fault. Rules of the model's architecture do not matter to a file that already holds it.
Status refused(const char* exporter, const Job& job, const Plan& plan) {
  if (!plan.uniform())
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

Result<PlanSettings> megatron(const WrittenPlan& w) { return of_flags(megatron_plan_flags(w)); }

/// Converts flags to keys: "--compile.no-enable" is compile.enable = false.
Result<PlanSettings> torchtitan(const WrittenPlan& w) {
  PlanSettings out;
  for (const LaunchFlag& flag : titan_plan_flags(w)) {
    std::string key = flag.name.substr(2), value = flag.value.empty() ? "true" : flag.value;
    const std::size_t no = key.find(".no-");
    if (no != std::string::npos) {
      key.erase(no + 1, 3);
      value = "false";
    }
    std::replace(key.begin(), key.end(), '-', '_');
    out[key] = value;
  }
  out["activation_checkpoint.mode"] = to_string(w.strategy().recompute.kind);
  return out;
}

/// Returns the keys that the exporter writes, without Espalier's own.
Result<PlanSettings> of_document(const char* exporter, const WrittenPlan& w, bool json) {
  const auto text = find_exporter(exporter)->write(w.request);
  if (!text) return text.error();
  const auto document = json ? base::read_json(*text, exporter) : base::read_yaml(*text, exporter);
  if (!document) return document.error();
  PlanSettings out;
  for (const Setting& setting : settings_of(document->root))
    if (!setting.key.starts_with("espalier.")) out[setting.key] = setting.value;
  out["@recompute"] = to_string(w.strategy().recompute.kind);
  return out;
}

Result<PlanSettings> deepspeed(const WrittenPlan& w) { return of_document("deepspeed", w, true); }

Result<PlanSettings> accelerate(const WrittenPlan& w) {
  auto out = of_document("accelerate-fsdp", w, false);
  if (!out) return out;
  (*out)["@micro-batch"] = std::to_string(w.schedule().micro_batch);
  (*out)["gradient_accumulation_steps"] = std::to_string(w.schedule().microbatches);
  return out;
}

/// Names a configuration format, and the exporter whose rules a plan of it keeps.
struct SettingsFormat {
  const char *name, *exporter;
  Result<PlanSettings> (*settings)(const WrittenPlan& plan);
};
constexpr std::array kSettingsFormats = {
    SettingsFormat{"megatron-args", "megatron-core", megatron}, SettingsFormat{"torchtitan", "torchtitan", torchtitan},
    SettingsFormat{"deepspeed", "deepspeed", deepspeed}, SettingsFormat{"accelerate", "accelerate-fsdp", accelerate}};

}  // namespace

Result<PlanSettings> plan_settings(const std::string& format, const Job& job, const Plan& plan) {
  ESPALIER_CHECK(!format.empty());
  for (const SettingsFormat& row : kSettingsFormats) {
    if (row.name != format) continue;
    if (Status status = refused(row.exporter, job, plan); !status.ok()) return status.error();
    const ExportRequest request{&job, &plan};
    return row.settings({request, plan.only_pipeline()});
  }
  return Error{ErrorKind::bad_input, "format", format, "one of configuration_formats()", ""};
}

}  // namespace espalier::exchange
