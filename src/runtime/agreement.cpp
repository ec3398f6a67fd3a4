// SPDX-License-Identifier: Apache-2.0
#include "runtime/agreement.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>

namespace espalier::runtime {
namespace {

constexpr std::int64_t kTextRoom = 2048;

constexpr char kEndOfField = '\x1f';  // the unit separator of ASCII; a field may have several lines

/// Packs the kind and the fields of an error one after the other.
std::string packed(const Status& status) {
  if (status.ok()) return "";
  std::string text(1, static_cast<char>('0' + static_cast<int>(status.error().kind)));
  for (const std::string* field :
       {&status.error().where, &status.error().found, &status.error().expected, &status.error().hint}) {
    text += field->substr(0, 480);
    text += kEndOfField;
  }
  return text;
}

Error unpacked(const std::string& text) {
  Error error;
  error.kind = static_cast<ErrorKind>(text[0] - '0');
  std::size_t at = 1;
  for (std::string* field : {&error.where, &error.found, &error.expected, &error.hint}) {
    const std::size_t end = std::min(text.find(kEndOfField, at), text.size());
    *field = text.substr(at, end - at);
    at = std::min(end + 1, text.size());
  }
  return error;
}

}  // namespace

std::vector<std::string> texts_of_all(const std::string& own, Communicator* world) {
  if (world == nullptr) return {own};
  const at::Tensor mine = at::zeros({kTextRoom}, at::kByte), all = at::zeros({kTextRoom * world->size()}, at::kByte);
  std::memcpy(mine.data_ptr(), own.data(), std::min<std::size_t>(own.size(), kTextRoom - 1));
  world->all_gather(all, mine);
  std::vector<std::string> texts;
  for (int rank = 0; rank < world->size(); ++rank)
    texts.emplace_back(static_cast<const char*>(all.data_ptr()) + rank * kTextRoom);  // each text ends with a zero
  return texts;
}

Status agreed(const Status& own, Communicator* world) {
  for (const std::string& text : texts_of_all(packed(own), world))
    if (!text.empty()) return unpacked(text);
  return {};
}

}  // namespace espalier::runtime
