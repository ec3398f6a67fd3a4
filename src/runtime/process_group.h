// SPDX-License-Identifier: Apache-2.0
// Creates process groups of c10d for a Communicator, chosen by where tensors live. Tensors on the CPU use Gloo.
// Tensors on GPUs use NCCL (CMake option ESPALIER_NCCL, which needs a wheel with CUDA and the headers of NCCL).
//
// This file alone handles the methods of c10d that were renamed between versions. They are named all_to_all_single
// and so on from 2.15 on, and alltoall_base and so on before. The file is compiled against 2.10, 2.13 and 2.15.
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

/// Lists where tensors of a run live.
enum class TensorPlace : std::uint8_t { processor, gpu };

/// Holds the resources that groups of one run share.
class Transport {
 public:
  class Impl;
  /// `local` means that all ranks are on this machine. GLOO_SOCKET_IFNAME names an interface, as torch.distributed
  /// reads it. The caller must not ask for groups of GPUs where has_nccl() is false.
  Transport(TensorPlace place, bool local);
  ~Transport();
  /// Returns a group of `size` ranks in which this one has number `rank`. The members find each other by the keys of
  /// `store`, which no other group uses.
  [[nodiscard]] std::shared_ptr<c10d::Backend> group(c10d::Store& store, int rank, int size,
                                                     std::chrono::milliseconds timeout) const;
  [[nodiscard]] TensorPlace place() const;

 private:
  std::unique_ptr<Impl> impl_;
};

/// Returns whether this build has NCCL.
bool has_nccl();
/// Makes a group of NCCL; built where ESPALIER_NCCL is on.
std::shared_ptr<c10d::Backend> nccl_group(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout);

enum class Reduction : std::uint8_t { sum, maximum };

// These collectives of a group work on contiguous tensors and return when they are done.
void group_all_to_all(c10d::Backend& group, at::Tensor out, at::Tensor in, std::vector<std::int64_t> received = {},
                      std::vector<std::int64_t> sent = {});  ///< rows by member; empty: equal parts
void group_all_gather(c10d::Backend& group, at::Tensor whole, at::Tensor part);
void group_reduce_scatter(c10d::Backend& group, at::Tensor part, at::Tensor whole);
void group_all_reduce(c10d::Backend& group, at::Tensor tensor, Reduction reduction);

}  // namespace espalier::runtime
