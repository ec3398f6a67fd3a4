// SPDX-License-Identifier: Apache-2.0
// Reads and writes golden files of many answers, one line each: `key | answer`. Keys are distinct, and the file has
// the order of the test.
//
// Some answers take too long for every run. A test leaves those out unless ESPALIER_ALL_ANSWERS=1 is set, but their
// lines must be in the file. ESPALIER_UPDATE_GOLDEN=1 rewrites the lines that were computed and keeps those that
// were left out.
#pragma once

#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "golden.h"

namespace espalier::golden {

/// Returns true if the slow answers are also requested.
inline bool all_answers() {
  const char* asked = std::getenv("ESPALIER_ALL_ANSWERS");
  return asked != nullptr && *asked != '\0' && *asked != '0';
}

struct AnswerLine {
  std::string key;
  std::optional<std::string> answer;  ///< absent: left out of this run
};

using Answers = std::map<std::string, std::string>;

inline constexpr const char* kBetween = " | ";

inline Answers read_answers(const std::string& name) {
  Answers answers;
  std::istringstream in(read_text(golden_path(name)));
  for (std::string line; std::getline(in, line);) {
    const std::size_t cut = line.find(kBetween);
    if (cut == std::string::npos) {
      ADD_FAILURE() << name << " holds a line without a key: " << line;
      continue;
    }
    const bool first = answers.emplace(line.substr(0, cut), line.substr(cut + 3)).second;
    EXPECT_TRUE(first) << name << " holds two lines of " << line.substr(0, cut);
  }
  return answers;
}

inline void write_answers(const std::string& name, const std::vector<AnswerLine>& lines) {
  const Answers before = read_answers(name);
  std::ofstream out(golden_path(name), std::ios::binary);
  for (const AnswerLine& line : lines) {
    const auto old = before.find(line.key);
    if (line.answer)
      out << line.key << kBetween << *line.answer << "\n";
    else if (old != before.end())
      out << line.key << kBetween << old->second << "\n";
    else
      ADD_FAILURE() << name << " has no answer of " << line.key << " yet: write it with ESPALIER_ALL_ANSWERS=1";
  }
}

/// Returns the differences from the file, one entry each.
inline std::vector<std::string> differences(const Answers& expected, const std::vector<AnswerLine>& lines) {
  std::vector<std::string> found;
  Answers left = expected;
  for (const AnswerLine& line : lines) {
    const auto it = expected.find(line.key);
    left.erase(line.key);
    if (it == expected.end())
      found.push_back(line.key + "\n  expected: (no line)\n  actual:   " + line.answer.value_or("(left out of this run)"));
    else if (line.answer && *line.answer != it->second)
      found.push_back(line.key + "\n  expected: " + it->second + "\n  actual:   " + *line.answer);
  }
  for (const auto& [key, answer] : left) found.push_back(key + "\n  expected: " + answer + "\n  actual:   (no line)");
  return found;
}

inline void expect_answers(const std::string& name, const std::vector<AnswerLine>& lines) {
  if (std::getenv("ESPALIER_UPDATE_GOLDEN") != nullptr) {
    write_answers(name, lines);
    return;
  }
  constexpr std::size_t kShown = 10;
  const std::vector<std::string> found = differences(read_answers(name), lines);
  std::string text;
  for (std::size_t i = 0; i < found.size() && i < kShown; ++i) text += "\n" + found[i];
  EXPECT_TRUE(found.empty()) << found.size() << " lines of " << name << " differ"
                             << (found.size() > kShown ? "; the first ten:" : ":") << text
                             << "\nIf the change is meant: ESPALIER_UPDATE_GOLDEN=1 ESPALIER_ALL_ANSWERS=1 ./dev test -R golden";
}

}  // namespace espalier::golden
