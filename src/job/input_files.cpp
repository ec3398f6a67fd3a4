// SPDX-License-Identifier: Apache-2.0
#include "job/input_files.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/document.h"
#include "base/format.h"

namespace espalier::job {
namespace {

namespace fs = std::filesystem;

/// Returns the folders that are searched for a path, in this order.
std::vector<fs::path> search_folders(const std::string& path, const std::string& base_directory) {
  if (fs::path(path).is_absolute()) return {fs::path(path).root_path()};
  std::vector<fs::path> out;
  std::error_code ignored;
  fs::path folder = fs::absolute(base_directory.empty() ? "." : base_directory, ignored).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  while (true) {
    out.push_back(folder);
    if (fs::exists(folder / ".git", ignored) || folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  out.emplace_back(".");
  return out;
}

std::vector<fs::path> candidate_paths(const std::string& path, const std::string& base_directory) {
  std::vector<fs::path> out;
  for (const fs::path& folder : search_folders(path, base_directory)) out.push_back(folder / path);
  return out;
}

/// Returns the end of a hint: "; did you mean models/llama-3-8b/config.json?".
std::string nearby_file(const std::string& path, const std::string& base_directory) {
  for (const fs::path& folder : search_folders(path, base_directory)) {
    if (const std::string similar = base::similar_path(folder.string(), path); !similar.empty())
      return "; did you mean " + similar + "?";
  }
  return "";
}

/// Returns whether a path is organisation and model, as the Hugging Face Hub names them: "meta-llama/Llama-3.1-8B".
bool hub_name(const std::string& path) {
  const std::size_t slash = path.find('/');
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  const std::string extension = fs::path(path).extension().string();
  return slash != std::string::npos && slash > 0 && slash + 1 < path.size() && path.find('/', slash + 1) == std::string::npos &&
         path[0] != '.' && extension != ".json" && extension != ".yaml" && extension != ".yml" &&
         std::all_of(path.begin(), path.end(), [&](char c) { return c == '/' || plain(c); });
}

/// Reports a path that probably means a model on the Hub, from which nothing is fetched.
Error on_the_hub(const std::string& path, const std::string& base_directory, const std::string& where) {
  const std::string own = base::lower(path.substr(path.find('/') + 1));
  std::error_code ignored;
  std::string shipped;
  for (const fs::path& folder : search_folders("models", base_directory))
    if (shipped.empty() && fs::is_regular_file(folder / "models" / own / "config.json", ignored))
      shipped = base::cat("models/", own);
  return Error{ErrorKind::bad_input, where, base::cat("no file \"", path, "\", which looks like a name on the Hugging Face Hub"),
               "a config.json, its folder, or the values themselves: nothing is downloaded",
               shipped.empty() ? base::cat("hf download ", path, " config.json --local-dir ", own, ", then model: ", own)
                               : base::cat("model: ", shipped, " is shipped with Espalier")};
}

}  // namespace

Result<std::string> find_input_file(const std::string& path, const std::string& key, const std::string& base_directory,
                                    const std::string& where) {
  std::error_code ignored;
  bool folder = false;
  for (const fs::path& candidate : candidate_paths(path, base_directory)) {
    if (fs::is_regular_file(candidate, ignored)) return candidate.lexically_normal().string();
    if (!fs::is_directory(candidate, ignored)) continue;
    if (const fs::path inside = candidate / "config.json"; key == "model" && fs::is_regular_file(inside, ignored))
      return inside.lexically_normal().string();
    folder = true;
  }
  if (folder)
    return Error{ErrorKind::bad_input, where, "the folder \"" + path + "\"" + (key == "model" ? " without config.json" : ""),
                 key == "model" ? "a Hugging Face config.json, or its folder" : "a file, or the values themselves",
                 "give the name of a file"};
  if (const std::string near = nearby_file(path, base_directory); key == "model" && near.empty() && hub_name(path))
    return on_the_hub(path, base_directory, where);
  return Error{
      ErrorKind::bad_input, where, "no file \"" + path + "\"", "a path or the values themselves",
      "paths are relative to the job file, the folders above it up to the repository's root, then the working directory" +
          nearby_file(path, base_directory)};
}

}  // namespace espalier::job
