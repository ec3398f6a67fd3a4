// SPDX-License-Identifier: Apache-2.0
#include "check/kernels.h"

#include <algorithm>

#include "plan/engine.h"

namespace espalier::check {

namespace {

/// Returns the kernels of a cast, each of which reads the tensor.
int cast_kernels_of(const View& view) {
  switch (view.plan->training.precision) {
    case Precision::mxfp8: return static_cast<int>(view.figures.mxfp8_passes);
    case Precision::nvfp4: return static_cast<int>(view.figures.nvfp4_passes);
    default: return 1;
  }
}

}  // namespace

double cast_operand_bytes(const View& view) {
  switch (view.plan->training.precision) {
    case Precision::fp8: return 1;
    case Precision::mxfp8: return 1 + 1 / view.figures.mxfp8_block;
    case Precision::nvfp4: return 0.5 + 1 / view.figures.nvfp4_block;
    default: return 0;
  }
}

Kernels::Kernels(const View& view) {
  const DeviceKind& device = nodes_of(view).device;
  const DeviceEfficiency& e = device.efficiency;
  const Precision precision = view.plan->training.precision;
  const double narrow = cast_operand_bytes(view);
  const bool fp8 = narrow > 0, four = precision == Precision::fp32 || precision == Precision::tf32;
  const EngineModel& engine = view.engine;
  const double slower = engine.coefficients.compute;
  const double peak = device.peak_of(precision).count() * e.sustained / slower;
  const double half = fp8 ? device.peak_of(Precision::bf16).count() * e.sustained / slower : peak;
  // These are 32-bit products on devices whose matrix units only take 16 bits (docs/cost-model.md, "Operators").
  const double sixteen = std::max(device.peak_of(Precision::fp16).count(), device.peak_of(Precision::bf16).count());
  const bool plain =
      precision == Precision::fp32 && sixteen >= view.figures.matrix_unit_ratio * device.peak_of(Precision::fp32).count();
  const double large = plain ? std::max(view.figures.vector_product_share, e.gemm_max) : e.gemm_max;
  product = peak * large * (fp8 ? e.gemm_fp8 * e.sustained_fp8 : 1);
  wide = half * large;
  batched = wide * e.gemm_batched;
  grouped = product * e.gemm_grouped;
  const double single = device.peak_of(Precision::fp32).count() * e.sustained / slower;
  uneven = four || single <= 0 ? batched : batched * std::min(1.0, 2 * single / half);
  double kernel = 1;
  if (engine.kernels.attention_kernel == AttentionKernel::flash2) kernel = e.attention_flash2;
  if (engine.kernels.attention_kernel == AttentionKernel::flash1) kernel = view.figures.flash1_rate * e.attention_flash2;
  if (engine.kernels.attention_kernel == AttentionKernel::sdpa && e.attention_flash2 > 1) kernel = e.attention_flash2;
  attention = half * e.attention_max * (1 + e.attention_softmax / 128) * kernel;
  attention_back = attention * e.attention_backward;
  softmax = e.attention_softmax;
  prologue = e.attention_prologue;
  rows = e.attention_rows;
  stream = device.memory_bandwidth.count() * e.gemm_memory;
  memory = device.memory_bandwidth.count() * e.memory_max;
  elementwise = memory / (engine.coefficients.elementwise * engine.kernels.elementwise_traffic);
  floor = e.kernel_floor.count();
  launch = e.kernel_launch.count() * engine.kernels.host_launches * engine.coefficients.launch;
  for (double* rate : {&product, &wide, &batched, &grouped, &uneven, &attention, &attention_back, &stream, &memory, &elementwise})
    *rate *= view.speed;
  call = e.kernel_launch.count();
  floor /= view.speed;
  launch /= view.speed;
  call /= view.speed;
  a = four ? 4 : 2;
  operand = fp8 ? narrow : a;
  // Each kernel reads 16 bits an element; the last one writes the operand by rows and by columns.
  cast_kernels = cast_kernels_of(view);
  cast = 2 * cast_kernels + 2 * operand;
}

}  // namespace espalier::check
