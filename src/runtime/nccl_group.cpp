// SPDX-License-Identifier: Apache-2.0
// NCCL's process group, where the build has it (ESPALIER_NCCL).
#ifdef ESPALIER_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "runtime/process_group.h"

namespace espalier::runtime {

bool has_nccl() { return true; }

c10::intrusive_ptr<c10d::Backend> nccl_group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                             std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

}  // namespace espalier::runtime
#endif
