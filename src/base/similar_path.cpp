// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "base/document.h"

namespace espalier::base {
namespace {

namespace fs = std::filesystem;

/// Returns the sorted names in a folder; only some of them if it is huge.
std::vector<std::string> names_in(const fs::path& folder) {
  constexpr std::size_t kMostEntries = 1000;
  std::error_code ignored;
  std::vector<std::string> names;
  const fs::path place = folder.empty() ? fs::path(".") : folder;
  for (fs::directory_iterator entry(place, ignored), end; entry != end && names.size() < kMostEntries; entry.increment(ignored)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns a name with the same extension and a similar stem, or with the same stem. A common extension alone makes
/// no two names similar.
std::string similar_name(const fs::path& wanted, const std::vector<std::string>& names) {
  std::vector<std::string> stems;
  for (const std::string& name : names) {
    const fs::path path(name);
    if (path.stem() == wanted.stem()) return name;
    if (path.extension() == wanted.extension()) stems.push_back(path.stem().string());
  }
  const auto close = did_you_mean(wanted.stem().string(), stems);
  return close ? *close + wanted.extension().string() : "";
}

}  // namespace

std::string similar_path(const std::string& folder, const std::string& path) {
  std::error_code ignored;
  fs::path mended;
  bool replaced = false;
  for (const fs::path& part : fs::path(path)) {
    if (replaced || fs::exists(folder / mended / part, ignored)) {
      mended /= part;
      continue;
    }
    const std::string close = similar_name(part, names_in(folder / mended));
    if (close.empty()) return "";
    mended /= close;
    replaced = true;
  }
  return replaced && fs::exists(folder / mended, ignored) ? mended.string() : "";
}

}  // namespace espalier::base
