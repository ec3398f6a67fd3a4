// SPDX-License-Identifier: Apache-2.0
// Process groups of c10d for a Communicator, chosen by where tensors live: Gloo for those of the processor, NCCL for
// those of GPUs (CMake option ESPALIER_NCCL; it needs a wheel with CUDA and the headers of NCCL). And the one place
// that knows which methods of c10d were renamed between versions:
// all_to_all_single and its kin are called so from 2.15 on, alltoall_base and its kin before (compiled against 2.10,
// 2.13 and 2.15).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace at {
class Tensor;
}
namespace c10d {
class Backend;
class Store;
}  // namespace c10d

namespace espalier::runtime {

/// Where tensors of a run live.
enum class TensorPlace : std::uint8_t { processor, gpu };

/// What groups of one run have in common.
class Transport {
 public:
  class Impl;
  /// `local`: all ranks are on this machine. GLOO_SOCKET_IFNAME names an interface, as torch.distributed reads it. An
  /// error of the caller where groups of GPUs are asked for and has_nccl() is false.
  Transport(TensorPlace place, bool local);
  ~Transport();
  /// A group of `size` ranks of which this one has number `rank`, met by the keys of `store`, which no other group
  /// uses.
  [[nodiscard]] std::shared_ptr<c10d::Backend> group(c10d::Store& store, int rank, int size,
                                                     std::chrono::milliseconds timeout) const;
  [[nodiscard]] TensorPlace place() const;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Whether this build has NCCL.
bool has_nccl();
/// Of NCCL alone; built where ESPALIER_NCCL is on.
std::shared_ptr<c10d::Backend> nccl_group(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout);

enum class Reduction : std::uint8_t { sum, maximum };

// Collectives of a group over tensors in one piece; return when they are done.
void group_all_to_all(c10d::Backend& group, at::Tensor out, at::Tensor in, std::vector<std::int64_t> received = {},
                      std::vector<std::int64_t> sent = {});  ///< rows by member; empty: equal parts
void group_all_gather(c10d::Backend& group, at::Tensor whole, at::Tensor part);
void group_reduce_scatter(c10d::Backend& group, at::Tensor part, at::Tensor whole);
void group_all_reduce(c10d::Backend& group, at::Tensor tensor, Reduction reduction);

}  // namespace espalier::runtime
