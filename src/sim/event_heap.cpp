// SPDX-License-Identifier: Apache-2.0
#include "sim/event_heap.h"

#include "base/invariant.h"

namespace espalier::sim {

void EventHeap::put(std::size_t place, const Event& event) {
  heap_[place] = event;
  place_[static_cast<std::size_t>(event.handle)] = static_cast<std::int32_t>(place);
}

void EventHeap::rise(std::size_t place, const Event& event) {
  while (place > 0) {
    const std::size_t parent = (place - 1) / 2;
    if (!before(event, heap_[parent])) break;
    put(place, heap_[parent]);
    place = parent;
  }
  put(place, event);
}

void EventHeap::sink(std::size_t place, const Event& event) {
  while (2 * place + 1 < heap_.size()) {
    std::size_t child = 2 * place + 1;
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], event)) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, event);
}

void EventHeap::set(Handle handle, std::int64_t at) {
  ESPALIER_CHECK(handle >= 0);
  const auto index = static_cast<std::size_t>(handle);
  if (index >= place_.size()) place_.resize(index + 1, -1);
  const Event event{at, handle};
  if (place_[index] < 0) {
    heap_.push_back(event);
    rise(heap_.size() - 1, event);
    return;
  }
  const auto place = static_cast<std::size_t>(place_[index]);
  if (before(event, heap_[place]))
    rise(place, event);
  else
    sink(place, event);
}

void EventHeap::erase(Handle handle) {
  const auto index = static_cast<std::size_t>(handle);
  if (index >= place_.size() || place_[index] < 0) return;
  const auto place = static_cast<std::size_t>(place_[index]);
  const Event last = heap_.back();
  heap_.pop_back();
  place_[index] = -1;
  if (last.handle == handle) return;
  if (place > 0 && before(last, heap_[(place - 1) / 2]))
    rise(place, last);
  else
    sink(place, last);
}

}  // namespace espalier::sim
