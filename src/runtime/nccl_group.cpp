// SPDX-License-Identifier: Apache-2.0
// Makes NCCL's process group, where the build has it (ESPALIER_NCCL).
#ifdef ESPALIER_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "runtime/process_group.h"

namespace espalier::runtime {

bool has_nccl() { return true; }

std::shared_ptr<c10d::Backend> nccl_group(c10d::Store& store, int rank, int size, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  const auto group = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroupNCCL>>(
      c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store), rank, size, options));
  return {group, group->get()};
}

}  // namespace espalier::runtime
#endif
