// SPDX-License-Identifier: Apache-2.0
// Fuzzes safetensors headers with any bytes: every tensor of an accepted header is inside the file, and writing it
// again gives the same tensors.
#include "fuzz_expect.h"
#include "storage/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const std::string_view bytes = fuzz::text_of(data, size);
  const auto header = storage::read_tensor_header(bytes, "file.safetensors");
  if (!header.ok()) {
    fuzz::expect_helpful(header.error());
    return 0;
  }
  std::int64_t elements = 0;
  for (const storage::TensorEntry& tensor : header->tensors) {
    fuzz::expect(tensor.begin >= 0 && tensor.end + header->buffer <= static_cast<std::int64_t>(size),
                 "tensors lie inside the file");
    if (!tensor.type.real || tensor.end == tensor.begin) continue;
    const auto from = static_cast<std::size_t>(header->buffer + tensor.begin),
               length = static_cast<std::size_t>(tensor.end - tensor.begin);
    const storage::TensorValues values(tensor.type, bytes.substr(from, length));
    elements += values[(tensor.end - tensor.begin) / tensor.type.bytes - 1] == 0 ? 1 : 0;
  }
  const std::string again = storage::tensor_header_text(header->tensors, header->metadata);
  const auto back =
      storage::read_tensor_header(again + std::string(size - static_cast<std::size_t>(header->buffer), '\0'), "again");
  fuzz::expect(back.ok(), "what is written is read", back.ok() ? "" : back.error().message());
  fuzz::expect(back->tensors == header->tensors && back->metadata == header->metadata, "equal tensors");
  return elements < 0 ? 1 : 0;
}
