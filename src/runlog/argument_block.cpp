// SPDX-License-Identifier: Apache-2.0
#include "runlog/argument_block.h"

#include <algorithm>
#include <vector>

#include "base/format.h"
#include "runlog/lines.h"

namespace espalier::runlog {
namespace {

constexpr std::size_t kMostArguments = 10'000;
constexpr std::size_t kFewestDots = 2;

bool is_name(std::string_view word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
}

bool is_dots(std::string_view word) {
  return word.size() >= kFewestDots && std::all_of(word.begin(), word.end(), [](char c) { return c == '.'; });
}

}  // namespace

Result<std::map<std::string, Argument>> read_argument_block(std::string_view text, const std::string& where) {
  if (Status status = check_size(text, where); !status.ok()) return status.error();
  std::map<std::string, Argument> out;
  std::optional<Error> twice;
  bool inside = false;
  each_line(text, [&](std::int64_t number, std::string_view line) {
    if (line.find("--- end of arguments ---") != std::string_view::npos) inside = false;
    if (line.find("--- arguments ---") != std::string_view::npos) inside = true;
    if (!inside || twice || out.size() == kMostArguments) return;
    const std::vector<std::string_view> words = words_of(line);
    const auto dots = std::find_if(words.begin(), words.end(), is_dots);
    if (dots == words.begin() || dots == words.end() || dots + 1 == words.end() || !is_name(*(dots - 1))) return;
    const std::string name(*(dots - 1)), value(trimmed(line.substr(static_cast<std::size_t>((dots + 1)->data() - line.data()))));
    const auto [at, fresh] = out.try_emplace(name, Argument{value, number});
    if (!fresh && at->second.value != value)
      twice = Error{ErrorKind::bad_input, base::cat(where, ":", number), base::cat(name, " is ", value),
                    base::cat(at->second.value, ", as line ", at->second.line, " says"), "one run per log"};
  });
  if (twice) return *twice;
  return out;
}

std::optional<std::int64_t> integer_of(const Argument& argument) { return whole_integer(argument.value); }

}  // namespace espalier::runlog
