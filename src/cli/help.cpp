// SPDX-License-Identifier: Apache-2.0
#include "cli/help.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/format.h"

namespace espalier::cli {
namespace {

constexpr std::size_t kColumn = 26;  // where the text of a flag begins

/// Lists examples by path, without "espalier".
constexpr std::array kExamples = std::to_array<std::pair<const char*, const char*>>({
    {"", "plan examples/llama3-8b-on-8xh100.yaml"},
    {"plan", "plan job.yaml -o out"},
    {"plan", "plan job.yaml --sweep nodes=2,4,8"},
    {"estimate", "estimate job.yaml --tp 4 --pp 2 --zero 1 --micro-batch 2"},
    {"simulate", "simulate out/plan.json --trace step.json.gz"},
    {"check", "check out/result.json --engine megatron-core"},
    {"explain", "explain out/result.json"},
    {"compare", "compare out/plan.json --log train.log"},
    {"validate", "validate runs.jsonl"},
    {"calibrate", "calibrate --base h100-sxm-80gb --runs train.log --config out/plan.json --out mine.calibration.yaml"},
    {"inspect", "inspect model models/llama-3-8b"},
    {"inspect model", "inspect model models/llama-3-8b"},
    {"inspect cluster", "inspect cluster cluster.yaml"},
    {"inspect run", "inspect run runs.jsonl --id a"},
    {"improve", "improve --from megatron-args train.sh --cluster cluster.yaml"},
    {"import", "import cluster --format nvidia-smi-topo topo.txt --device h100-sxm-80gb -o cluster.yaml"},
    {"import cluster", "import cluster --format nvidia-smi-topo topo.txt --device h100-sxm-80gb -o cluster.yaml"},
    {"import config", "import config --format deepspeed ds_config.json --cluster cluster.yaml --model config.json"},
    {"import trace", "import trace --format counts nodes.csv -o events.csv"},
    {"import galvatron", "import galvatron strategy.json --job job.yaml"},
    {"import galvatron-profile", "import galvatron-profile --job job.yaml --budget 36GiB --computation computation.json"},
    {"export", "export out/plan.json --engine megatron-core -o train.sh"},
    {"report", "report out/plan.json -o report.html"},
    {"engines", "engines"},
    {"what-if", "what-if out/plan.json --lose node:3"},
    {"replan", "replan out/plan.json observation.json"},
    {"run", "run out/plan.json --local --steps 20"},
    {"profile", "profile job.yaml --out profile.yaml"},
    {"mcp", "mcp"},
    {"completion", "completion bash > ~/.local/share/bash-completion/completions/espalier"},
    {"man", "man > espalier.1"},
    {"version", "version"},
});

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string::npos) break;
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    at = end;
  }
  return out;
}

/// Returns the words in lines of `width`, where the second and later ones are indented by `indent`. The first begins
/// at column `at`.
std::string wrapped(const std::string& text, std::size_t at, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = at;
  bool fresh = true;
  for (const std::string& word : words_of(text)) {
    const std::size_t length = base::display_width(word);
    if (!fresh && column + 1 + length > width) {
      out += cat("\n", std::string(indent, ' '));
      column = indent;
      fresh = true;
    }
    out += fresh ? word : cat(" ", word);
    column += length + (fresh ? 0 : 1);
    fresh = false;
  }
  return out + "\n";
}

std::string paragraphs(const std::string& text, std::size_t width) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    out += cat(std::string(indent, ' '), wrapped(line, indent, indent + 2, width));
    at = end + 1;
  }
  return out;
}

std::string entry(const std::string& head, const std::string& text, std::size_t width) {
  const std::string line = cat("  ", head);
  const std::size_t used = base::display_width(line);
  if (text.empty()) return line + "\n";
  if (used + 2 > kColumn) return cat(line, "\n", std::string(kColumn, ' '), wrapped(text, kColumn, kColumn, width));
  return cat(line, std::string(kColumn - used, ' '), wrapped(text, kColumn, kColumn, width));
}

std::string text_of(const DescribedOption& option) {
  std::string out = option.help;
  const bool told = std::all_of(option.choices.begin(), option.choices.end(),
                                [&](const std::string& choice) { return option.help.find(choice) != std::string::npos; });
  if (!option.choices.empty() && !told) out += cat(out.empty() ? "" : "; ", "one of ", base::joined(option.choices));
  if (!option.default_value.empty()) out += cat(" (default: ", option.default_value, ")");
  if (option.required && !option.positional()) out += " (required)";
  return out;
}

std::string head_of(const DescribedOption& option) {
  if (option.positional()) return option.value;
  std::string out = option.short_name;
  if (!option.long_name.empty()) out += cat(out.empty() ? "" : ", ", option.long_name);
  return option.value.empty() ? out : cat(out, " ", option.value);
}

std::string usage_of(const DescribedCommand& command, const std::string& path) {
  std::string out = cat("Usage: ", path);
  for (const DescribedOption& option : command.options)
    if (option.positional()) out += option.required ? cat(" ", option.value) : cat(" [", option.value, "]");
  if (!command.commands.empty()) out += " COMMAND";
  return out + " [flags]";
}

}  // namespace

std::vector<std::string> examples_of(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& [of, example] : kExamples)
    if (path == of) out.emplace_back(example);
  return out;
}

std::string help_text(const DescribedCommand& command, const std::string& path, const std::string& footer, std::size_t width) {
  std::string out = cat(wrapped(command.help, 0, 0, width), "\n", wrapped(usage_of(command, path), 0, 4, width));
  std::string arguments, flags, commands;
  for (const DescribedOption& option : command.options)
    (option.positional() ? arguments : flags) += entry(head_of(option), text_of(option), width);
  for (const DescribedCommand& below : command.commands) commands += entry(below.name, below.help, width);
  if (!commands.empty()) out += cat("\nCommands\n", commands);
  if (!arguments.empty()) out += cat("\nArguments\n", arguments);
  if (!flags.empty()) out += cat("\nFlags\n", flags);
  const std::size_t blank = path.find(' ');
  std::string examples;
  for (const std::string& example : examples_of(blank == std::string::npos ? "" : path.substr(blank + 1)))
    examples += cat("  ", wrapped(cat("espalier ", example), 2, 6, width));
  if (!examples.empty()) out += cat("\nExample\n", examples);
  return footer.empty() ? out : cat(out, "\n", paragraphs(footer, width));
}

}  // namespace espalier::cli
