// SPDX-License-Identifier: Apache-2.0
#include "exchange/shell_script.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/shell_blocks.h"
#include "exchange/shell_condition.h"

namespace espalier::exchange {
namespace {

using Kind = ShellVerdict::Kind;

std::string file_name(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

/// Returns whether a file only sets up a shell and holds no flags of a training.
bool is_setup(const std::string& path) {
  constexpr std::array<std::string_view, 12> kWords = {"activate", "bashrc", "profile", "conda",  "setvars",  "modules",
                                                       "lmod",     "setenv", "set_env", "env.sh", "env_vars", ".env"};
  return std::any_of(kWords.begin(), kWords.end(), [&](std::string_view word) { return path.find(word) != std::string::npos; });
}

// ---- sourced files ------------------------------------------------------------------------------------------------

/// Joins the words of a script with those of the files that it sources, in place of the commands that source them.
class Sources {
 public:
  Sources(const ShellContext& context, ShellScript& out) : context_(context), out_(out) {}

  Result<std::vector<ShellToken>> read(std::string_view text, const std::string& where) {
    auto tokens = read_shell_words(text, where);
    if (!tokens) return tokens.error();
    std::vector<ShellToken> all;
    // Given files that the script does not source come first, since the script uses their assignments.
    std::vector<ShellToken> own = joined(*tokens, 0);
    for (const ShellFile& file : context_.files)
      if (used_.insert(file.name).second) include(file, 1, 1, all);
    all.insert(all.end(), own.begin(), own.end());
    if (!status_.ok()) return status_.error();
    return all;
  }

 private:
  std::vector<ShellToken> joined(const std::vector<ShellToken>& tokens, int depth) {
    std::vector<ShellToken> out;
    bool begins = true;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const ShellToken& token = tokens[i];
      const bool follows = i + 1 < tokens.size() && !tokens[i + 1].ends;
      const bool runs = follows && (token.text == "bash" || token.text == "sh") && tokens[i + 1].text.ends_with(".sh");
      const bool sources = begins && !token.quoted && follows && (token.text == "source" || token.text == "." || runs);
      const bool assigns = begins && (!assigned_name(token.text).empty() || token.text == "exec");
      begins = assigns || token.ends || token.text == "&&" || token.text == "||" ||
               (begins && (token.text == "then" || token.text == "do" || token.text == "else"));
      if (sources && source(tokens[i + 1], tokens, depth, out)) {
        ++i;
        begins = true;
        continue;
      }
      out.push_back(token);
    }
    return out;
  }
  bool source(const ShellToken& path, const std::vector<ShellToken>& tokens, int depth, std::vector<ShellToken>& out) {
    std::string name = file_name(path.text);
    if (const std::string variable = variable_in(name); !variable.empty())
      for (const ShellToken& token : tokens)
        if (assigned_name(token.text) == variable)
          name = file_name(std::string_view(token.text).substr(token.text.find('=') + 1));
    for (const ShellFile& file : context_.files) {
      if (file_name(file.name) != name || depth >= kDeepest) continue;
      used_.insert(file.name);
      include(file, path.line, depth + 1, out);
      return true;
    }
    if (!is_setup(path.text)) out_.sources.push_back({path.text, path.line});
    return false;
  }
  void include(const ShellFile& file, std::int64_t line, int depth, std::vector<ShellToken>& out) {
    auto tokens = read_shell_words(file.text, file.name);
    if (!tokens) {
      if (status_.ok()) status_ = tokens.error();
      return;
    }
    for (ShellToken& token : joined(*tokens, depth)) {
      token.line = line;
      out.push_back(std::move(token));
    }
    out.push_back({"", line, false, true});
  }

  static constexpr int kDeepest = 4;
  const ShellContext& context_;
  ShellScript& out_;
  std::set<std::string> used_;
  Status status_;
};

// ---- commands -----------------------------------------------------------------------------------------------------

class ShellRun {
 public:
  ShellRun(std::vector<ShellToken>& tokens, ShellVariables& variables, ShellScript& out)
      : tokens_(tokens), blocks_(shell_blocks(tokens)), variables_(variables), out_(out) {}

  void all() { commands(0, tokens_.size(), 0, 0); }

 private:
  /// Holds the state of the command that is being read.
  struct Command {
    std::size_t begin = 0;
    bool begins = true, skips = false;
    std::string first;
    std::int64_t guard = 0;  ///< line of an undecided test before && or ||
    /// This is the line of a && after another command. The command counts as run, but its assignments may not happen.
    std::int64_t after_and = 0;
  };

  void commands(std::size_t from, std::size_t to, std::int64_t condition, int depth) {
    Command c;
    c.begin = from;
    for (std::size_t i = from; i < to; ++i) {
      const ShellToken& token = tokens_[i];
      const auto block = blocks_.find(i);
      if (block != blocks_.end() && block->second.last < to && depth < kDeepest) {
        if (!c.skips) run(block->second, c.guard > 0 ? c.guard : condition, depth + 1);
        i = block->second.last;
        c = {i + 1, true, false, "", 0, 0};
      } else if (token.ends) {
        keep(token, condition);
        if (token.text == kString) continue;
        const bool joined = i > from && (tokens_[i - 1].text == "&&" || tokens_[i - 1].text == "||");
        c = joined ? Command{i + 1, true, c.skips, "", c.guard, c.after_and} : Command{i + 1, true, false, "", 0, 0};
      } else if (!token.quoted && (token.text == "&&" || token.text == "||") && !in_test(c)) {
        operation(i, c);
      } else {
        word(i, c, condition);
      }
    }
  }
  static bool in_test(const Command& c) { return c.first == "[["; }

  void operation(std::size_t i, Command& c) {
    const bool both = tokens_[i].text == "&&";
    const bool tests = !both || c.first == "[" || c.first == "[[ ]]" || c.first == "test" || c.first.empty();
    const std::int64_t line = tokens_[i].line;
    const ShellVerdict verdict = decide(std::span(tokens_).subspan(c.begin, i - c.begin), variables_);
    if (verdict.kind == Kind::open || loops_ > 0) {
      (tests ? c.guard : c.after_and) = line;
      if (tests) out_.conditions[line] = verdict.missing;
    } else {
      c.skips = (verdict.kind == Kind::yes) != both;
    }
    c.begins = true;
    c.begin = i + 1;
    c.first.clear();
    keep(tokens_[i], 0);
  }

  void word(std::size_t i, Command& c, std::int64_t condition) {
    ShellToken& token = tokens_[i];
    const std::string name = assigned_name(token.text);
    if (c.begins) {
      if (c.after_and > 0 && !name.empty()) c.guard = c.after_and;
      c.first = token.text;
    }
    // `[[ a && b ]]` ends its own test.
    if (token.text == "]]" && c.first == "[[") c.first = "[[ ]]";
    token.condition = c.guard > 0 ? c.guard : condition;
    if (c.skips) return;
    if (c.begins && !name.empty() && !token.is_word) assign(name, token, token.condition);
    keep(token, token.condition);
    c.begins = c.begins && (!name.empty() || begins_a_command(token.text));
  }

  void keep(const ShellToken& token, std::int64_t condition) {
    ShellWord word{token, token.text};
    word.token.condition = condition;
    if (!token.ends && token.text.find_first_of("$`") != std::string::npos) {
      ShellValue value = variables_.expand(token.text);
      word.known = value.known;
      word.fallback = value.fallback;
      word.assigned = value.line;
      word.source = std::move(value.source);
      word.missing = std::move(value.missing);
      if (value.known) word.token.text = std::move(value.text);
    }
    out_.words.push_back(std::move(word));
  }

  void assign(const std::string& name, const ShellToken& token, std::int64_t condition) {
    const std::size_t equals = token.text.find('=');
    const bool adds = equals > 0 && token.text[equals - 1] == '+';
    ShellValue value = variables_.expand(std::string_view(token.text).substr(equals + 1));
    const ShellValue* before = variables_.find(name);
    const auto [at, fresh] = out_.assigned.try_emplace(name, value.text.empty());
    if (!fresh) at->second = at->second && value.text.empty();
    if (adds && before != nullptr) value.text = before->text + value.text;
    value.line = token.line;
    value.source.clear();
    const bool same = before != nullptr && before->known && value.known && before->text == value.text;
    if (condition > 0 && !same) {
      // In a loop over arguments, the earlier assignment is the default.
      if (loops_ > 0 && before != nullptr && before->known) {
        value = *before;
        value.fallback = true;
      } else {
        value = {value.text, false, false, token.line, "", {name}};
      }
    }
    if (!value.known && value.missing.empty()) value.missing = {name};
    variables_.assign(name, std::move(value));
  }

  // ---- blocks -----------------------------------------------------------------------------------------------------

  void run(const ShellBlock& block, std::int64_t condition, int depth) {
    if (block.kind == ShellBlock::Kind::loop) return loop(block, condition, depth);
    const std::int64_t line = tokens_[block.first].line;
    bool open = false;
    std::vector<std::string> missing;
    for (const ShellBlock::Arm& arm : block.arms) {
      const ShellVerdict verdict = test_of(block, arm);
      if (verdict.kind == Kind::no && !open) continue;
      if (verdict.kind == Kind::open) {
        open = true;
        for (const std::string& name : verdict.missing)
          if (std::find(missing.begin(), missing.end(), name) == missing.end()) missing.push_back(name);
        out_.conditions[line] = missing;
      }
      if (verdict.kind == Kind::no) continue;
      commands(arm.body, arm.body_end, open ? line : condition, depth);
      if (verdict.kind == Kind::yes) return;
    }
  }
  ShellVerdict test_of(const ShellBlock& block, const ShellBlock::Arm& arm) {
    const bool otherwise = block.kind == ShellBlock::Kind::branch && arm.test == arm.test_end;
    if (otherwise) return {Kind::yes, {}};
    if (block.kind == ShellBlock::Kind::choice) return choice(block, arm);
    ShellVerdict out = decide(std::span(tokens_).subspan(arm.test, arm.test_end - arm.test), variables_);
    if (loops_ > 0) out.kind = Kind::open;
    return out;
  }
  ShellVerdict choice(const ShellBlock& block, const ShellBlock::Arm& arm) {
    if (block.header < block.first + 2) return {};
    const ShellValue subject = variables_.expand(tokens_[block.first + 1].text);
    if (!subject.known || loops_ > 0) return {Kind::open, subject.missing};
    for (std::size_t i = arm.test; i < arm.test_end; ++i) {
      std::string_view rest = tokens_[i].text;
      for (std::size_t bar = 0; bar != std::string_view::npos;) {
        bar = rest.find('|');
        if (matches_pattern(rest.substr(0, bar), subject.text)) return {Kind::yes, {}};
        if (bar != std::string_view::npos) rest.remove_prefix(bar + 1);
      }
    }
    return {Kind::no, {}};
  }

  /// Runs the body once. A variable that takes several values is unknown in it.
  void loop(const ShellBlock& block, std::int64_t condition, int depth) {
    const bool counts = tokens_[block.first].text == "for" && block.first + 2 < block.header;
    if (counts && is_shell_name(tokens_[block.first + 1].text)) {
      const std::string& name = tokens_[block.first + 1].text;
      std::vector<std::string> values;
      for (std::size_t i = block.first + 3; i < block.header; ++i)
        if (!tokens_[i].ends) values.push_back(tokens_[i].text);
      ShellValue value = values.size() == 1 ? variables_.expand(values.front()) : ShellValue{"", false, false, 0, "", {name}};
      value.line = tokens_[block.first].line;
      variables_.assign(name, std::move(value));
    }
    if (!counts) ++loops_;
    commands(block.arms.front().body, block.arms.front().body_end, condition, depth);
    if (!counts) --loops_;
  }

  static constexpr int kDeepest = 32;
  std::vector<ShellToken>& tokens_;
  std::map<std::size_t, ShellBlock> blocks_;
  ShellVariables& variables_;
  ShellScript& out_;
  int loops_ = 0;  ///< enclosing while and until loops: their iterations are unknown
};

}  // namespace

Result<ShellScript> read_shell_script(std::string_view text, const std::string& where, const ShellContext& context) {
  ShellScript out;
  auto tokens = Sources(context, out).read(text, where);
  if (!tokens) return tokens.error();
  ESPALIER_CHECK(tokens->empty() || tokens->front().line >= 0);
  ShellVariables variables(context, text);
  ShellRun(*tokens, variables, out).all();
  return out;
}

}  // namespace espalier::exchange
