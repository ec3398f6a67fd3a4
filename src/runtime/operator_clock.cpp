// SPDX-License-Identifier: Apache-2.0
#include "runtime/operator_clock.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/format.h"
#include "base/statistics.h"
#include "runtime/step_clock.h"

namespace espalier::runtime {
namespace {

constexpr double kElement = 4;  ///< bytes
/// These are the bytes per updated element: gradients are read twice, values and two moments are read and written.
constexpr double kUpdateBytes = 32;
constexpr double kMostOwed = 0.01;                   ///< seconds that are taken off later operators at most
constexpr std::size_t kKept = std::size_t{1} << 16;  ///< times kept per operator work

double operations_of(const profile::OperatorWork& work, Pass pass) {
  const profile::MeasuredShape& s = work.shape;
  const auto tokens = static_cast<double>(work.tokens);
  if (s.kind == OperatorKind::linear) return 2 * tokens * static_cast<double>(s.in) * static_cast<double>(s.out);
  if (s.kind != OperatorKind::attention || pass == Pass::weight_gradient || s.part == OperatorPart::softmax) return 0;
  const double products = s.part == OperatorPart::whole ? 2 : 1;  // QKᵀ and A·V, or one of them
  const double once = products * 2 * tokens * static_cast<double>(s.keys) * s.heads * s.head_dim;
  return pass == Pass::input_gradient ? 2 * once : once;
}

double bytes_of(const profile::OperatorWork& work, Pass pass) {
  const profile::MeasuredShape& s = work.shape;
  const auto tokens = static_cast<double>(work.tokens), in = static_cast<double>(s.in), out = static_cast<double>(s.out);
  const bool holds = s.kind == OperatorKind::norm || s.kind == OperatorKind::linear || s.kind == OperatorKind::embedding;
  if (pass == Pass::weight_gradient && !holds) return 0;
  switch (s.kind) {
    case OperatorKind::linear: return kElement * (tokens * (in + out) + in * out);
    case OperatorKind::attention:
      // Scores that leave an operator are read and written.
      if (s.part == OperatorPart::softmax) return kElement * 2 * tokens * static_cast<double>(s.keys) * s.heads;
      if (s.part != OperatorPart::whole)
        return kElement * tokens * (s.head_dim * (1.0 * s.heads + s.kv_heads) + static_cast<double>(s.keys) * s.heads);
      return kElement * tokens * s.head_dim * (2.0 * s.heads + 2.0 * s.kv_heads);
    case OperatorKind::embedding: return kElement * 2 * tokens * out;
    default: return kElement * tokens * (in + std::max(in, out));
  }
}

void sleep_seconds(double seconds) {
  timespec left;
  left.tv_sec = static_cast<time_t>(seconds);
  left.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

double median_of(const std::vector<float>& values) { return base::median({values.begin(), values.end()}); }

}  // namespace

double Pace::seconds(const profile::OperatorWork& work, Pass pass) const {
  const double moved = bytes_of(work, pass) / bandwidth, computed = operations_of(work, pass) / flops;
  return moved > 0 || computed > 0 ? (launch + std::max(moved, computed)) / speed : 0;
}

double Pace::update_seconds(std::int64_t elements) const {
  return (launch + kUpdateBytes * static_cast<double>(elements) / bandwidth) / speed;
}

Result<Pace> pace_from(const std::string& text, int rank) {
  Pace pace;
  std::istringstream words(text);
  const auto refuse = [](const std::string& word) {
    return Error{ErrorKind::usage, "--pace", cat("\"", word, "\""), "flops=F,bandwidth=B,launch=S and speed:RANK=X, all above 0",
                 "for example --pace flops=2e10,bandwidth=1e9,launch=1e-4,speed:1=0.5"};
  };
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return refuse(word);
    const std::string name = word.substr(0, equals), number = word.substr(equals + 1);
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0' || !std::isfinite(value) || value <= 0) return refuse(word);
    if (name == "flops") {
      pace.flops = value;
    } else if (name == "bandwidth") {
      pace.bandwidth = value;
    } else if (name == "launch") {
      pace.launch = value;
    } else if (name.rfind("speed:", 0) == 0) {
      if (name == cat("speed:", rank)) pace.speed = value;
    } else {
      return refuse(word);
    }
  }
  if ((pace.flops > 0) != (pace.bandwidth > 0)) return refuse(text);
  if (!text.empty() && !pace.plays()) return refuse(text);
  if (pace.plays()) prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds: threads then sleep exactly as long as requested
  return pace;
}

/// Sleeps for the rest of `target` and returns the seconds that the operator took in total.
double OperatorClock::paced(double own, double target) {
  if (own > target) ++late_;
  const double wanted = target - owed_;
  const auto begin = Clock::now();
  if (own < wanted) sleep_seconds(wanted - own);
  const double took = own + seconds_between(begin, Clock::now());
  owed_ = std::clamp(owed_ + took - target, 0.0, kMostOwed);
  return took;
}

void OperatorClock::run(const OperatorCall& call, const std::function<double()>& busy, const std::function<void()>& body) {
  const double before = busy();
  const auto begin = Clock::now();
  body();
  const double met = busy() - before;
  double own = seconds_between(begin, Clock::now()) - met;
  if (pace_.plays()) own = paced(own, pace_.seconds(call.work, call.pass));
  all_ += own;
  collectives_ += met;
  (call.pass == Pass::forward ? forward_ : backward_) += own;
  if (steps_ != nullptr) steps_->ran(call.layer, call.number, call.pass, own);
  Times& times = times_[call.work];
  std::vector<float>& list = call.pass == Pass::forward          ? times.forward
                             : call.pass == Pass::input_gradient ? times.input
                                                                 : times.weight;
  if (list.size() < kKept) list.push_back(static_cast<float>(own));
}

void OperatorClock::communicate(const std::function<void()>& body) {
  const auto begin = Clock::now();
  body();
  collectives_ += seconds_between(begin, Clock::now());
}

void OperatorClock::update(std::int64_t elements, const std::function<void()>& body) {
  const auto begin = Clock::now();
  body();
  double own = seconds_between(begin, Clock::now());
  if (pace_.plays()) own = paced(own, pace_.update_seconds(elements));
  update_ += own;
  updated_ += elements;
}

void OperatorClock::restart() {
  times_.clear();
  all_ = update_ = collectives_ = 0;
  updated_ = late_ = 0;
}

std::vector<profile::MeasuredTime> OperatorClock::rows() const {
  std::vector<profile::MeasuredTime> out;
  for (const auto& [work, times] : times_)
    out.push_back({work, {median_of(times.forward), median_of(times.input), median_of(times.weight)}});
  return out;
}

}  // namespace espalier::runtime
