// SPDX-License-Identifier: Apache-2.0
#include "runtime/process_group.h"

#include <torch/version.h>

#include <cstdlib>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "base/invariant.h"

// Version 2.15 renames collectives over one tensor for all members to *_single.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 15)
#define ESPALIER_C10D_SINGLE 1
#else
#define ESPALIER_C10D_SINGLE 0
#endif

namespace espalier::runtime {

using Gloo = c10d::ProcessGroupGloo;

class Transport::Impl {
 public:
  TensorPlace place = TensorPlace::processor;
  std::shared_ptr<::gloo::transport::Device> device;  // one for all groups, because it owns a thread
};

Transport::Transport(TensorPlace place, bool local) : impl_(std::make_unique<Impl>()) {
  impl_->place = place;
  ESPALIER_CHECK(place == TensorPlace::processor || has_nccl());
  if (place == TensorPlace::gpu) return;
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != '\0')
    impl_->device = Gloo::createDeviceForInterface(interface);
  else
    impl_->device = local ? Gloo::createDeviceForHostname("127.0.0.1") : Gloo::createDefaultDevice();
}
Transport::~Transport() = default;

TensorPlace Transport::place() const { return impl_->place; }

std::shared_ptr<c10d::Backend> Transport::group(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout) const {
  if (impl_->place == TensorPlace::gpu) return nccl_group(store, rank, size, timeout);
  auto options = Gloo::Options::create(timeout);
  options->threads = 1;  // collectives of a group run one after the other
  options->devices.push_back(impl_->device);
  const auto group = std::make_shared<c10::intrusive_ptr<Gloo>>(
      c10::make_intrusive<Gloo>(c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store), rank, size, options));
  return {group, group->get()};
}

#ifndef ESPALIER_NCCL
bool has_nccl() { return false; }
std::shared_ptr<c10d::Backend> nccl_group(c10d::Store& /*store*/, int /*rank*/, int /*size*/,
                                          std::chrono::milliseconds /*timeout*/) {
  ESPALIER_CHECK(has_nccl());
  return {};
}
#endif

void group_all_to_all(c10d::Backend& group, at::Tensor out, at::Tensor in, std::vector<std::int64_t> received,
                      std::vector<std::int64_t> sent) {
#if ESPALIER_C10D_SINGLE
  group.all_to_all_single(out, in, received, sent)->wait();
#else
  group.alltoall_base(out, in, received, sent)->wait();
#endif
}

void group_all_gather(c10d::Backend& group, at::Tensor whole, at::Tensor part) {
#if ESPALIER_C10D_SINGLE
  group.all_gather_single(whole, part)->wait();
#else
  group._allgather_base(whole, part)->wait();
#endif
}

void group_reduce_scatter(c10d::Backend& group, at::Tensor part, at::Tensor whole) {
#if ESPALIER_C10D_SINGLE
  group.reduce_scatter_single(part, whole)->wait();
#else
  group._reduce_scatter_base(part, whole)->wait();
#endif
}

void group_all_reduce(c10d::Backend& group, at::Tensor tensor, Reduction reduction) {
  std::vector<at::Tensor> tensors{std::move(tensor)};
  c10d::AllreduceOptions options;
  options.reduceOp = reduction == Reduction::sum ? c10d::ReduceOp::SUM : c10d::ReduceOp::MAX;
  group.allreduce(tensors, options)->wait();
}

}  // namespace espalier::runtime
