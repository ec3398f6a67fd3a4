// SPDX-License-Identifier: Apache-2.0
// Fuzzes clusters in the formats of other tools with any bytes: an accepted input becomes a cluster file that reads
// back. The first byte chooses the format.
#include "espalier/imported_cluster.h"
#include "exchange/cluster_readers.h"
#include "fuzz_expect.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  if (size == 0) return 0;
  const std::string text(fuzz::text_of(data + 1, size - 1));
  constexpr const char* kDevices[] = {"h100-sxm-80gb", "l40s", "v100-sxm-16gb", "mi300x"};
  const auto& formats = exchange::cluster_formats();
  const exchange::ClusterFormat& format = formats[data[0] % formats.size()];
  exchange::ClusterRequest request;
  request.name = "file";
  request.text = text;
  request.device = kDevices[(data[0] >> 4) % 4];
  if (data[0] & 0x40) request.nodes = 2;
  request.oversubscription = data[0] & 0x80 ? 2.0 : 1.0;
  const auto found = format.read(request);
  if (!found.ok()) {
    fuzz::expect_helpful(found.error());
    return 0;
  }
  fuzz::expect(found->cluster.devices() > 0, "an accepted cluster has devices");
  const auto yaml = exchange::cluster_file(found->cluster, found->notes);
  if (!yaml.ok()) {
    fuzz::expect_helpful(yaml.error());
    return 0;
  }
  const auto back = load_cluster(*yaml, "cluster.yaml");
  fuzz::expect(back.ok(), "a cluster file is read", back.ok() ? "" : back.error().message());
  fuzz::expect(back->devices() == found->cluster.devices(), "with as many devices");
  return 0;
}
