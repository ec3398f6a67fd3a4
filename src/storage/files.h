// SPDX-License-Identifier: Apache-2.0
// Reads and writes files of a run as bytes. They are read through a mapping, and written so that a file is complete
// or absent.
//
//   writing: PATH.partial → write → fsync → rename to PATH → fsync of the folder
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "espalier/result.h"

namespace espalier::storage {

/// Maps a file's bytes, which are readable until the last copy of this is gone. A file that is cut while it is mapped
/// ends the process (SIGBUS).
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path);
  [[nodiscard]] std::string_view bytes() const;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  class Mapping;
  std::string path_;
  std::shared_ptr<const Mapping> mapping_;
};

/// Writes a file that appears under its name when commit() succeeds; otherwise it is removed. The first failure (no
/// space, a limit, no permission) is kept, and later writes do nothing.
class NewFile {
 public:
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view bytes);
  /// Makes the file appear under its name. Returns the first failure, if any.
  Status commit();

 private:
  std::string path_, partial_;
  int descriptor_ = -1;
  Status failed_;
};

/// Makes everything in the folder (names, not contents) durable on the disk.
Status sync_folder(const std::string& folder);

/// Makes a folder and those above it; does nothing where they exist.
Status make_folder(const std::string& folder);

/// Returns the error of a file that cannot be written: the system's reason, exit code 6.
Error unwritable_file(const std::string& path, int reason);

}  // namespace espalier::storage
