// SPDX-License-Identifier: Apache-2.0
#include "espalier/configuration_diff.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "base/document.h"
#include "base/format.h"
#include "base/invariant.h"
#include "base/toml.h"
#include "exchange/dictionary.h"
#include "exchange/file_edits.h"
#include "exchange/plan_settings.h"
#include "exchange/settings.h"
#include "runlog/argument_block.h"

namespace espalier::exchange {
namespace {

/// Lists other flags with the same meaning as a key. Where the key changes they are removed, so that the file does
/// not contradict itself.
struct OtherNames {
  const char* key;
  std::array<const char*, 4> others;
};
constexpr std::array kOtherNames = {
    OtherNames{"--num-virtual-stages-per-pipeline-rank",
               {"--num-layers-per-virtual-pipeline-stage", "--virtual-pipeline-model-parallel-size", nullptr, nullptr}},
    OtherNames{"--pipeline-model-parallel-layout",
               {"--decoder-first-pipeline-num-layers", "--decoder-last-pipeline-num-layers",
                "--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"}},
    OtherNames{"--recompute-granularity", {"--recompute-activations", "--checkpoint-activations", nullptr, nullptr}},
};

WantedValue::Words words_of(const KeyTable& table, const std::string& key) {
  const KeyRow* row = table.find(key);
  if (row == nullptr) return WantedValue::Words::one;
  return row->type == "list"                         ? WantedValue::Words::several
         : row->type == "flag" || row->type == "off" ? WantedValue::Words::none
                                                     : WantedValue::Words::one;
}

/// Returns the keys that differ, and their other names, without the keys of the training script.
std::vector<WantedValue> differing(const KeyTable& table, const PlanSettings& before, const PlanSettings& after) {
  std::set<std::string> keys;
  for (const PlanSettings* settings : {&before, &after})
    for (const auto& [key, value] : *settings) keys.insert(key);
  const auto value_in = [](const PlanSettings& settings, const std::string& key) {
    const auto at = settings.find(key);
    return at == settings.end() ? std::string() : at->second;
  };
  std::vector<WantedValue> out;
  for (const std::string& key : keys) {
    ESPALIER_CHECK(!key.empty());
    if (key.front() == '@' || value_in(before, key) == value_in(after, key)) continue;
    out.push_back({key, value_in(before, key), value_in(after, key), words_of(table, key)});
    for (const OtherNames& row : kOtherNames)
      if (key == row.key)
        for (const char* other : row.others)
          if (other != nullptr) out.push_back({other, "", "", words_of(table, other)});
  }
  return out;
}

/// Returns whether the key's row only describes how the job runs. A file must not keep such a key where the plan does
/// not have it.
bool states_the_plan(const KeyTable& table, const std::string& key) {
  const KeyRow* row = table.find(key);
  return row != nullptr && row->verdict == KeyRow::Verdict::reads &&
         (row->text.starts_with("strategy") || row->text.starts_with("schedule") || row->text == "stages");
}

/// Returns the settings that the file states: keys of the plan, and every key of `after`.
PlanSettings of_file(const ImportedConfiguration& c, const std::string& format, const PlanSettings& after) {
  const bool megatron = format == "megatron-args";
  PlanSettings out;
  for (const ImportedKey& key : c.keys) {
    if (key.line == 0 || key.kind == ImportedKey::Kind::defaulted) continue;
    std::string name = key.key;
    if (megatron) {
      name = cat("--", name.starts_with("--") ? name.substr(2) : name);
      std::replace(name.begin(), name.end(), '_', '-');
    }
    if (after.contains(name) || states_the_plan(key_table(format), key.key))
      out[name] = key.value == "True" && megatron ? "on" : key.value;
  }
  return out;
}

enum class Syntax : std::uint8_t { flags, toml, yaml, json, printed };

Syntax syntax_of(const std::string& format, const ConfigurationRequest& request) {
  if (format == "deepspeed") return Syntax::json;
  if (format == "accelerate") return Syntax::yaml;
  if (format == "torchtitan") return base::read_toml(request.text, request.name) ? Syntax::toml : Syntax::flags;
  const auto block = runlog::read_argument_block(request.text, request.name);
  return block && !block->empty() ? Syntax::printed : Syntax::flags;
}

std::map<std::string, std::int64_t> lines_of(const Result<base::Document>& document) {
  std::map<std::string, std::int64_t> out;
  if (document)
    for (const Setting& setting : settings_of(document->root)) out[setting.key] = setting.line;
  return out;
}

/// Rewrites keys as flags, as torchtitan's command line has them.
std::vector<WantedValue> as_titan_flags(std::vector<WantedValue> wanted) {
  std::vector<WantedValue> out;
  for (WantedValue& w : wanted) {
    w.key = cat("--", w.key);
    if (w.after == "true" || w.after == "false") {
      const std::size_t dot = w.key.rfind('.') + 1;
      if (w.after == "false") w.key.insert(dot, "no-");
      w.after = "on";
      w.words = WantedValue::Words::none;
    }
    out.push_back(std::move(w));
  }
  return out;
}

Result<EditedFile> edited(Syntax syntax, const std::string& format, const ConfigurationRequest& request,
                          const std::vector<WantedValue>& wanted, const std::vector<std::string>& anchors) {
  switch (syntax) {
    case Syntax::json: return edit_json(request.text, request.name, wanted);
    case Syntax::toml: return edit_table(request.text, true, lines_of(base::read_toml(request.text, request.name)), wanted);
    case Syntax::yaml: return edit_table(request.text, false, lines_of(base::read_yaml(request.text, request.name)), wanted);
    case Syntax::printed:
    case Syntax::flags: break;
  }
  return edit_flags(request.text, format == "torchtitan" ? as_titan_flags(wanted) : wanted, anchors);
}

/// Returns flags that new ones are placed next to: those of the plan, then any that the file has.
std::vector<std::string> anchors_in(const ImportedConfiguration& configuration) {
  std::vector<std::string> out = {"--tensor-model-parallel-size",
                                  "--pipeline-model-parallel-size",
                                  "--micro-batch-size",
                                  "--global-batch-size",
                                  "--seq-length",
                                  "--num-layers"};
  for (const ImportedKey& key : configuration.keys)
    if (key.line > 0 && key.written.starts_with("--")) out.push_back(key.written);
  return out;
}

/// Changes arguments that the training script takes and the file does not hold. The file is then read again with
/// them.
void follow_script(const PlanSettings& before, const PlanSettings& after, ConfigurationRequest& again,
                   std::vector<ConfigurationEdit>& edits) {
  const auto change = [&](const char* key, const std::string& name) -> const std::string* {
    const auto at = after.find(key);
    if (at == after.end()) return nullptr;
    const auto was = before.find(key);
    if (was == before.end() || was->second != at->second)
      edits.push_back({cat("training script: ", name), was == before.end() ? "" : was->second, at->second, 0});
    return &at->second;
  };
  change("@micro-batch", "micro-batch");
  if (const std::string* what = change("@recompute", "recompute"); what && !again.recompute.empty()) again.recompute = *what;
}

/// Holds the file to change, and the plan that it must give.
struct FileTask {
  const ConfigurationRequest& request;
  const std::string& format;
  const Job& job;
  const Plan& wanted;
  ImportedConfiguration now;
  Syntax syntax;
};

/// Reads the text again. Returns an error, the label of a different plan, or another unwanted change; empty for the
/// wanted plan of the same training.
std::string read_again(const FileTask& task, const ConfigurationRequest& changed) {
  const auto then = find_configuration_format(task.format)->read(changed);
  if (!then) return then.error().message();
  if (then->global_batch != task.now.global_batch) return cat("global batch ", then->global_batch);
  if (then->sequence_length != task.now.sequence_length) return cat("sequences of ", then->sequence_length);
  if (then->precision != task.now.precision) return cat("precision ", to_string(then->precision));
  const auto plan = plan_of(task.job, *then);
  if (!plan) return plan.error().message();
  return plan->pipelines == task.wanted.pipelines ? std::string() : plan->label();
}

/// Returns the file with the settings that differ.
Result<ConfigurationDiff> changed(const FileTask& task, const PlanSettings& before, const PlanSettings& after) {
  auto file =
      edited(task.syntax, task.format, task.request, differing(key_table(task.format), before, after), anchors_in(task.now));
  if (!file) return file.error();
  ConfigurationDiff out;
  out.edits = std::move(file->edits);
  ConfigurationRequest again = task.request;
  if (again.micro_batch > 0) again.micro_batch = task.wanted.only_pipeline().schedule.micro_batch;
  follow_script(before, after, again, out.edits);
  again.text = file->text;
  out.differs = read_again(task, again);
  out.text = std::move(file->text);
  return out;
}

/// Returns the diff without a text, because a block of printed arguments cannot be edited.
ConfigurationDiff without_text(ConfigurationDiff diff) {
  diff.why = "the file is output of the framework: change the launch script instead";
  diff.differs.clear();
  diff.text.clear();
  for (ConfigurationEdit& edit : diff.edits) edit.line = 0;
  return diff;
}

}  // namespace

Result<ConfigurationDiff> configuration_diff(const ConfigurationRequest& request, const std::string& format, const Job& job,
                                             const Plan* present, const Plan& wanted) {
  if (find_configuration_format(format) == nullptr)
    return Error{ErrorKind::bad_input, "format", format, "one of configuration_formats()", ""};
  ConfigurationDiff out;
  const auto after = plan_settings(format, job, wanted);
  if (!after) {
    out.why = cat("the file cannot express the plan: ", after.error().found);
    return out;
  }
  auto configuration = find_configuration_format(format)->read(request);
  if (!configuration) return configuration.error();
  const FileTask task{request, format, job, wanted, std::move(*configuration), syntax_of(format, request)};
  // First, only the keys in which the two plans differ are written. Where that gives another plan, keys that the file
  // leaves to defaults are written as well, then every key.
  const PlanSettings stated = of_file(task.now, format, *after);
  std::vector<PlanSettings> forms;
  if (present != nullptr)
    if (const auto now = plan_settings(format, job, *present)) {
      forms.push_back(*now);
      forms.push_back(*now);
      std::erase_if(forms.back(), [&](const auto& setting) { return !stated.contains(setting.first); });
    }
  forms.push_back(stated);
  for (std::size_t k = 0; k < forms.size(); ++k) {
    auto diff = changed(task, forms[k], *after);
    if (!diff) return diff.error();
    const bool whole = diff->differs.empty();
    if (k == 0 || whole) out = std::move(*diff);
    if (whole) break;
  }
  return task.syntax == Syntax::printed ? without_text(std::move(out)) : out;
}

std::string to_text(const ConfigurationDiff& diff, const std::string& name) {
  if (diff.edits.empty()) return diff.why.empty() ? "" : cat(name, ": ", diff.why, "\n");
  std::string out = cat("Changes in ", name, "\n");
  for (const ConfigurationEdit& e : diff.edits) {
    const bool added = e.before.empty(), removed = e.after.empty();
    const std::string where = e.line > 0 ? cat("line ", e.line, ":") : added ? "add" : removed ? "remove" : "set";
    const std::string value = removed ? (e.line > 0 ? " removed" : "")
                              : added ? (e.after == "on" ? "" : cat(" ", e.after))
                                      : cat(" ", e.before, " -> ", e.after);
    out += cat("  ", base::pad_right(where, 10), e.key, value, "\n");
  }
  if (!diff.why.empty()) out += cat("  ", diff.why, "\n");
  if (!diff.differs.empty()) out += cat("  With these changes alone, the file yields a different plan: ", diff.differs, "\n");
  return out;
}

std::string to_json(const ConfigurationDiff& diff) {
  base::JsonWriter w;
  w.begin_object().key("edits").begin_array();
  for (const ConfigurationEdit& e : diff.edits) {
    w.compact_next().begin_object().key("key").value(e.key).key("before").value(e.before).key("after").value(e.after);
    w.key("line").value(e.line).end_object();
  }
  w.end_array();
  if (!diff.why.empty()) w.key("why").value(diff.why);
  if (!diff.differs.empty()) w.key("read_again").value(diff.differs);
  w.end_object();
  return w.text();
}

}  // namespace espalier::exchange
