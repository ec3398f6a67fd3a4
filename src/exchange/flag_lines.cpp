// SPDX-License-Identifier: Apache-2.0
#include "exchange/flag_lines.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/invariant.h"
#include "base/text.h"

namespace espalier::exchange {
namespace {

constexpr std::size_t kMostScriptBytes = 4u << 20;
constexpr std::size_t kMostFlags = 5000;

bool is_flag(const ShellWord& word) { return !word.token.is_word && !word.token.ends && is_flag_word(word.token.text); }
/// Returns whether a word is a subcommand of torchtitan's command line (from 0.3 on), such as
/// "activation-checkpoint:full".
bool is_subcommand(const ShellWord& word) {
  constexpr std::string_view kWords[] = {"activation-checkpoint:", "activation_checkpoint:"};
  const std::string& text = word.token.text;
  return std::any_of(std::begin(kWords), std::end(kWords),
                     [&](std::string_view prefix) { return text.starts_with(prefix) && text.size() > prefix.size(); });
}

bool is_array(std::string_view text) {
  return text.find("[@]") != std::string_view::npos || text.find("[*]") != std::string_view::npos;
}
/// Returns whether a word is a program that launchers start. The words before it belong to the launcher.
bool is_program(std::string_view text) {
  constexpr std::array<std::string_view, 12> kPrograms = {"bash", "sh",   "python", "python3",    "torchrun", "deepspeed",
                                                          "srun", "exec", "mpirun", "accelerate", "numactl",  "env"};
  return std::find(kPrograms.begin(), kPrograms.end(), text) != kPrograms.end();
}

/// Returns whether a word between flags is not a value.
bool is_break(const ShellWord& word) {
  constexpr std::array<std::string_view, 8> kWords = {"|", "||", "&", "&&", ">", ">>", "<", "2>&1"};
  const std::string& t = word.token.text;
  if (word.token.ends) return true;
  if (t.starts_with("${") && is_array(t)) return true;
  if (word.token.quoted) return false;
  if (t.ends_with(".py") || is_array(t) || is_program(t)) return true;
  if (t.starts_with("$") && (t.ends_with("ARGS") || t.ends_with("ARGS}") || t == "$@")) return true;
  return std::find(kWords.begin(), kWords.end(), t) != kWords.end();
}

bool has_no_effect(const std::string& key) {
  const KeyRow* row = key_table("megatron-args").find(key);
  return row != nullptr && row->verdict == KeyRow::Verdict::without_effect;
}

/// Holds the name and the value of a Hydra override that a trainer passes to Megatron-LM; empty for another word.
struct HydraOverride {
  std::string name, value;
};
HydraOverride override_of(std::string_view word) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNames = {
      std::pair{"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", "micro_batch_size"},
      {"trainer.nnodes", "nnodes"},
      {"trainer.n_gpus_per_node", "nproc_per_node"},
      {"num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
      {"num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"},
      {"context_parallel_size", "context_parallel_size"}};
  while (word.starts_with('+')) word.remove_prefix(1);
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos || word.find('.') > equals) return {};
  std::string_view name = word.substr(0, equals);
  const std::string value(word.substr(equals + 1));
  constexpr std::string_view kOwn = "actor_rollout_ref.actor.megatron.";
  const bool own = name.starts_with(kOwn);
  if (own) name.remove_prefix(kOwn.size());
  if (own && name.starts_with("override_transformer_config.")) name.remove_prefix(28);
  for (const auto& [from, to] : kNames)
    if (name == from) return {std::string(to), value};
  return own ? HydraOverride{std::string(name), value} : HydraOverride{};
}

class FlagScan {
 public:
  FlagScan(ShellScript script, const std::string& where) : script_(std::move(script)), words_(script_.words), where_(where) {}

  Result<FlagLines> read() {
    for (std::size_t i = 0; i < words_.size() && status_.ok();) {
      const ShellToken& token = words_[i].token;
      if (is_subcommand(words_[i]))
        add({"activation_checkpoint.mode", plain_key(token.text.substr(token.text.find(':') + 1)), token.line, token.condition});
      if (!token.ends && !token.is_word && !is_flag(words_[i]))
        if (const HydraOverride found = override_of(token.text); !found.name.empty() && !found.value.empty()) {
          Setting setting{found.name, found.value, token.line, token.condition};
          setting.written = token.text.substr(0, token.text.find('='));
          setting.missing = words_[i].missing;
          add(std::move(setting));
        }
      i = is_flag(words_[i]) ? flag(i) : i + 1;
    }
    if (!status_.ok()) return status_.error();
    if (out_.flags.empty())
      return Error{ErrorKind::bad_input, where_, "no flag", "flags such as --tensor-model-parallel-size 8",
                   cat("a list of flags, a launch script with flags, or a log with the printed arguments", sources())};
    out_.sources = std::move(script_.sources);
    return std::move(out_);
  }

 private:
  [[nodiscard]] std::string sources() const {
    std::string out;
    for (const ShellScript::Source& source : script_.sources)
      out +=
          cat("; it sources ", source.path, ": --with ", source.path.substr(source.path.rfind('/') + 1), " also reads that file");
    return out;
  }

  /// Returns the place behind the flag and its values.
  std::size_t flag(std::size_t i) {
    ESPALIER_CHECK(i < words_.size() && is_flag(words_[i]));
    const ShellWord& word = words_[i];
    const std::string& text = word.token.text;
    const std::size_t equals = text.find('=');
    Setting setting{text.substr(2, equals == std::string::npos ? equals : equals - 2), "", word.token.line, word.token.condition};
    setting.written = "--" + setting.key;
    std::replace(setting.key.begin(), setting.key.end(), '-', '_');
    std::size_t next = i + 1;
    if (equals != std::string::npos) {
      setting.value = text.substr(equals + 1);
      take_missing(word, setting);
      note(word, word.raw.substr(std::min(word.raw.find('=') + 1, word.raw.size())), setting.value);
    } else {
      for (; is_value(next) && !ends_values(next, setting.value); ++next) value_of(words_[next], setting);
    }
    if (setting.value.empty()) setting.value = "True";
    const auto names = script_.conditions.find(setting.condition);
    if (setting.condition > 0 && names != script_.conditions.end()) setting.deciding = names->second;
    add(std::move(setting));
    return next;
  }
  void value_of(const ShellWord& word, Setting& setting) {
    if (word.known && word.token.text.empty() && !word.token.quoted) return;
    if (!word.known && holds_flags_alone(word)) return;
    setting.value.append(setting.value.empty() ? "" : " ").append(word.token.text);
    take_missing(word, setting);
    note(word, word.raw, word.token.text);
  }
  static void take_missing(const ShellWord& word, Setting& setting) {
    if (!word.known) setting.missing.insert(setting.missing.end(), word.missing.begin(), word.missing.end());
  }

  [[nodiscard]] bool is_value(std::size_t i) const {
    return i < words_.size() && !is_flag(words_[i]) && !is_break(words_[i]) && !is_subcommand(words_[i]);
  }
  /// Returns whether a word is a variable such as "$EXTRA" whose flags are read where it is assigned.
  [[nodiscard]] bool holds_flags_alone(const ShellWord& word) const {
    const auto at = script_.assigned.find(variable_in(word.raw));
    return at != script_.assigned.end() && at->second;
  }
  /// Returns whether a variable after the values, such as "$EXTRA", is never assigned. The flags that it may hold are
  /// unknown.
  bool ends_values(std::size_t i, const std::string& before) {
    const ShellWord& word = words_[i];
    const std::string name = word.known ? "" : variable_in(word.raw);
    if (name.empty() || before.empty() || is_value(i + 1) || script_.assigned.count(name) > 0) return false;
    if (is_new(name))
      out_.variables.push_back({ImportedKey::Kind::not_understood, "$" + name, "",
                                "not assigned in the file: flags that it may hold are not read", word.token.line});
    return true;
  }

  bool is_new(const std::string& name) const {
    return std::none_of(out_.variables.begin(), out_.variables.end(), [&](const ImportedKey& k) { return k.key == "$" + name; });
  }
  /// Lists a variable that was looked up.
  void note(const ShellWord& word, std::string_view raw, const std::string& value) {
    const std::string name = word.known ? variable_in(raw) : "";
    if (name.empty() || !is_new(name)) return;
    const auto kind = word.fallback ? ImportedKey::Kind::defaulted : ImportedKey::Kind::read;
    out_.variables.push_back({kind, "$" + name, value,
                              word.fallback          ? "the script's default, unless the environment overrides it"
                              : !word.source.empty() ? word.source
                                                     : "assigned in the script",
                              word.assigned > 0 || !word.source.empty() ? word.assigned : word.token.line});
  }

  void add(Setting setting) {
    ESPALIER_CHECK(!setting.key.empty() && setting.line > 0 && !setting.value.empty());
    const auto [at, fresh] = seen_.try_emplace(setting.key, setting);
    if (!fresh && at->second.value != setting.value && (setting.condition > 0 || at->second.condition > 0)) {
      // It is unknown which of them applies, so the first represents both, under the condition.
      const Setting& open = setting.condition > 0 ? setting : at->second;
      for (Setting& flag : out_.flags)
        if (flag.key == setting.key) {
          flag.condition = open.condition;
          flag.deciding = open.deciding;
        }
      return;
    }
    if (!fresh && at->second.value != setting.value && has_no_effect(setting.key)) return;
    if (!fresh && at->second.value != setting.value) {
      status_ =
          Error{ErrorKind::bad_input, cat(where_, ":", setting.line), cat(setting.written, " ", base::in_quotes(setting.value)),
                cat(base::in_quotes(at->second.value), ", as in line ", at->second.line), "one value per flag"};
      return;
    }
    if (!fresh) return;
    if (out_.flags.size() == kMostFlags) {
      status_ = Error{ErrorKind::bad_input, cat(where_, ":", setting.line), cat("more than ", kMostFlags, " flags"), "fewer", ""};
      return;
    }
    out_.flags.push_back(std::move(setting));
  }

  ShellScript script_;
  const std::vector<ShellWord>& words_;
  const std::string& where_;
  std::map<std::string, Setting> seen_;
  FlagLines out_;
  Status status_;
};

}  // namespace

ShellContext shell_context(const ConfigurationRequest& request) {
  ShellContext out{request.variables, {}, request.nodes.value_or(0), request.devices_per_node.value_or(0)};
  for (const auto& [name, text] : request.with) out.files.push_back({name, text});
  return out;
}

Result<FlagLines> read_flag_lines(std::string_view text, const std::string& where, const ShellContext& context) {
  if (Status status = base::check_text(text, where, kMostScriptBytes); !status.ok()) return status.error();
  auto script = read_shell_script(text, where, context);
  if (!script) return script.error();
  return FlagScan(std::move(*script), where).read();
}

}  // namespace espalier::exchange
