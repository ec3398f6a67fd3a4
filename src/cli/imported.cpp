// SPDX-License-Identifier: Apache-2.0
#include "cli/imported.h"

#include <algorithm>
#include <filesystem>

#include "base/document.h"
#include "base/format.h"
#include "base/text.h"
#include "job/overrides.h"
#include "report/brief_text.h"

namespace espalier::cli {
namespace {

std::int64_t count_of(const exchange::ImportedConfiguration& c, exchange::ImportedKey::Kind kind) {
  return std::count_if(c.keys.begin(), c.keys.end(), [kind](const exchange::ImportedKey& key) { return key.kind == kind; });
}

std::string shown(const std::string& value) {
  constexpr std::size_t kMost = 40;
  return value.size() > kMost ? value.substr(0, kMost) + "…" : value;
}

/// Returns the key's line, or "–" without one.
std::string line_of(const exchange::ImportedKey& key) { return key.line > 0 ? std::to_string(key.line) : "–"; }

/// Returns the name as the file spells it.
const std::string& name_of(const exchange::ImportedKey& key) { return key.written.empty() ? key.key : key.written; }

/// Returns the precision that --set gives, which some files leave open.
std::optional<Precision> said_precision(const std::vector<std::string>& overrides) {
  const std::vector<std::string> path = {"training", "precision"};
  std::optional<Precision> out;
  for (const std::string& text : overrides)
    if (const auto change = job::parse_override(text); change && change->path == path) out = parse_precision(change->value.text);
  return out;
}

void note_keys(Context& context, const exchange::ImportedConfiguration& c) {
  for (const exchange::ImportedKey& key : c.keys)
    if (key.kind == exchange::ImportedKey::Kind::not_understood && key.value.empty())
      note(context, cat(c.name, ":", line_of(key), ": ", name_of(key), ": ", key.meaning));
    else if (key.kind == exchange::ImportedKey::Kind::not_understood)
      note(context,
           cat(c.name, ":", line_of(key), ": ", name_of(key), " = ", shown(key.value), " is not understood and not used"));
    else if (key.kind == exchange::ImportedKey::Kind::defaulted && key.key.starts_with('$'))
      note(context, cat(c.name, ":", line_of(key), ": ", name_of(key), " = ", shown(key.value), ": ", key.meaning));
    else if (key.kind == exchange::ImportedKey::Kind::not_modelled)
      note(context, cat(c.name, ":", line_of(key), ": ", name_of(key), " = ", shown(key.value),
                        " is known but not modelled: ", key.meaning));
  if (context.verbose == 0) return;
  for (const exchange::ImportedKey& key : c.keys)
    note(context, cat(c.name, ":", line_of(key), ": ", name_of(key), " = ", shown(key.value), ": ", to_string(key.kind), ", ",
                      key.meaning));
}

}  // namespace

void add_imported_flags(Command& command, const std::string& format, ImportedFlags& flags) {
  std::vector<std::string> names;
  std::string help = "format of FILE:";
  for (const exchange::ConfigurationFormat& row : exchange::configuration_formats()) {
    help += cat(names.empty() ? " " : "; ", row.name, ": ", row.reads);
    names.push_back(row.name);
  }
  command.add_option("file", flags.path, "the configuration; - for stdin")->required()->type_name("FILE");
  if (!format.empty()) command.add_option(format, flags.format, help)->required()->one_of(names);
  command.add_option("--cluster", flags.cluster, "cluster file: the devices it runs on")->required()->type_name("FILE");
  command.add_option("--model", flags.model, "config.json of the model, if the configuration does not include it")
      ->type_name("FILE");
  command.add_option("--sequence-length", flags.sequence_length, "tokens per sample, if the configuration does not state it")
      ->positive();
  command.add_option("--global-batch", flags.global_batch, "samples per step, if the configuration does not state it")
      ->positive();
  command.add_option("--micro-batch", flags.micro_batch, "samples per micro-batch, if the configuration does not state it")
      ->range(1, 1 << 20)
      ->type_name("N");
  command
      .add_option("--recompute", flags.recompute,
                  "what the training script recomputes, if the configuration does not state it: none, selective, full, or "
                  "modules of a block (layernorm,act)")
      ->type_name("WHAT");
  command.add_option("--ignore", flags.ignored, "key to ignore because it does not change the plan (repeatable)")
      ->type_name("KEY")
      ->one_value_each();
  command
      .add_option("--arg", flags.arguments, "a variable or a positional parameter of a launch script: TP=4, 1=7B (repeatable)")
      ->type_name("NAME=VALUE")
      ->one_value_each();
  command.add_option("--with", flags.with, "a file that a launch script sources (repeatable)")
      ->type_name("FILE")
      ->one_value_each();
  command.add_option("--set", flags.overrides, "override a value of the job: training.tokens=1e12 (repeatable)")
      ->type_name("PATH=VALUE")
      ->one_value_each();
}

namespace {

/// Reads --arg and --with.
Status take_shell(const ImportedFlags& flags, exchange::ConfigurationRequest& request) {
  for (const std::string& argument : flags.arguments) {
    const std::size_t equals = argument.find('=');
    if (equals == std::string::npos || equals == 0)
      return Error{ErrorKind::usage, "--arg", base::in_quotes(argument), "NAME=VALUE, or 1=VALUE for the first parameter",
                   "--arg TP=4"};
    const std::size_t first = argument.front() == '$' ? 1 : 0;
    request.variables[argument.substr(first, equals - first)] = argument.substr(equals + 1);
  }
  for (const std::string& path : flags.with) {
    auto text = base::read_file(path);
    if (!text) return text.error();
    request.with.emplace_back(path, std::move(*text));
  }
  return {};
}

}  // namespace

Result<ImportedJob> read_imported(Context& context, const ImportedFlags& flags) {
  const exchange::ConfigurationInputs inputs{flags.model, flags.cluster, flags.overrides};
  exchange::ConfigurationRequest request;
  request.name = input_name(flags.path);
  if (Status status = exchange::take_inputs(inputs, request); !status.ok()) return status.error();
  auto text = read_input(context, flags.path);
  if (!text) return text.error();
  request.text = std::move(*text);
  request.ignored = flags.ignored;
  request.sequence_length = flags.sequence_length;
  request.global_batch = flags.global_batch;
  request.micro_batch = flags.micro_batch;
  request.recompute = flags.recompute;
  request.precision = said_precision(flags.overrides);
  if (Status status = take_shell(flags, request); !status.ok()) return status.error();
  request.file = [&flags](const std::string& name) {
    const std::filesystem::path beside = std::filesystem::path(flags.path).parent_path() / name;
    return base::read_file(std::filesystem::exists(beside) ? beside.string() : name);
  };
  auto configuration = exchange::find_configuration_format(flags.format)->read(request);
  if (!configuration) return configuration.error();
  auto job = exchange::job_of(*configuration, inputs);
  if (!job) return job.error();
  note_keys(context, *configuration);
  for (const std::string& sentence : configuration->notes) note(context, cat(configuration->name, ": ", sentence));
  note_all(context, job->notes);
  return ImportedJob{std::move(*configuration), std::move(*job), std::move(request)};
}

std::string keys_text(const exchange::ImportedConfiguration& c) {
  std::vector<std::vector<std::string>> rows{{"line", "key", "value", "meaning", ""}};
  for (const exchange::ImportedKey& key : c.keys)
    if (key.kind != exchange::ImportedKey::Kind::without_effect)
      rows.push_back({line_of(key), name_of(key), shown(key.value), key.meaning, std::string(to_string(key.kind))});
  const auto unused = count_of(c, exchange::ImportedKey::Kind::without_effect);
  return cat(report::table(rows, {1, 2, 3, 4}), "and ", unused, unused == 1 ? " key" : " keys", " without effect\n");
}

std::string keys_json(const exchange::ImportedConfiguration& c, const std::string& format) {
  base::JsonWriter w;
  w.begin_object();
  w.key("format").value(format).key("file").value(c.name).key("engine").value(c.engine);
  w.key("keys").begin_array();
  for (const exchange::ImportedKey& key : c.keys) {
    w.compact_next().begin_object();
    w.key("key").value(key.key).key("written").value(name_of(key)).key("value").value(key.value).key("line").value(key.line);
    w.key("kind").value(to_string(key.kind)).key("meaning").value(key.meaning);
    w.end_object();
  }
  w.end_array();
  w.end_object();
  return w.text();
}

namespace {

/// Writes the configuration's own values as a job.
std::string job_text(const Job& job) {
  base::JsonWriter w;
  w.begin_object();
  w.key("model").raw(job.model_source).key("cluster").raw(job.cluster_source);
  const Training& t = job.training;
  w.key("training").begin_object();
  const bool images = t.sequence.main > 0 && t.sequence.encoder > 0;
  if (t.sequence.main > 0 && !images) w.key("sequence_length").value(t.sequence.main);
  if (t.sequence.encoder > 0) {
    w.key("sequence_length").begin_object();
    if (images) w.key("main").value(t.sequence.main);
    w.key("encoder").value(t.sequence.encoder);
    if (!images) w.key("decoder").value(t.sequence.decoder);
    if (images && t.sequence.decoder > 0) w.key("sound").value(t.sequence.decoder);
    w.end_object();
  }
  if (images) w.key("images_per_sample").value(t.sequence.images);
  w.key("global_batch").value(t.global_batch).key("precision").value(to_string(t.precision));
  w.key("optimizer").value(to_string(t.optimizer)).key("moe_imbalance").value(t.moe_imbalance);
  if (t.tokens > 0) w.key("tokens").value(t.tokens);
  w.end_object();
  w.key("engine").value(job.engine);
  w.end_object();
  return w.text();
}

}  // namespace

Result<std::string> job_file(const Job& job, const ImportedFlags& flags, const std::vector<std::string>& more) {
  auto document = base::read_json(job_text(job), "job.yaml");
  if (!document) return document.error();
  std::vector<std::string> said = flags.overrides;
  said.insert(said.end(), more.begin(), more.end());
  for (const std::string& text : said) {
    const auto change = job::parse_override(text);
    if (!change) return change.error();
    // Overrides of the inputs are already in their sources.
    if (change->path.front() == "model" || change->path.front() == "cluster") continue;
    if (Status status = job::apply_override(document->root, *change); !status.ok()) return status.error();
  }
  base::JsonWriter w;
  w.begin_object();
  for (const auto& [key, value] : document->root.members) w.key(key).raw(base::to_json(value));
  w.end_object();
  return w.text() + "\n";
}

}  // namespace espalier::cli
