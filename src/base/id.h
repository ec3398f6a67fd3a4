// SPDX-License-Identifier: Apache-2.0
// Defines ids of one sort, and vectors that only ids of that sort may index: a stage cannot be mistaken for a chunk.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/invariant.h"

namespace espalier::base {

/// Holds the position of an object of sort `Tag` in the table of its sort; −1 is no object.
template <class Tag>
struct Id {
  std::int32_t value = -1;
  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  [[nodiscard]] constexpr bool valid() const { return value >= 0; }
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
  auto operator<=>(const Id&) const = default;
};

/// Holds a vector that is indexed by `I`.
template <class I, class T>
class IndexedVector {
 public:
  IndexedVector() = default;
  explicit IndexedVector(std::size_t size) : items_(size) {}
  IndexedVector(std::initializer_list<T> items) : items_(items) {}

  [[nodiscard]] T& operator[](I id) { return items_[id.index()]; }
  [[nodiscard]] const T& operator[](I id) const { return items_[id.index()]; }
  /// Returns the item, after a check that the id is one of this table.
  [[nodiscard]] const T& at(I id) const {
    ESPALIER_CHECK(id.valid() && id.index() < items_.size());
    return items_[id.index()];
  }
  /// Appends an item and returns its id.
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
