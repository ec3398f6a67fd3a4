// SPDX-License-Identifier: Apache-2.0
#include "exchange/settings.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace espalier::exchange::settings_test {
namespace {

constexpr const char* kMeaning = "option fused-loss";
const std::vector<std::string> kFusedLoss = {"--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl te"};

/// Returns whether a file has the flags of an option, and what becomes of the first one.
std::pair<bool, std::string> asked(std::vector<Setting> file, const std::vector<std::string>& flags) {
  const ConfigurationRequest request{"file", "", 8, {}, 0, 0, 0, "", nullptr};
  SettingReader in(request, std::move(file), key_table("megatron-args"));
  const bool all = in.flags(flags, kMeaning);
  const auto keys = in.finish();
  EXPECT_TRUE(keys);
  for (const ImportedKey& key : *keys)
    if (key.key == plain_key(flags.front())) return {all, key.meaning};
  return {all, "absent"};
}

TEST(SettingReader, TakesTheFlagsOfAnOptionTogether) {
  const Setting fusion{"cross_entropy_loss_fusion", "True", 1};
  EXPECT_EQ(asked({fusion, {"cross_entropy_fusion_impl", "te", 2}}, kFusedLoss),
            std::pair(true, std::string(kMeaning) + " True"));
  // With another value the dictionary judges both keys.
  const auto native = asked({fusion, {"cross_entropy_fusion_impl", "native", 2}}, kFusedLoss);
  EXPECT_EQ(native, std::pair(false, std::string("another kernel of the loss")));
  EXPECT_EQ(asked({fusion}, kFusedLoss), native);
  EXPECT_EQ(asked({}, kFusedLoss), std::pair(false, std::string("absent")));
}

TEST(SettingReader, ListsFlagsWhoseRowsSayThatTheyAreRead) {
  const std::vector<std::string> flags = {"--grad-reduce-in-bf16"};
  EXPECT_EQ(asked({{"grad_reduce_in_bf16", "True", 1}}, flags), std::pair(true, std::string(kMeaning) + ": yes"));
  EXPECT_EQ(asked({}, flags), std::pair(false, std::string(kMeaning) + ": no"));
}

}  // namespace
}  // namespace espalier::exchange::settings_test
