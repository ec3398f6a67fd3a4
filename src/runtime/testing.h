// SPDX-License-Identifier: Apache-2.0
// Helps the unit tests of this module. They write out small tensors, make states of one rank, and run groups whose
// ranks are threads of one process.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/communicator.h"
#include "runtime/rank_operators.h"
#include "runtime/state.h"

namespace espalier::runtime::testing {

/// Returns a tensor of this shape with these values, row by row.
inline at::Tensor tensor(const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
  return at::tensor(values, at::kFloat).view(shape);
}
inline at::Tensor numbers(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& values) {
  return at::tensor(values, at::kLong).view(shape);
}

/// Returns the elements of a tensor of any type, row by row.
inline std::vector<double> list(const at::Tensor& x) {
  const at::Tensor wide = x.to(at::kDouble).contiguous();
  const double* first = wide.data_ptr<double>();
  return {first, first + wide.numel()};
}

/// Checks that a tensor has these elements, row by row.
inline void expect_list(const at::Tensor& found, const std::vector<double>& expected, double tolerance = 1e-5) {
  ASSERT_TRUE(found.defined());
  const std::vector<double> values = list(found);
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t k = 0; k < values.size(); ++k) EXPECT_NEAR(values[k], expected[k], tolerance) << "element " << k;
}

/// Returns the shape of a state that holds and counts elements 0 … `elements` − 1 of layer 0, alone.
inline StateShape whole_shape(std::int64_t elements, ZeroStage zero = ZeroStage::none) {
  StateShape shape;
  shape.zero = zero;
  shape.held = shape.counted = shape.unit.elements = {{0, elements}};
  return shape;
}

/// Holds the parameters of one operator.
struct OwnParameters {
  explicit OwnParameters(const std::vector<float>& values, std::int64_t first_row = 0)
      : size(static_cast<std::int64_t>(values.size())),
        state(std::make_unique<State>(whole_shape(size), values)),
        parameters{state.get(), {0, size}, first_row} {}
  [[nodiscard]] at::Tensor gradient() const { return state->gradient({0, size}); }

  std::int64_t size;
  std::unique_ptr<State> state;
  Parameters parameters;
};

/// Runs an operator forward and backward, as a layer does.
struct OperatorRun {
  Frame frame;
  std::vector<at::Tensor> saved;
  at::Tensor forward(LayerOperator& op, const at::Tensor& x) { return op.forward(frame, saved, x); }
  at::Tensor backward(LayerOperator& op, const at::Tensor& dy) {
    at::Tensor dx = op.backward(frame, saved, dy);
    for (const auto& task : frame.weight_gradients) task();
    frame.weight_gradients.clear();
    return dx;
  }
};

/// Makes a folder that is removed with this object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "espalier-runtime-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~ScratchFolder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void put_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// Runs `body` as every rank of a run of `world` ranks, each of them a thread. An exception fails the test.
inline void as_ranks(int world, const std::function<void(Meeting&)>& body) {
  const ScratchFolder folder;
  const auto be_rank = [&](int rank) {
    try {
      Rendezvous at;
      at.file = folder.file("port");
      at.rank = rank;
      at.world = world;
      at.timeout_seconds = 60;
      Meeting meeting(at);
      body(meeting);
      EXPECT_TRUE(meeting.agree("end", "the same").ok());  // the store ends with rank 0
    } catch (const std::exception& failure) {
      ADD_FAILURE() << "rank " << rank << ": " << cause_of(failure);
    }
  };
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) ranks.emplace_back(be_rank, rank);
  for (std::thread& rank : ranks) rank.join();
}

/// Returns the numbers of all ranks of a run.
inline std::vector<int> everyone(int world) {
  std::vector<int> members(static_cast<std::size_t>(world));
  std::iota(members.begin(), members.end(), 0);
  return members;
}

/// Runs `body` as every rank of one group. A rank that left early would close connections that others still open.
inline void as_group(int size, const std::function<void(Communicator&)>& body) {
  as_ranks(size, [&](Meeting& meeting) {
    const auto group = meeting.group("group", everyone(size));
    body(*group);
    group->barrier();
  });
}

}  // namespace espalier::runtime::testing
