// SPDX-License-Identifier: Apache-2.0
// Tests how a probe fails. The files of whole probes are read in tests/cli/profile.py.
#include "runtime/network_probe.h"

#include "runtime/testing.h"

namespace espalier::runtime::testing::network_probe_test {
namespace {

TEST(NetworkProbe, OneRankHasNoNetwork) {
  Meeting meeting({});
  const Status failed = probe_network({"out.txt", 1}, meeting);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::usage);
  EXPECT_EQ(failed.error().found, "one rank");
}

}  // namespace
}  // namespace espalier::runtime::testing::network_probe_test
