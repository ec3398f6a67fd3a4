// SPDX-License-Identifier: Apache-2.0
// Numbers that name things of one sort, and vectors that only such a number may index: a stage is not taken for a
// chunk.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/invariant.h"

namespace espalier::base {

/// The position of a thing of sort `Tag` in the table of its sort; −1 names nothing.
template <class Tag>
struct Id {
  std::int32_t value = -1;
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  [[nodiscard]] constexpr bool valid() const { return value >= 0; }
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  auto operator<=>(const Id&) const = default;
};

/// A vector whose positions are named by `I`.
template <class I, class T>
class IndexedVector {
 public:
  IndexedVector() = default;
  explicit IndexedVector(std::size_t size) : items_(size) {}
  IndexedVector(std::initializer_list<T> items) : items_(items) {}

  [[nodiscard]] T& operator[](I id) { return items_[id.index()]; }
  [[nodiscard]] const T& operator[](I id) const { return items_[id.index()]; }
  /// The same with a check that the id is one of this table.
  [[nodiscard]] const T& at(I id) const {
    ESPALIER_CHECK(id.valid() && id.index() < items_.size());
    return items_[id.index()];
  }
  /// Appends and names what was appended.
  I add(T item) {
    items_.push_back(std::move(item));
    return I(static_cast<std::int32_t>(items_.size()) - 1);
  }
  void assign(std::size_t size, const T& value) { items_.assign(size, value); }
  void resize(std::size_t size) { items_.resize(size); }
  void clear() { items_.clear(); }
  [[nodiscard]] std::size_t size() const { return items_.size(); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  [[nodiscard]] const T* data() const { return items_.data(); }
  [[nodiscard]] auto begin() { return items_.begin(); }
  [[nodiscard]] auto end() { return items_.end(); }
  [[nodiscard]] auto begin() const { return items_.begin(); }
  [[nodiscard]] auto end() const { return items_.end(); }
  bool operator==(const IndexedVector&) const = default;

 private:
  std::vector<T> items_;
};

}  // namespace espalier::base
