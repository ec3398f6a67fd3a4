// SPDX-License-Identifier: Apache-2.0
// What is made of a small command line that is written down by hand.
#include "cli/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/cli.h"

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

TEST(ManualPage, DashesAndLeadingDotsAreText) {
  const std::string text = manual_page(toy(), "1.2");
  EXPECT_THAT(text, HasSubstr("\\fB\\-o\\fR, \\fB\\-\\-out\\fR \\fIDIR\\fR\nwrite here\n"));
  EXPECT_THAT(text, HasSubstr(".SH DESCRIPTION\n\\&.plans things\n"));
  EXPECT_THAT(text, HasSubstr(".SS \\fBtoy inspect model\\fR \\fIFILE\\fR"));
  EXPECT_THAT(text, HasSubstr("config.json (required)"));
}

/// What the program itself prints.
std::string printed(std::vector<const char*> words) {
  std::ostringstream out, err;
  words.insert(words.begin(), "espalier");
  EXPECT_EQ(run(static_cast<int>(words.size()), words.data(), out, err), 0) << err.str();
  return out.str();
}

TEST(Completion, TheProgramDescribesAllOfItself) {
  const std::string bash = printed({"completion", "bash"}), man = printed({"man"});
  for (const char* command : {"plan", "estimate", "simulate", "report", "completion", "inspect model", "import galvatron"}) {
    EXPECT_THAT(bash, HasSubstr("\"espalier " + std::string(command) + "\") words=\"")) << command;
    EXPECT_THAT(man, HasSubstr(".SS \\fBespalier " + std::string(command) + "\\fR")) << command;
  }
  EXPECT_THAT(bash, HasSubstr("--grid"));
  EXPECT_THAT(man, HasSubstr("\\fB\\-\\-grid\\fR"));
  EXPECT_THAT(man, Not(HasSubstr("\n\n")));  // an empty line is a paragraph of its own in roff
}

}  // namespace
}  // namespace espalier::cli
