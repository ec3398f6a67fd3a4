// SPDX-License-Identifier: Apache-2.0
#include "cluster/device_choice.h"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "base/format.h"
#include "cluster/device_reader.h"

namespace espalier::cluster {
namespace {

constexpr std::size_t kLongestName = 80;

/// Maps the beginnings of bare names to the makers of these devices; all others are made by NVIDIA.
constexpr std::array kMakers = std::to_array<std::pair<std::string_view, std::string_view>>(
    {{"ascend", "Huawei"}, {"cpu", "any"}, {"mi", "AMD"}, {"tpu", "Google"}, {"trainium", "AWS"}});

std::string_view maker_of(std::string_view bare) {
  for (const auto& [begin, maker] : kMakers)
    if (bare.starts_with(begin)) return maker;
  return "NVIDIA";
}

/// Ranks a device by how near its name is to a wanted one; the least rank is the nearest.
struct Nearness {
  std::size_t unmatched = 0;  ///< letters of the wanted name after the beginning that both share
  std::size_t distance = 0;   ///< edit distance, where the names share a part of their beginning
  bool other_maker = false;
  std::string name;
};

Nearness nearness(const std::string& wanted, const std::string& name) {
  constexpr std::size_t kSharedLetters = 2;  // a single letter says nothing about the family of a device
  const std::string bare = bare_name(name);
  const auto [differs, unused] = std::mismatch(wanted.begin(), wanted.end(), bare.begin(), bare.end());
  const std::size_t shared = static_cast<std::size_t>(differs - wanted.begin());
  if (shared < kSharedLetters) return {wanted.size(), 0, maker_of(bare) != maker_of(wanted), name};
  return {wanted.size() - shared, shared == wanted.size() ? 0 : base::edit_distance(wanted, bare), false, name};
}

/// Returns the devices to suggest: those whose names begin with the given one ("h100", "NVIDIA A100"), else the nearest
/// by edit distance, else those of its family ("h1000").
std::string nearest_device(std::string_view name) {
  const std::string wanted = bare_name(name.substr(0, kLongestName));
  const std::vector<std::string> near = devices_near(name);
  const auto that_begin_with = [&](std::string_view begin) {
    std::vector<std::string> out;
    for (const std::string& candidate : near)
      if (!begin.empty() && bare_name(candidate).starts_with(begin)) out.push_back(candidate);
    return out;
  };
  if (const auto begins = that_begin_with(wanted); !begins.empty()) return "did you mean " + base::joined(begins) + "?";
  if (auto close = base::did_you_mean(name, near)) return "did you mean " + *close + "?";
  const std::string_view family = std::string_view(wanted).substr(0, std::max<std::size_t>(wanted.size(), 1) - 1);
  if (const auto begins = that_begin_with(family); family.size() > 2 && !begins.empty())
    return "did you mean " + base::joined(begins) + "?";
  return "describe a device that is not in the catalogue: device: {name, peak_tflops, memory, memory_bandwidth}";
}

const DeviceKind* catalogued(base::Reader& reader, std::string_view key, const std::string& name) {
  const DeviceKind* found = device_called(name);
  if (found == nullptr)
    reader.fail(key, "\"" + name + "\"", "a device of the catalogue: " + base::joined(devices_near(name)), nearest_device(name));
  return found;
}

ChosenDevice read_described_device(base::Reader reader) {
  ChosenDevice chosen;
  DeviceKind& device = chosen.device;
  std::string base_name;
  if (reader.has("base")) {
    base_name = reader.required_string("base");
    if (const DeviceKind* found = catalogued(reader, "base", base_name)) device = *found;
    if (!device.name.empty()) base_name = device.name;
    chosen.usual = catalogue().usual_node(base_name);
  }
  device.name = base_name.empty() ? reader.required_string("name") : reader.optional_string("name", base_name + "-modified");
  read_device_fields(reader, device);
  if (reader.sink().ok()) check_device(reader, device);
  reader.finish();
  return chosen;
}

}  // namespace

std::vector<std::string> devices_near(std::string_view name) {
  const std::string wanted = bare_name(name.substr(0, kLongestName));
  std::vector<Nearness> near;
  for (const DeviceKind& device : catalogue().devices) near.push_back(nearness(wanted, device.name));
  std::stable_sort(near.begin(), near.end(), [](const Nearness& a, const Nearness& b) {
    return std::tie(a.unmatched, a.other_maker, a.distance) < std::tie(b.unmatched, b.other_maker, b.distance);
  });
  std::vector<std::string> names;
  for (Nearness& device : near) names.push_back(std::move(device.name));
  return names;
}

ChosenDevice read_device(base::Reader& reader, std::vector<std::string>& notes) {
  const base::Node* node = reader.find("device");
  if (node != nullptr && node->kind == base::NodeKind::mapping) return read_described_device(reader.child("device", true));
  const std::string name = reader.required_string("device");
  if (name.empty() && !reader.sink().ok()) return {};
  const DeviceKind* found = catalogued(reader, "device", name);
  if (found == nullptr) return {};
  if (found->name != name) notes.push_back(reader.path() + ".device = " + found->name + " (\"" + name + "\")");
  return {*found, catalogue().usual_node(found->name)};
}

std::string source_of(const DeviceKind& device, std::string_view field) {
  for (const auto& [name, text] : device.sources)
    if (name == field) return text;
  return "default";
}

}  // namespace espalier::cluster
