// SPDX-License-Identifier: Apache-2.0
// Implements XXH64 with seed 0 (Y. Collet, xxHash specification 0.1.1,
// https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md). It is written from the specification: three dozen
// lines spare every user a dependency. It is not cryptographic: it names inputs.
#include <array>
#include <bit>

#include "base/document.h"

namespace espalier::base {
namespace {

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87u, kPrime2 = 0xC2B2AE3D27D4EB4Fu, kPrime3 = 0x165667B19E3779F9u,
                        kPrime4 = 0x85EBCA77C2B2AE63u, kPrime5 = 0x27D4EB2F165667C5u;

/// Reads `count` bytes, least significant first, on every machine.
std::uint64_t little_endian(std::string_view bytes, std::size_t count) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < count; ++i) word |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return word;
}

std::uint64_t round(std::uint64_t accumulator, std::uint64_t lane) {
  return std::rotl(accumulator + lane * kPrime2, 31) * kPrime1;
}

std::uint64_t stripes(std::string_view& rest) {
  std::array<std::uint64_t, 4> lanes = {kPrime1 + kPrime2, kPrime2, 0, 0 - kPrime1};
  for (; rest.size() >= 32; rest.remove_prefix(32)) {
    for (std::size_t i = 0; i < 4; ++i) lanes[i] = round(lanes[i], little_endian(rest.substr(8 * i), 8));
  }
  std::uint64_t hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
  for (const std::uint64_t lane : lanes) hash = (hash ^ round(0, lane)) * kPrime1 + kPrime4;
  return hash;
}

std::uint64_t xxh64(std::string_view bytes) {
  std::string_view rest = bytes;
  std::uint64_t hash = bytes.size() >= 32 ? stripes(rest) : kPrime5;
  hash += bytes.size();
  for (; rest.size() >= 8; rest.remove_prefix(8)) {
    hash = std::rotl(hash ^ round(0, little_endian(rest, 8)), 27) * kPrime1 + kPrime4;
  }
  for (; rest.size() >= 4; rest.remove_prefix(4)) {
    hash = std::rotl(hash ^ (little_endian(rest, 4) * kPrime1), 23) * kPrime2 + kPrime3;
  }
  for (; !rest.empty(); rest.remove_prefix(1)) hash = std::rotl(hash ^ (little_endian(rest, 1) * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33u)) * kPrime2;
  hash = (hash ^ (hash >> 29u)) * kPrime3;
  return hash ^ (hash >> 32u);
}

}  // namespace

std::string content_hash(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  const std::uint64_t hash = xxh64(bytes);
  std::string out;
  for (int shift = 60; shift >= 0; shift -= 4) out += digits[(hash >> static_cast<unsigned>(shift)) & 15u];
  return out;
}

}  // namespace espalier::base
