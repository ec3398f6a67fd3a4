// SPDX-License-Identifier: Apache-2.0
#include "exchange/shell_values.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/format.h"
#include "base/invariant.h"
#include "exchange/shell_words.h"
#include "runlog/lines.h"

namespace espalier::exchange {
namespace {

constexpr int kDeepestValue = 16;               ///< nesting of values inside values
constexpr std::size_t kLongestValue = 1 << 16;  ///< bytes of a value

using runlog::is_digit;

/// Returns the name or the positional parameter at the beginning.
std::string_view name_at(std::string_view text) {
  if (!text.empty() && is_digit(text.front())) return text.substr(0, 1);
  std::size_t n = 0;
  while (n < text.size() && is_name_part(text[n])) ++n;
  return text.substr(0, n);
}
bool is_parameter(std::string_view name) {
  return is_shell_name(name) || (!name.empty() && std::all_of(name.begin(), name.end(), is_digit));
}

/// Returns the place behind the bracket that closes the one at `from`, or the end of the text where none does.
std::size_t behind(std::string_view text, std::size_t from) {
  const char open = text[from], close = open == '(' ? ')' : '}';
  std::int64_t depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == open) ++depth;
    if (text[i] == close && --depth == 0) return i + 1;
  }
  return text.size();
}

/// Evaluates + - * / %, comparisons, ?: and parentheses over whole numbers. Returns nothing on a division by zero, an
/// overflow or another character.
class ShellArithmetic {
 public:
  explicit ShellArithmetic(std::string_view text) : text_(text) {}
  std::optional<std::int64_t> run() {
    const auto out = choice();
    blanks();
    return at_ == text_.size() ? out : std::nullopt;
  }

 private:
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
  }
  bool takes(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool takes(std::string_view word) {
    blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::optional<std::int64_t> choice() {
    const auto test = comparison();
    if (!test || !takes('?')) return test;
    const auto yes = comparison();
    if (!yes || !takes(':')) return std::nullopt;
    const auto no = comparison();
    return *test != 0 ? yes : no;
  }
  std::optional<std::int64_t> comparison() {
    const auto left = terms();
    if (!left) return left;
    for (const std::string_view op : {"==", "!=", ">=", "<=", ">", "<"}) {
      if (!takes(op)) continue;
      const auto right = terms();
      if (!right) return right;
      const bool holds = op == "=="   ? *left == *right
                         : op == "!=" ? *left != *right
                         : op == ">=" ? *left >= *right
                         : op == "<=" ? *left <= *right
                         : op == ">"  ? *left > *right
                                      : *left < *right;
      return holds ? 1 : 0;
    }
    return left;
  }
  std::optional<std::int64_t> terms() {
    auto left = factors();
    while (left) {
      const bool plus = takes('+');
      if (!plus && !takes('-')) break;
      const auto right = factors();
      if (!right || *right > kMost || *right < -kMost || *left > kMost || *left < -kMost) return std::nullopt;
      *left += plus ? *right : -*right;
    }
    return left;
  }
  std::optional<std::int64_t> factors() {
    auto left = atom();
    while (left) {
      const char op = takes('*') ? '*' : takes('/') ? '/' : takes('%') ? '%' : 0;
      if (op == 0) break;
      const auto right = atom();
      if (!right || *right > kMost || *right < -kMost || *left > kMost || *left < -kMost) return std::nullopt;
      if (op != '*' && *right == 0) return std::nullopt;
      *left = op == '*' ? *left * *right : op == '/' ? *left / *right : *left % *right;
    }
    return left;
  }
  std::optional<std::int64_t> atom() {
    if (++depth_ > 64) return std::nullopt;
    std::optional<std::int64_t> out;
    if (takes('(')) {
      out = choice();
      if (!takes(')')) return std::nullopt;
    } else if (takes('-')) {
      out = atom();
      if (out) *out = -*out;
    } else {
      blanks();
      std::size_t end = at_;
      while (end < text_.size() && is_digit(text_[end])) ++end;
      out = runlog::whole_integer(text_.substr(at_, end - at_));
      at_ = end;
    }
    --depth_;
    return out;
  }

  static constexpr std::int64_t kMost = std::int64_t{1} << 31;
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// Returns the value of an option of sbatch in one line: "--nodes=4", "--nodes 4", "-N 4", "-N4".
std::string option_of(std::string_view line, std::string_view name, char letter) {
  std::string_view rest = line;
  const std::size_t at = line.find(name);
  const std::string mark = cat(" -", std::string(1, letter));
  if (at != std::string_view::npos && at + name.size() < line.size() &&
      (line[at + name.size()] == '=' || line[at + name.size()] == ' '))
    rest = line.substr(at + name.size() + 1);
  else if (const std::size_t at_letter = line.find(mark); letter != 0 && at_letter != std::string_view::npos)
    rest = line.substr(at_letter + mark.size());
  else
    return "";
  while (rest.starts_with(' ') || rest.starts_with('=')) rest.remove_prefix(1);
  return std::string(rest.substr(0, rest.find_first_of(" \t\r#")));
}
/// Returns the count in "h100:8" or "gpu:8": 8.
std::optional<std::int64_t> count_of(const std::string& text) {
  return runlog::whole_integer(std::string_view(text).substr(text.rfind(':') + 1));
}

void append(ShellValue& out, const ShellValue& part) {
  ESPALIER_CHECK(&out != &part && out.line >= 0 && part.line >= 0);
  out.text += part.text;
  out.known = out.known && part.known;
  out.fallback = out.fallback || part.fallback;
  if (out.line == 0) out.line = part.line;
  if (out.source.empty()) out.source = part.source;
  for (const std::string& name : part.missing)
    if (std::find(out.missing.begin(), out.missing.end(), name) == out.missing.end()) out.missing.push_back(name);
}

}  // namespace

std::string variable_in(std::string_view text) {
  if (!text.starts_with("$")) return "";
  text.remove_prefix(1);
  if (text.starts_with("{") && text.ends_with("}")) {
    text = text.substr(1, text.size() - 2);
    const std::size_t mark = text.find_first_of(":-=");
    if (mark != std::string_view::npos) text = text.substr(0, mark);
    return is_parameter(text) ? std::string(text) : "";
  }
  return is_shell_name(text) || (text.size() == 1 && is_digit(text.front())) ? std::string(text) : "";
}

ShellVariables::ShellVariables(const ShellContext& context, std::string_view script) : context_(context) {
  slurm(script, context);
  for (const auto& [name, value] : context.variables) values_[name] = {value, true, false, 0, "given by --arg"};
}

void ShellVariables::slurm(std::string_view script, const ShellContext& context) {
  struct Fact {
    std::optional<std::int64_t> count;
    std::int64_t line = 0;
  };
  Fact nodes, tasks, all_tasks, devices;
  std::int64_t number = 1;
  for (std::size_t from = 0; from < script.size(); ++number) {
    const std::size_t end = std::min(script.find('\n', from), script.size());
    const std::string_view line = script.substr(from, end - from);
    from = end + 1;
    if (!line.starts_with("#SBATCH")) continue;
    const auto take = [&](Fact& fact, const std::string& text) {
      if (const auto count = count_of(text)) fact = {count, number};
    };
    take(nodes, option_of(line, "--nodes", 'N'));
    take(tasks, option_of(line, "--ntasks-per-node", 0));
    take(all_tasks, option_of(line, "--ntasks", 'n'));
    take(devices, option_of(line, "--gpus-per-node", 0));
    if (const std::string gres = option_of(line, "--gres", 0); gres.starts_with("gpu")) take(devices, gres);
  }
  const auto set = [&](std::initializer_list<const char*> names, const Fact& fact, std::int64_t of_cluster) {
    for (const char* name : names)
      if (fact.count)
        values_[name] = {std::to_string(*fact.count), true, false, fact.line, "from the #SBATCH lines"};
      else if (of_cluster > 0)
        values_[name] = {std::to_string(of_cluster), true, false, 0, "of the cluster"};
  };
  set({"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}, nodes, context.nodes);
  set({"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}, devices, context.devices_per_node);
  set({"SLURM_NTASKS_PER_NODE"}, tasks, 0);
  if (!all_tasks.count && tasks.count && nodes.count) all_tasks = {*tasks.count * *nodes.count, nodes.line};
  set({"SLURM_NTASKS", "SLURM_NPROCS"}, all_tasks, 0);
}

void ShellVariables::assign(const std::string& name, ShellValue value) {
  ESPALIER_CHECK(!name.empty());
  if (context_.variables.count(name) == 0) values_[name] = std::move(value);
}

const ShellValue* ShellVariables::find(const std::string& name) const {
  const auto at = values_.find(name);
  return at == values_.end() ? nullptr : &at->second;
}

ShellValue ShellVariables::expand(std::string_view text, int depth) const {
  ESPALIER_CHECK(depth >= 0);
  if (depth > kDeepestValue) return {std::string(text), false};
  ShellValue out;
  for (std::size_t i = 0; i < text.size();) {
    const bool dollar = text[i] == '$' && i + 1 < text.size();
    if (text[i] == '`') {
      const std::size_t end = std::min(text.find('`', i + 1), text.size() - 1) + 1;
      append(out, command(text.substr(i, end - i), depth));
      i = end;
    } else if (dollar && text[i + 1] == '(') {
      const std::size_t end = behind(text, i + 1);
      append(out, command(text.substr(i, end - i), depth));
      i = end;
    } else if (dollar && text[i + 1] == '{') {
      const std::size_t end = behind(text, i + 1);
      append(out, parameter(text.substr(i, end - i), depth));
      i = end;
    } else if (const std::string_view name = dollar ? name_at(text.substr(i + 1)) : std::string_view(); !name.empty()) {
      append(out, parameter(text.substr(i, name.size() + 1), depth));
      i += name.size() + 1;
    } else {
      out.text += text[i++];
    }
  }
  out.known = out.known && out.text.size() <= kLongestValue;
  if (!out.known) out.text = std::string(text);
  return out;
}

/// Expands "$NAME", "${NAME}", "${NAME:-default}", "${NAME:=default}".
ShellValue ShellVariables::parameter(std::string_view text, int depth) const {
  const std::string name = variable_in(text);
  if (name.empty()) return {std::string(text), false};
  const ShellValue* value = find(name);
  std::string_view rest =
      text.starts_with("${") ? text.substr(2 + name.size(), text.size() - 3 - name.size()) : std::string_view();
  const bool usual = rest.starts_with(":-") || rest.starts_with(":=") || rest.starts_with("-") || rest.starts_with("=");
  if (!rest.empty() && !usual) return {std::string(text), false, false, 0, "", {name}};
  if (value != nullptr && value->known && !(rest.starts_with(":") && value->text.empty())) return *value;
  if (value != nullptr && !value->known) {
    ShellValue out = *value;
    out.text = std::string(text);
    return out;
  }
  if (!usual) return {std::string(text), false, false, 0, "", {name}};
  rest.remove_prefix(rest.starts_with(":") ? 2 : 1);
  ShellValue out = expand(rest, depth + 1);
  if (!out.known) out.missing.insert(out.missing.begin(), name);
  out.fallback = out.known;
  return out;
}

/// Evaluates "$(( … ))" and idioms that count devices; anything else is unknown.
ShellValue ShellVariables::command(std::string_view text, int depth) const {
  if (text.starts_with("$((") && text.ends_with("))")) return arithmetic(text.substr(3, text.size() - 5), depth);
  const bool counts = text.find("nvidia-smi") != std::string_view::npos &&
                      (text.find("wc -l") != std::string_view::npos || text.find("count") != std::string_view::npos);
  if (counts && context_.devices_per_node > 0)
    return {std::to_string(context_.devices_per_node), true, false, 0, "of the cluster"};
  return {std::string(text), false};
}

ShellValue ShellVariables::arithmetic(std::string_view expression, int depth) const {
  // Names have their values with or without a dollar.
  std::string spelled;
  for (std::size_t i = 0; i < expression.size();) {
    const std::string_view name = is_digit(expression[i]) ? std::string_view() : name_at(expression.substr(i));
    const bool bare = !name.empty() && (i == 0 || (expression[i - 1] != '$' && expression[i - 1] != '{'));
    if (bare) spelled += '$';
    const std::size_t n = name.empty() ? 1 : name.size();
    spelled += expression.substr(i, n);
    i += n;
  }
  ShellValue out = expand(spelled, depth + 1);
  if (!out.known) return out;
  const auto sum = ShellArithmetic(out.text).run();
  out.known = sum.has_value();
  out.text = sum ? std::to_string(*sum) : cat("$((", std::string(expression), "))");
  return out;
}

}  // namespace espalier::exchange
