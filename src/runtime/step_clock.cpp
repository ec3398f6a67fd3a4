// SPDX-License-Identifier: Apache-2.0
#include "runtime/step_clock.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <numeric>

#include "base/format.h"
#include "base/invariant.h"

namespace espalier::runtime {
namespace {

constexpr int kPings = 16;          // round trips by which two clocks are compared
constexpr int kClockTag = 1 << 20;  // tag of clock messages; those of a step are numbered from 0

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

at::Tensor one_number() { return at::empty({1}, at::kLong); }

/// Holds how far a rank's clock is ahead of that of rank 0, and the error bound of that value.
struct Ahead {
  std::int64_t ns = 0, error = 0;
};

/// Compares clocks: rank 0 asks `other` for its time. The shortest round trip is the most accurate, since the answer
/// was written at its middle, half of the trip to either side.
Ahead compared(Communicator& world, int other) {
  Ahead best{0, std::numeric_limits<std::int64_t>::max()};
  for (int k = 0; k < kPings; ++k) {
    at::Tensor asked = one_number(), answer = one_number();
    const std::int64_t before = now_ns();
    world.send(asked, other, kClockTag).wait();
    world.receive(answer, other, kClockTag).wait();
    const std::int64_t after = now_ns();
    if ((after - before) / 2 >= best.error) continue;
    best = {answer[0].item<std::int64_t>() - (before + after) / 2, (after - before) / 2};
  }
  return best;
}

void answer(Communicator& world) {
  for (int k = 0; k < kPings; ++k) {
    at::Tensor asked = one_number(), now = one_number();
    world.receive(asked, 0, kClockTag).wait();
    now[0] = now_ns();
    world.send(now, 0, kClockTag).wait();
  }
}

std::vector<std::int64_t> received(Communicator& world, int from) {
  at::Tensor size = one_number();
  world.receive(size, from, kClockTag).wait();
  at::Tensor body = at::empty({size[0].item<std::int64_t>()}, at::kLong);
  world.receive(body, from, kClockTag).wait();
  const std::int64_t* first = body.data_ptr<std::int64_t>();
  return {first, first + body.numel()};
}

void hand_over(Communicator& world, std::vector<std::int64_t> numbers) {
  at::Tensor size = one_number();
  size[0] = static_cast<std::int64_t>(numbers.size());
  world.send(size, 0, kClockTag).wait();
  world.send(at::from_blob(numbers.data(), {static_cast<std::int64_t>(numbers.size())}, at::kLong), 0, kClockTag).wait();
}

/// Returns rank 0's value on all ranks.
std::int64_t said_by_first(Communicator* world, std::int64_t value) {
  if (world == nullptr) return value;
  at::Tensor own = one_number(), all = at::empty({world->size()}, at::kLong);
  own[0] = value;
  world->all_gather(all, own);
  return all[0].item<std::int64_t>();
}

}  // namespace

void StepClock::begin_step(std::int64_t number) {
  if (steps_.size() == kKept) steps_.erase(steps_.begin());
  steps_.emplace_back();
  steps_.back().number = number;
  steps_.back().rows.assign(instructions_, {});
  steps_.back().begin = now_ns();
}

/// Rows without a recorded time, such as a message for which nothing waited, are placed at the end of the step.
void StepClock::end_step() {
  Step& step = steps_.back();
  step.end = now_ns();
  for (MeasuredInstruction& i : step.rows)
    if (i.end_ns == 0) i.start_ns = i.end_ns = step.end;
}

void StepClock::begin(std::size_t row) { steps_.back().rows[row].start_ns = now_ns(); }

void StepClock::end(std::size_t row) { steps_.back().rows[row].end_ns = now_ns(); }

void StepClock::inside(std::size_t row, double operators_s, double collectives_s) {
  MeasuredInstruction& i = steps_.back().rows[row];
  const std::int64_t whole = i.end_ns - i.start_ns;
  i.operators_ns = std::clamp<std::int64_t>(nanoseconds(operators_s), 0, whole);  // rounding
  i.collectives_ns = std::clamp<std::int64_t>(nanoseconds(collectives_s), 0, whole - i.operators_ns);
}

void StepClock::waited(std::size_t row, double seconds) { steps_.back().rows[row].waited_ns += nanoseconds(seconds); }

void StepClock::ran(std::int32_t layer, std::int32_t number, OperatorPass pass, double seconds) {
  const bool repeated = repeats_ && pass == OperatorPass::forward;
  MeasuredOperator& row = steps_.back().operators[{layer, number, pass, repeated}];
  row.layer = layer;
  row.number = number;
  row.pass = pass;
  row.repeated = repeated;
  ++row.times;
  row.total_ns += nanoseconds(seconds);
}

std::size_t StepClock::median_step() const {
  std::vector<std::size_t> order(steps_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [this](std::size_t a, std::size_t b) { return steps_[a].end - steps_[a].begin < steps_[b].end - steps_[b].begin; });
  return order[order.size() / 2];
}

std::vector<std::int64_t> StepClock::packed(const Step& step) const {
  std::vector<std::int64_t> out{device_, step.begin, step.end, static_cast<std::int64_t>(step.rows.size())};
  for (const MeasuredInstruction& i : step.rows)
    out.insert(out.end(), {i.start_ns, i.end_ns, i.operators_ns, i.collectives_ns, i.waited_ns});
  for (const auto& [key, o] : step.operators)
    out.insert(out.end(), {o.layer, o.number, static_cast<std::int64_t>(o.pass), o.repeated ? 1 : 0, o.times, o.total_ns});
  return out;
}

/// `ahead` is how far the rank's clock is ahead; `origin` is the beginning of the step on rank 0.
MeasuredRank StepClock::unpacked(const std::vector<std::int64_t>& numbers, std::int64_t ahead, std::int64_t origin) const {
  std::size_t at = 0;
  const auto next = [&] { return numbers[at++]; };
  const auto time = [&] { return next() - ahead - origin; };
  MeasuredRank rank;
  rank.device = next();
  rank.start_ns = time();
  rank.end_ns = time();
  for (std::int64_t rows = next(); rows > 0; --rows) {
    MeasuredInstruction i;
    i.start_ns = time();
    i.end_ns = time();
    i.operators_ns = next();
    i.collectives_ns = next();
    i.waited_ns = next();
    rank.instructions.push_back(i);
  }
  while (at < numbers.size()) {
    MeasuredOperator o;
    o.layer = static_cast<std::int32_t>(next());
    o.number = static_cast<std::int32_t>(next());
    o.pass = static_cast<OperatorPass>(next());
    o.repeated = next() == 1;
    o.times = next();
    o.total_ns = next();
    rank.operators.push_back(o);
  }
  return rank;
}

Status StepClock::write(const std::string& path, const std::string& plan, Communicator* world) const {
  ESPALIER_CHECK(!steps_.empty());
  const Step& step = steps_[static_cast<std::size_t>(said_by_first(world, static_cast<std::int64_t>(median_step())))];
  if (world != nullptr && world->rank() != 0) {
    answer(*world);
    hand_over(*world, packed(step));
    return {};
  }
  MeasuredStep out;
  out.plan = plan;
  out.step = step.number;
  out.steps = static_cast<std::int64_t>(steps_.size());
  out.ranks.push_back(unpacked(packed(step), 0, step.begin));
  for (int other = 1; world != nullptr && other < world->size(); ++other) {
    const Ahead ahead = compared(*world, other);
    out.ranks.push_back(unpacked(received(*world, other), ahead.ns, step.begin));
    out.ranks.back().clock_error_ns = ahead.error;
  }
  std::ofstream file(path);
  file << to_json(out) << std::flush;
  if (!file) return Error{ErrorKind::bad_input, path, "a file that cannot be written", "a writable path for --timeline", ""};
  return {};
}

}  // namespace espalier::runtime
