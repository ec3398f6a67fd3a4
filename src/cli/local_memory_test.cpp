// SPDX-License-Identifier: Apache-2.0
#include "cli/local_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace espalier::cli {
namespace {

TEST(LocalMemory, WhatTheKernelSaysIsAvailable) {
  EXPECT_EQ(available_of("MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:    1024 kB\n"), 1048576);
  EXPECT_EQ(available_of("MemTotal: 2048 kB\n"), std::nullopt);
  EXPECT_EQ(available_of("MemAvailable: many\n"), std::nullopt);
}

TEST(LocalMemory, MoreThanThereIsIsRefused) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  EXPECT_TRUE(fits_here({8, 4 * kGiB}, 4 * kGiB).ok());
  EXPECT_TRUE(fits_here({8, 4 * kGiB}, std::nullopt).ok());
  const Status refused = fits_here({8, 5 * kGiB}, 4 * kGiB);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::limit);
  EXPECT_THAT(refused.error().message(),
              testing::HasSubstr("8 processes that need about 5.0 GiB together; expected at most 4.0 GiB"));
}

}  // namespace
}  // namespace espalier::cli
