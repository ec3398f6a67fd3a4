// SPDX-License-Identifier: Apache-2.0
// Tests the output for a small command line that is written down by hand.
#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/cli.h"
#include "cli/help.h"

namespace espalier::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

DescribedCommand toy() {
  DescribedCommand inspect{
      "inspect", "show what's understood", {}, {{"model", "a model", {{"", "", "FILE", "config.json", true}}, {}}}};
  DescribedCommand plan{
      "plan",
      "search",
      {{"", "", "JOB", "job file", true}, {"--out", "-o", "DIR", "write here", false}, {"--json", "", "", "as JSON", false}},
      {}};
  return {"toy", ".plans things", {{"--help", "-h", "", "this text", false}}, {inspect, plan}};
}

TEST(Completion, BashOffersCommandsThenTheirFlags) {
  const std::string text = bash_completion(toy());
  EXPECT_THAT(text, HasSubstr("\"toy\") words=\"inspect plan --help -h\" ;;"));
  EXPECT_THAT(text, HasSubstr("\"toy plan\") words=\"--out -o --json\" ;;"));
  EXPECT_THAT(text, HasSubstr("\"toy inspect\") words=\"model\" ;;"));
  EXPECT_THAT(text, HasSubstr("\"toy inspect model\") path=\"toy inspect model\" ;;"));
}

TEST(Completion, ZshAndFishQuoteWhatTheySay) {
  EXPECT_THAT(zsh_completion(toy()), HasSubstr("'inspect:show what s understood'"));
  EXPECT_THAT(fish_completion(toy()), HasSubstr("-a inspect -d 'show what s understood'"));
  EXPECT_THAT(fish_completion(toy()), HasSubstr("-l out -s o -r -d 'write here'"));
  EXPECT_THAT(fish_completion(toy()), HasSubstr("-l json -d 'as JSON'"));
}

TEST(Completion, ValuesThatAreListedAreOffered) {
  DescribedCommand program = toy();
  program.commands[1].options.push_back({"--zero", "", "0..3", "stage", false, {"0", "1"}});
  EXPECT_THAT(bash_completion(program), HasSubstr("\"toy plan --zero\") COMPREPLY=($(compgen -W \"0 1\""));
  EXPECT_THAT(zsh_completion(program), HasSubstr("'toy plan --zero') compadd -- 0 1; return"));
  EXPECT_THAT(fish_completion(program), HasSubstr("-l zero -x -a '0 1' -d 'stage'"));
}

TEST(Help, LinesFitAndValuesAreNamed) {
  DescribedCommand plan = toy().commands[1];
  plan.options.push_back({"--engine", "", "NAME", "whose rules count", true, {"generic", "torchtitan"}, "generic"});
  const std::string text = help_text(plan, "espalier plan", "the end", 50);
  EXPECT_THAT(text, HasSubstr("Usage: espalier plan JOB [flags]"));
  EXPECT_THAT(text, HasSubstr("  -o, --out DIR           write here\n"));
  EXPECT_THAT(text, HasSubstr("of generic, torchtitan\n"));
  EXPECT_THAT(text, HasSubstr("(default:"));
  EXPECT_THAT(text, HasSubstr("espalier plan job.yaml -o out"));
  EXPECT_TRUE(text.ends_with("the end\n")) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 50u) << line;
}

TEST(ManualPage, DashesAndLeadingDotsAreText) {
  const std::string text = manual_page(toy(), "1.2");
  EXPECT_THAT(text, HasSubstr("\\fB\\-o\\fR, \\fB\\-\\-out\\fR \\fIDIR\\fR\nwrite here\n"));
  EXPECT_THAT(text, HasSubstr(".SH DESCRIPTION\n\\&.plans things\n"));
  EXPECT_THAT(text, HasSubstr(".SS \\fBtoy inspect model\\fR \\fIFILE\\fR"));
  EXPECT_THAT(text, HasSubstr("config.json (required)"));
}

/// Returns the output of the program itself.
std::string printed(std::vector<const char*> words) {
  std::ostringstream out, err;
  words.insert(words.begin(), "espalier");
  EXPECT_EQ(run(static_cast<int>(words.size()), words.data(), out, err), 0) << err.str();
  return out.str();
}

/// Checks that every command shows how it is typed, in lines that fit a terminal, and that its examples use flags
/// that it has.
TEST(Help, EveryCommandHasAnExample) {
  const std::string man = printed({"man"});
  for (const char* command : {"plan",
                              "estimate",
                              "simulate",
                              "check",
                              "explain",
                              "compare",
                              "validate",
                              "calibrate",
                              "inspect model",
                              "inspect cluster",
                              "inspect run",
                              "improve",
                              "import cluster",
                              "import config",
                              "import trace",
                              "import galvatron",
                              "import galvatron-profile",
                              "export",
                              "report",
                              "engines",
                              "what-if",
                              "replan",
                              "run",
                              "profile",
                              "completion",
                              "man",
                              "version"}) {
    ASSERT_FALSE(examples_of(command).empty()) << command;
    std::istringstream words(command);
    std::vector<std::string> held;
    for (std::string word; words >> word;) held.push_back(word);
    std::vector<const char*> typed;
    for (const std::string& word : held) typed.push_back(word.c_str());
    typed.push_back("--help");
    const std::string help = printed(typed);
    EXPECT_THAT(help, HasSubstr("\nExample\n  espalier ")) << command;
    EXPECT_THAT(help, Not(HasSubstr("INT in ["))) << command;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(line.size(), 110u) << line;  // letters beyond ASCII take several bytes
    for (const std::string& example : examples_of(command)) {
      EXPECT_TRUE(example.starts_with(held.front())) << example;
      std::istringstream parts(example);
      for (std::string word; parts >> word;) {
        if (!word.starts_with("-")) continue;
        EXPECT_THAT(help, HasSubstr(word)) << example;
      }
    }
  }
}

TEST(Completion, TheProgramDescribesAllOfItself) {
  const std::string bash = printed({"completion", "bash"}), man = printed({"man"});
  for (const char* command : {"plan", "estimate", "simulate", "report", "completion", "inspect model", "import galvatron"}) {
    EXPECT_THAT(bash, HasSubstr("\"espalier " + std::string(command) + "\") words=\"")) << command;
    EXPECT_THAT(man, HasSubstr(".SS \\fBespalier " + std::string(command) + "\\fR")) << command;
  }
  EXPECT_THAT(bash, HasSubstr("--grid"));
  EXPECT_THAT(man, HasSubstr("\\fB\\-\\-grid\\fR"));
  EXPECT_THAT(man, Not(HasSubstr("\n\n")));  // in roff, an empty line would be a paragraph
}

}  // namespace
}  // namespace espalier::cli
