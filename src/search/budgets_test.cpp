// SPDX-License-Identifier: Apache-2.0
#include "search/budgets.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "data/source_dir.h"

namespace espalier::search {
namespace {

TEST(Budgets, EachStandsInTheTableOnce) {
  std::ifstream header(std::string(ESPALIER_SOURCE_DIR) + "/src/search/budgets.h");
  std::stringstream text;
  text << header.rdbuf();
  std::size_t declared = 0;
  for (std::size_t at = 0; (at = text.str().find("inline constexpr Budget<", at)) != std::string::npos; ++at) ++declared;
  std::set<std::string_view> names;
  for (const BudgetRow& row : budgets()) {
    names.insert(row.name);
    EXPECT_GT(row.value, 0) << row.name;
    EXPECT_FALSE(row.bounds.empty()) << row.name;
  }
  EXPECT_EQ(names.size(), budgets().size());
  EXPECT_EQ(names.size(), declared);
}

TEST(Budgets, StandForTheirValue) {
  static_assert(kMostAcrossSets == 64);
  static_assert(kMostUnitSets == 0x1p28);
  EXPECT_EQ(std::int64_t{1} + kMostClosing, 3'001);
}

}  // namespace
}  // namespace espalier::search
