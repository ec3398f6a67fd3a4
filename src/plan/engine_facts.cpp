// SPDX-License-Identifier: Apache-2.0
#include "plan/engine_facts.h"

#include <cmath>

#include "base/invariant.h"

namespace espalier {

EngineFacts engine_facts(const base::Facts& facts, const base::FactContext& context) {
  const auto value = [&](const char* name) { return facts.value(name, context); };
  const auto count = [&](const char* name) {
    const double whole = value(name);
    ESPALIER_CHECK(whole == std::floor(whole) && whole < 1e6);
    return static_cast<int>(whole);
  };
  return {.pass_launches = count("pass_launches"),
          .update_launches = count("update_launches"),
          .collective_launches = count("collective_launches"),
          .eager_kernel_launches = value("eager_kernel_launches"),
          .scan_kernels = count("scan_kernels"),
          .delta_scan_kernels = count("delta_scan_kernels"),
          .second_products_again = value("second_products_again"),
          .flash1_rate = facts.value_at("flash_attention_rate", "1"),
          .cublas_workspace = value("cublas_workspace"),
          .cublas_workspace_fp8 = value("cublas_workspace_fp8"),
          .transformer_engine_workspace = value("transformer_engine_workspace"),
          .transformer_engine_workspace_fp8 = value("transformer_engine_workspace_fp8")};
}

}  // namespace espalier
