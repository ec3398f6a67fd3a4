// SPDX-License-Identifier: Apache-2.0
// Units as types. A quantity is a number with a unit; adding seconds to bytes does not compile.
//
//   Bytes, Flops            counts of bytes / floating-point operations (Bytes integer, Flops real)
//   Seconds                 real, for cost equations
//   Nanoseconds             integer, for everything that is simulated, compared or printed
//   BytesPerSecond, FlopsPerSecond
//
// Bytes / BytesPerSecond = Seconds;  Flops / FlopsPerSecond = Seconds;  round_ns(Seconds) = Nanoseconds.
// Prefixes: GiB = 2^30 bytes (memory), GB = 10^9 bytes (bandwidth), as the field uses them.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace espalier {

/// Holds a number of type Rep with a unit. `count()` is the bare number in the unit's base (bytes, seconds, …).
template <class Tag, class Rep>
class Quantity {
 public:
  using rep = Rep;
  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep count) : count_(count) {}
  [[nodiscard]] constexpr Rep count() const { return count_; }

  constexpr Quantity& operator+=(Quantity o) {
    count_ += o.count_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    count_ -= o.count_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.count_ + b.count_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.count_ - b.count_); }
  friend constexpr Quantity operator-(Quantity a) { return Quantity(-a.count_); }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return Quantity(a.count_ * k); }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return Quantity(a.count_ * k); }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return Quantity(a.count_ / k); }
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.count_) / static_cast<double>(b.count_);
  }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  Rep count_{};
};

using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;
using Seconds = Quantity<struct SecondsTag, double>;
using Nanoseconds = Quantity<struct NanosecondsTag, std::int64_t>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds(static_cast<double>(b.count()) / r.count()); }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds(f.count() / r.count()); }

/// Rounds to the nearest integer nanosecond (ties away from zero).
inline Nanoseconds round_ns(Seconds s) { return Nanoseconds(std::llround(s.count() * 1e9)); }
constexpr Seconds to_seconds(Nanoseconds t) { return Seconds(static_cast<double>(t.count()) * 1e-9); }

constexpr Bytes KiB(std::int64_t n) { return Bytes(n << 10); }
constexpr Bytes MiB(std::int64_t n) { return Bytes(n << 20); }
constexpr Bytes GiB(std::int64_t n) { return Bytes(n << 30); }
constexpr BytesPerSecond GBps(double n) { return BytesPerSecond(n * 1e9); }
constexpr FlopsPerSecond TFLOPs(double n) { return FlopsPerSecond(n * 1e12); }
constexpr Seconds microseconds(double n) { return Seconds(n * 1e-6); }

}  // namespace espalier
