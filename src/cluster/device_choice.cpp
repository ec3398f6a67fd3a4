// SPDX-License-Identifier: Apache-2.0
#include "cluster/device_choice.h"

#include "base/format.h"
#include "cluster/device_reader.h"

namespace espalier::cluster {
namespace {

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const DeviceKind& device : catalogue().devices) names.push_back(device.name);
  return names;
}

constexpr std::size_t kLongestName = 80;

/// Returns the nearest device by edit distance, or the names that begin with the given one ("h100", "NVIDIA A100").
std::string nearest_device(std::string_view name) {
  const std::vector<std::string> names = device_names();
  const std::string wanted = bare_name(name.substr(0, kLongestName));
  std::vector<std::string> begins;
  for (const std::string& candidate : names)
    if (!wanted.empty() && bare_name(candidate).starts_with(wanted)) begins.push_back(candidate);
  if (!begins.empty()) return "did you mean " + base::joined(begins) + "?";
  if (auto close = base::did_you_mean(name, names)) return "did you mean " + *close + "?";
  return "describe a device that is not in the catalogue: device: {name, peak_tflops, memory, memory_bandwidth}";
}

const DeviceKind* catalogued(base::Reader& reader, std::string_view key, const std::string& name) {
  const DeviceKind* found = device_called(name);
  if (found == nullptr)
    reader.fail(key, "\"" + name + "\"", "a device of the catalogue: " + base::joined(device_names()), nearest_device(name));
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
