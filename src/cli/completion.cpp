// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <functional>

#include "base/format.h"

namespace espalier::cli {
namespace {

/// Calls f(command, "espalier inspect model") for the program and all its commands.
void each_command(const DescribedCommand& command, const std::string& path,
                  const std::function<void(const DescribedCommand&, const std::string&)>& f) {
  f(command, path);
  for (const DescribedCommand& below : command.commands) each_command(below, cat(path, " ", below.name), f);
}

/// Returns the words that may follow those of a command: its commands and its flags.
std::string words_of(const DescribedCommand& command) {
  std::string out;
  for (const DescribedCommand& below : command.commands) out += cat(out.empty() ? "" : " ", below.name);
  for (const DescribedOption& option : command.options)
    for (const std::string& name : {option.long_name, option.short_name})
      if (!name.empty()) out += cat(out.empty() ? "" : " ", name);
  return out;
}

/// Returns the text up to its first line break, without characters that would end a quoted word of a shell.
std::string one_line(const std::string& text, const std::string& without) {
  std::string out;
  for (const char c : text.substr(0, text.find('\n'))) out += without.find(c) == std::string::npos ? c : ' ';
  return out;
}

/// Escapes text for roff: no line may begin with a command, and a dash is a dash.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\n')
      out += "\n.br\n";
    else
      out += c;
  }
  return out.starts_with(".") || out.starts_with("'") ? "\\&" + out : out;
}

std::string option_entry(const DescribedOption& option) {
  std::string head;
  for (const std::string& name : {option.short_name, option.long_name})
    if (!name.empty()) head += cat(head.empty() ? "" : ", ", "\\fB", roff(name), "\\fR");
  if (!option.value.empty()) head += cat(head.empty() ? "" : " ", "\\fI", roff(option.value), "\\fR");
  return cat(".TP\n", head, "\n", roff(option.help.empty() ? "see docs" : option.help), option.required ? " (required)" : "",
             "\n");
}

std::string synopsis(const DescribedCommand& command, const std::string& path) {
  std::string out = cat("\\fB", roff(path), "\\fR");
  for (const DescribedOption& option : command.options)
    if (option.positional())
      out += cat(" ", option.required ? "" : "[", "\\fI", roff(option.value), "\\fR", option.required ? "" : "]");
  return out + (command.commands.empty() ? " [\\fIflags\\fR]" : " \\fICOMMAND\\fR");
}

}  // namespace

std::string bash_completion(const DescribedCommand& program) {
  std::string out =
      cat("# bash completion for ", program.name, "; made by `", program.name, " completion bash`\n_", program.name,
          "() {\n  local current=\"${COMP_WORDS[COMP_CWORD]}\" path=\"", program.name,
          "\" words=\"\" i\n  COMPREPLY=()\n  for ((i = 1; i < COMP_CWORD; i++)); do\n    case \"$path ${COMP_WORDS[i]}\" in\n");
  each_command(program, program.name, [&](const DescribedCommand&, const std::string& path) {
    if (path != program.name) out += cat("      \"", path, "\") path=\"", path, "\" ;;\n");
  });
  out += "    esac\n  done\n  case \"$path\" in\n";
  each_command(program, program.name, [&](const DescribedCommand& command, const std::string& path) {
    out += cat("    \"", path, "\") words=\"", words_of(command), "\" ;;\n");
  });
  out += "  esac\n  case \"$path ${COMP_WORDS[COMP_CWORD-1]}\" in\n";
  each_command(program, program.name, [&](const DescribedCommand& command, const std::string& path) {
    for (const DescribedOption& option : command.options)
      if (!option.choices.empty() && !option.long_name.empty())
        out += cat("    \"", path, " ", option.long_name, "\") COMPREPLY=($(compgen -W \"", base::joined(option.choices, " "),
                   "\" -- \"$current\")); return ;;\n");
  });
  return cat(out, "  esac\n  if [[ $path == ", program.name, " || $current == -* || $words != -* ]]; then\n",
             "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n  fi\n",
             "  [[ ${#COMPREPLY[@]} -gt 0 || $current == -* ]] || COMPREPLY=($(compgen -f -- \"$current\"))\n}\ncomplete -o "
             "filenames -F _",
             program.name, " ", program.name, "\n");
}

std::string zsh_completion(const DescribedCommand& program) {
  std::string out =
      cat("#compdef ", program.name, "\n# made by `", program.name, " completion zsh`\n_", program.name, "() {\n  local path_=\"",
          program.name, "\" i\n  local -a words_\n  for ((i = 2; i < CURRENT; i++)); do\n    case \"$path_ ${words[i]}\" in\n");
  each_command(program, program.name, [&](const DescribedCommand&, const std::string& path) {
    if (path != program.name) out += cat("      '", path, "') path_='", path, "' ;;\n");
  });
  out += "    esac\n  done\n  case \"$path_\" in\n";
  each_command(program, program.name, [&](const DescribedCommand& command, const std::string& path) {
    out += cat("    '", path, "') words_=(\n");
    for (const DescribedCommand& below : command.commands)
      out += cat("      '", below.name, ":", one_line(below.help, "':"), "'\n");
    for (const DescribedOption& option : command.options)
      if (!option.long_name.empty()) out += cat("      '", option.long_name, ":", one_line(option.help, "':"), "'\n");
    out += "    ) ;;\n";
  });
  out += "  esac\n  case \"$path_ ${words[CURRENT-1]}\" in\n";
  each_command(program, program.name, [&](const DescribedCommand& command, const std::string& path) {
    for (const DescribedOption& option : command.options)
      if (!option.choices.empty() && !option.long_name.empty())
        out += cat("    '", path, " ", option.long_name, "') compadd -- ", base::joined(option.choices, " "), "; return ;;\n");
  });
  return cat(out, "  esac\n  _describe '", program.name, "' words_\n  _files\n}\ncompdef _", program.name, " ", program.name,
             "\n");
}

std::string fish_completion(const DescribedCommand& program) {
  std::string out = cat("# fish completion for ", program.name, "; made by `", program.name, " completion fish`\n");
  for (const DescribedCommand& command : program.commands) {
    out += cat("complete -c ", program.name, " -n __fish_use_subcommand -a ", command.name, " -d '",
               one_line(command.help, "'\\"), "'\n");
    const std::string here = cat("complete -c ", program.name, " -n '__fish_seen_subcommand_from ", command.name, "'");
    for (const DescribedCommand& below : command.commands)
      out += cat(here, " -a ", below.name, " -d '", one_line(below.help, "'\\"), "'\n");
    each_command(command, command.name, [&](const DescribedCommand& at, const std::string&) {
      for (const DescribedOption& option : at.options) {
        if (option.long_name.empty()) continue;
        out += cat(here, " -l ", option.long_name.substr(2),
                   option.short_name.empty() ? "" : cat(" -s ", option.short_name.substr(1)),
                   option.value.empty()     ? ""
                   : option.choices.empty() ? " -r"
                                            : cat(" -x -a '", base::joined(option.choices, " "), "'"),
                   " -d '", one_line(option.help, "'\\"), "'\n");
      }
    });
  }
  return out;
}

std::string manual_page(const DescribedCommand& program, const std::string& version) {
  std::string out =
      cat(".\\\" Made by `", program.name, " man`.\n.TH ESPALIER 1 \"\" \"espalier ", version, "\" \"User Commands\"\n.SH NAME\n",
          program.name, " \\- plans how a transformer is trained across a cluster\n.SH SYNOPSIS\n",
          synopsis(program, program.name), "\n.SH DESCRIPTION\n", roff(program.help), "\n.SH COMMANDS\n");
  each_command(program, program.name, [&](const DescribedCommand& command, const std::string& path) {
    if (path == program.name) return;
    out += cat(".SS ", synopsis(command, path), "\n", roff(command.help), "\n");
    for (const DescribedOption& option : command.options) out += option_entry(option);
  });
  return out +
         ".SH EXIT STATUS\n0 ok, 1 internal error, 2 usage, 3 bad input, 4 no feasible plan, 5 a check failed, 6 limit reached, "
         "130 "
         "interrupted.\n.SH ENVIRONMENT\n.TP\n\\fBNO_COLOR\\fR\nno colours\n.TP\n\\fBCOLUMNS\\fR\nwidth of the lines\n";
}

}  // namespace espalier::cli
