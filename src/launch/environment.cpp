// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>

#include "base/format.h"
#include "launch/launch.h"

namespace espalier::launch {
namespace {

struct Names {
  const char *rank, *world;
};
constexpr std::array<Names, 4> kLaunchers{{{"RANK", "WORLD_SIZE"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"},
                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"}}};

Result<int> number_of(const std::string& name, const std::string& text, int low, int high) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high)
    return Error{ErrorKind::usage, base::cat("environment: ", name), text, base::cat("a number from ", low, " to ", high), ""};
  return value;
}

Result<std::optional<RankPlace>> place_of(const Names& names, const std::string& rank, const std::string& world,
                                          const Environment& environment) {
  RankPlace place;
  const auto size = number_of(names.world, world, 1, 1 << 20);
  if (!size) return size.error();
  const auto own = number_of(names.rank, rank, 0, *size - 1);
  if (!own) return own.error();
  const auto port = number_of("MASTER_PORT", environment("MASTER_PORT").value_or("29500"), 1, 65535);
  if (!port) return port.error();
  const std::optional<std::string> address = environment("MASTER_ADDR");
  if (!address && *size > 1)
    return Error{ErrorKind::usage, "environment: MASTER_ADDR", "nothing", "the host of rank 0",
                 "torchrun sets it; with srun or mpirun export it"};
  place.rank = *own;
  place.world = *size;
  place.address = address.value_or("127.0.0.1");
  place.port = *port;
  return std::optional<RankPlace>(place);
}

}  // namespace

Result<std::optional<RankPlace>> rank_of(const Environment& environment) {
  for (const Names& names : kLaunchers) {
    const std::optional<std::string> rank = environment(names.rank), world = environment(names.world);
    if (rank && world) return place_of(names, *rank, *world, environment);
  }
  return std::optional<RankPlace>();
}

}  // namespace espalier::launch
