// SPDX-License-Identifier: Apache-2.0
// Orders the events of a simulation by time. A handle has at most one event, which can be moved to another time or
// removed. Equal times are ordered by handle. Handles are small numbers; every operation is O(log n).
#pragma once

#include <cstdint>
#include <vector>

namespace espalier::sim {

class EventHeap {
 public:
  using Handle = std::int32_t;
  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::int64_t first_time() const { return heap_.front().at; }
  [[nodiscard]] Handle first_handle() const { return heap_.front().handle; }
  /// Sets the time of the handle's event, whether it had one or not.
  void set(Handle handle, std::int64_t at);
  /// Removes the handle's event, if it has one.
  void erase(Handle handle);

 private:
  struct Event {
    std::int64_t at;
    Handle handle;
  };
  static bool before(const Event& a, const Event& b) { return a.at != b.at ? a.at < b.at : a.handle < b.handle; }
  void put(std::size_t place, const Event& event);
  void rise(std::size_t place, const Event& event);
  void sink(std::size_t place, const Event& event);

  std::vector<Event> heap_;
  std::vector<std::int32_t> place_;  ///< by handle; −1: no event
};

}  // namespace espalier::sim
