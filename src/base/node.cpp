// SPDX-License-Identifier: Apache-2.0
// Implements the small functions of Node and Error, and the reading of files.
#include <filesystem>
#include <fstream>

#include "base/document.h"

namespace espalier {

std::string Error::message() const {
  std::string out;
  const auto part = [&out](std::string_view separator, std::string_view word, const std::string& text) {
    if (text.empty()) return;
    if (!out.empty()) out += separator;
    out += word;
    out += text;
  };
  part("", "", where);
  part(": ", "found ", found);
  part(found.empty() ? ": " : "; ", "expected ", expected);
  part(found.empty() && expected.empty() ? ": " : "; ", "hint: ", hint);
  return out;
}

}  // namespace espalier

namespace espalier::base {

std::string_view to_string(NodeKind kind) {
  switch (kind) {
    case NodeKind::null: return "null";
    case NodeKind::boolean: return "boolean";
    case NodeKind::integer: return "integer";
    case NodeKind::real: return "number";
    case NodeKind::string: return "string";
    case NodeKind::sequence: return "list";
    case NodeKind::mapping: return "mapping";
  }
  return "value";
}

const Node* Node::find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

namespace {

std::string missing_hint(const std::string& path) {
  const std::string similar = similar_path("", path);
  return similar.empty() ? "check the path and the working directory" : "did you mean " + similar + "?";
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes) {
  const auto refuse = [&path](std::string found, std::string expected, std::string hint) {
    return Error{ErrorKind::bad_input, path, std::move(found), std::move(expected), std::move(hint)};
  };
  std::error_code code;
  const std::filesystem::file_status status = std::filesystem::status(path, code);
  if (!std::filesystem::exists(status)) return refuse("no such file", "a readable file", missing_hint(path));
  if (std::filesystem::is_directory(status)) return refuse("a directory", "a file", "name the file inside it");
  const auto too_big = [&](const std::string& size) {
    return refuse("a file of " + size + " bytes", "at most " + std::to_string(max_bytes) + " bytes", "is this the right file?");
  };
  if (std::filesystem::is_regular_file(status)) {
    const auto size = std::filesystem::file_size(path, code);
    if (!code && size > max_bytes) return too_big(std::to_string(size));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse("a file that cannot be opened", "a readable file", "check its permissions");
  // Pipes and devices have no size, so the loop never reads more than one byte past the limit.
  std::string text;
  char buffer[1 << 16];
  while (file.read(buffer, sizeof(buffer)) || file.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(file.gcount()));
    if (text.size() > max_bytes) return too_big("more than " + std::to_string(max_bytes));
  }
  if (file.bad()) return refuse("a file that cannot be read to its end", "a readable file", "check the disk and its permissions");
  return text;
}

}  // namespace espalier::base
