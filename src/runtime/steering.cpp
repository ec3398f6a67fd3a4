// SPDX-License-Identifier: Apache-2.0
#include "runtime/steering.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/format.h"

namespace espalier::runtime {
namespace {

constexpr int kSteeringTag = 1 << 21;  // lowest tag of messages here

/// Returns the bytes per second that arrive from the rank `distance` before this one, while all ranks send.
double rate(Communicator& world, int distance) {
  const int here = world.rank(), all = world.size();
  const at::Tensor leaves = at::ones({Steering::kBytes / 4});
  const at::Tensor arrives = at::empty({Steering::kBytes / 4});
  double best = 0;
  for (int k = 0; k < 2; ++k) {
    world.barrier();
    const auto begin = std::chrono::steady_clock::now();
    Message in = world.receive(arrives, (here + all - distance) % all, kSteeringTag),
            out = world.send(leaves, (here + distance) % all, kSteeringTag);
    in.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    out.wait();
    best = std::max(best, static_cast<double>(Steering::kBytes) / std::max(seconds, 1e-9));
  }
  return best;
}

/// Returns the numbers of every rank, rank after rank.
at::Tensor of_all(Communicator* world, const std::vector<double>& own) {
  const auto count = static_cast<std::int64_t>(own.size());
  at::Tensor part = at::empty({count}, at::kDouble);
  for (std::int64_t k = 0; k < count; ++k) part[k] = own[static_cast<std::size_t>(k)];
  if (world == nullptr) return part;
  at::Tensor all = at::empty({count * world->size()}, at::kDouble);
  world->all_gather(all, part);
  return all;
}

}  // namespace

Wish Steering::asked() const {
  if (folder_.empty() || (world_ != nullptr && world_->rank() != 0)) return Wish::none;
  const std::filesystem::path path = std::filesystem::path(folder_) / "request";
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return Wish::none;
  std::error_code gone;
  std::filesystem::remove(path, gone);
  return word == "leave" ? Wish::leave : word == "look" ? Wish::look : Wish::none;
}

void Steering::look(std::int64_t updates, const std::function<void(const std::string&)>& say) {
  const OperatorClock& clock = *view_.clock;
  const double passes = static_cast<double>(std::max<std::int64_t>(1, steps_ * microbatches_));
  std::vector<double> own{(clock.forward_seconds() - forward_s_) / passes, (clock.backward_seconds() - backward_s_) / passes};
  forward_s_ = clock.forward_seconds();
  backward_s_ = clock.backward_seconds();
  steps_ = 0;
  const int ranks = world_ == nullptr ? 1 : world_->size(), here = world_ == nullptr ? 0 : world_->rank();
  std::vector<double> arriving(static_cast<std::size_t>(ranks), 0);
  for (int distance = 1; distance < ranks; ++distance)
    arriving[static_cast<std::size_t>((here + ranks - distance) % ranks)] = rate(*world_, distance);
  own.insert(own.end(), arriving.begin(), arriving.end());
  const at::Tensor all = of_all(world_, own);
  if (here != 0) return;
  const double* row = all.data_ptr<double>();
  for (int r = 0; r < ranks; ++r, row += own.size()) {
    const std::int64_t device = view_.devices[static_cast<std::size_t>(r)];
    say(cat("seen rank ", device, " ", base::six_digits(row[0]), " ", base::six_digits(row[1])));
    for (int from = 0; from < ranks; ++from)
      if (from != r)
        say(cat("seen rate ", view_.devices[static_cast<std::size_t>(from)], " ", device, " ", base::six_digits(row[2 + from])));
  }
  say(cat("seen end ", updates));
}

}  // namespace espalier::runtime
