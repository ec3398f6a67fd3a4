// SPDX-License-Identifier: Apache-2.0
#include "storage/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace espalier::storage {

Error unwritable_file(const std::string& path, int reason) {
  return {ErrorKind::limit, path, std::strerror(reason), "a writable file", reason == ENOSPC ? "the disk is full" : ""};
}

// ---- reading ------------------------------------------------------------------------------------------------------

class MappedFile::Mapping {
 public:
  Mapping(void* at, std::size_t size) : at_(at), size_(size) {}
  ~Mapping() {
    if (size_ > 0) munmap(at_, size_);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  [[nodiscard]] std::string_view bytes() const { return {static_cast<const char*>(at_), size_}; }

 private:
  void* at_;
  std::size_t size_;
};

Result<MappedFile> MappedFile::open(const std::string& path) {
  const auto refused = [&](const char* why) { return Error{ErrorKind::bad_input, path, why, "a readable file", ""}; };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return refused(std::strerror(errno));
  struct stat facts {};
  const bool regular = fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  const auto size = regular ? static_cast<std::size_t>(facts.st_size) : 0;
  void* at = size > 0 ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
  const int reason = errno;
  close(descriptor);
  if (!regular) return refused("not a regular file");
  if (at == MAP_FAILED) return refused(std::strerror(reason));
  MappedFile file;
  file.path_ = path;
  file.mapping_ = std::make_shared<const Mapping>(at, size);
  return file;
}

std::string_view MappedFile::bytes() const { return mapping_ == nullptr ? std::string_view() : mapping_->bytes(); }

// ---- writing ------------------------------------------------------------------------------------------------------

NewFile::NewFile(std::string path) : path_(std::move(path)), partial_(path_ + ".partial") {
  descriptor_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) failed_ = unwritable_file(path_, errno);
}

NewFile::~NewFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(partial_.c_str());
}

void NewFile::write(std::string_view bytes) {
  while (!bytes.empty() && failed_.ok()) {
    const ssize_t wrote = ::write(descriptor_, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) {
      failed_ = unwritable_file(path_, wrote == 0 ? ENOSPC : errno);
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

Status NewFile::commit() {
  if (!failed_.ok()) return failed_;
  if (fsync(descriptor_) != 0 || std::rename(partial_.c_str(), path_.c_str()) != 0) return unwritable_file(path_, errno);
  close(std::exchange(descriptor_, -1));
  return sync_folder(std::filesystem::path(path_).parent_path().string());
}

Status sync_folder(const std::string& folder) {
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return unwritable_file(folder, errno);
  // EINVAL comes from a file system without this operation.
  const int failed = fsync(descriptor) != 0 && errno != EINVAL ? errno : 0;
  close(descriptor);
  return failed == 0 ? Status() : Status(unwritable_file(folder, failed));
}

Status make_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return unwritable_file(folder, failed.value());
  return {};
}

}  // namespace espalier::storage
