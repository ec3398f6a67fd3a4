// SPDX-License-Identifier: Apache-2.0
// Falsifies claims of a planner in one way each: bytes, messages, peaks, limits, times.
#include "cases.h"
#include "tables.h"
#include "tools.h"

namespace espalier::mutation {
namespace {

using Figures = std::vector<std::int64_t> Claims::*;

/// Multiplies one figure of the first or the last stage or chunk by `factor`.
Break scale(Figures figures, double factor, bool last) {
  return [=](Case& c) {
    std::int64_t& bytes = last ? (c.claims.*figures).back() : (c.claims.*figures).front();
    const auto scaled = static_cast<std::int64_t>(static_cast<double>(bytes) * factor);
    return scaled != bytes && (bytes = scaled, true);
  };
}
Break scale_time(double factor) {
  return [factor](Case& c) {
    c.claims.iteration_ns = static_cast<std::int64_t>(static_cast<double>(c.claims.iteration_ns) * factor);
    return true;
  };
}
/// Selects cases whose claims are simulated, not derived. In a derived case the claim is the middle of two bounds,
/// which may be moved.
Break of_simulated(const Break& change) {
  return [change](Case& c) { return simulated_figures(c).front() == c.claims.iteration_ns && change(c); };
}
Break swapped(Figures figures) {
  return [figures](Case& c) {
    std::vector<std::int64_t>& bytes = c.claims.*figures;
    const double first = static_cast<double>(bytes.front()), last = static_cast<double>(bytes.back());
    if (std::abs(first - last) <= 0.05 * std::max(first, last)) return false;
    std::swap(bytes.front(), bytes.back());
    return true;
  };
}

}  // namespace

std::vector<Mutation> claim_mutations() {
  const Figures fixed = &Claims::static_bytes_per_stage, saved = &Claims::saved_bytes_per_chunk,
                boundary = &Claims::boundary_bytes_per_chunk, gradient = &Claims::gradient_bytes_per_stage,
                peak = &Claims::peak_bytes_per_stage;
  return {
      {"static memory under-reported by a byte", "static-memory",
       [](Case& c) {
         --c.claims.static_bytes_per_stage.back();
         return true;
       }},
      {"static memory over-reported by a byte", "static-memory",
       [](Case& c) {
         ++c.claims.static_bytes_per_stage.front();
         return true;
       }},
      {"static memory of stages exchanged", "static-memory", swapped(fixed)},
      {"no static memory", "static-memory", scale(fixed, 0, true)},
      {"saved activations one per cent low", "saved-activations", scale(saved, 0.99, false)},
      {"saved activations of the last chunk doubled", "saved-activations", scale(saved, 2, true)},
      {"saved activations of chunks exchanged", "saved-activations", swapped(saved)},
      {"recomputed layers left out of the plan", "saved-activations",
       [](Case& c) {
         if (strategy_of(c.plan).recompute.kind == RecomputeKind::none) return false;
         for_all_strategies(c.plan, [](Strategy& s) { s.recompute = {}; });
         return true;
       }},
      {"other modules recomputed than the plan says", "saved-activations",
       [](Case& c) {
         if (strategy_of(c.plan).recompute.kind != RecomputeKind::selective) return false;
         for_all_strategies(c.plan, [](Strategy& s) { s.recompute.modules = {RecomputeModule::layernorm}; });
         return true;
       }},
      {"a boundary message forgets the micro-batch", "boundary-messages", scale(boundary, 0.5, true)},
      {"a boundary message travels twice", "boundary-messages", scale(boundary, 2, true)},
      {"a message into the first chunk", "boundary-messages",
       [](Case& c) {
         c.claims.boundary_bytes_per_chunk.front() = 64;
         return true;
       }},
      {"gradient messages in the wrong precision", "gradient-messages", scale(gradient, 0.5, false)},
      {"gradient messages of the last stage doubled", "gradient-messages", scale(gradient, 2, true)},
      {"a gradient message off by a byte", "gradient-messages",
       [](Case& c) {
         ++c.claims.gradient_bytes_per_stage.back();
         return true;
       }},
      {"the first peak is 5 % low", "peak-memory", scale(peak, 0.95, false)},
      {"the last peak is 5 % low", "peak-memory", scale(peak, 0.95, true)},
      {"the last peak is 5 % high", "peak-memory", scale(peak, 1.05, true)},
      {"the first peak is 3 % low", "peak-memory", scale(peak, 0.97, false)},
      {"a peak of nothing", "peak-memory", scale(peak, 0, true)},
      {"a peak is doubled", "peak-memory", scale(peak, 2, false)},
      {"peaks of stages exchanged", "peak-memory", swapped(peak)},
      {"a peak of static memory alone", "peak-memory",
       [](Case& c) {
         c.claims.peak_bytes_per_stage.front() = c.claims.static_bytes_per_stage.front();
         return true;
       }},
      {"a peak over the limit", "memory-limit",
       [](Case& c) {
         c.claims.memory_limit_bytes = c.claims.peak_bytes_per_stage.front() - 1;
         return true;
       }},
      {"a limit beyond the device", "memory-limit",
       [](Case& c) {
         c.claims.memory_limit_bytes *= 2;
         return true;
       }},
      {"a limit of a petabyte", "memory-limit",
       [](Case& c) {
         c.claims.memory_limit_bytes = 1'000'000'000'000'000;
         return true;
       }},
      {"a limit below the device", "memory-limit",
       [](Case& c) {
         --c.claims.memory_limit_bytes;
         return true;
       }},
      {"the user's cap is ignored", "memory-limit",
       [](Case& c) {
         c.cluster.memory_limit = Bytes(4096);
         return true;
       }},
      {"a tenth of the time", "time-bounds", scale_time(0.1)},
      {"half of the time", "time-bounds", of_simulated(scale_time(0.5))},
      {"a quarter of the time is left out", "time-bounds", of_simulated(scale_time(0.75))},
      {"three times the time", "time-bounds", of_simulated(scale_time(3))},
      {"a thousand times the time", "time-bounds", scale_time(1000)},
      {"no time at all", "time-bounds",
       [](Case& c) {
         c.claims.iteration_ns = 0;
         return true;
       }},
      {"less than no time", "time-bounds",
       [](Case& c) {
         c.claims.iteration_ns = -1;
         return true;
       }},
      {"a stage without a peak", "claims-shape",
       [](Case& c) {
         c.claims.peak_bytes_per_stage.pop_back();
         return true;
       }},
      {"a chunk without saved activations", "claims-shape",
       [](Case& c) {
         c.claims.saved_bytes_per_chunk.pop_back();
         return true;
       }},
      {"a stage too many", "claims-shape",
       [](Case& c) {
         c.claims.static_bytes_per_stage.push_back(0);
         return true;
       }},
  };
}

TEST(Mutation, FalseClaimsAreRejected) { expect_rejected(claim_mutations(), all_cases()); }

// This is the criterion: on each of the six plans, the derived bound reaches 0.8 of the simulated time and
// the derived peak is within 2 %.
TEST(Mutation, DerivedBoundsAreTightOnTheSixPlans) {
  for (const RealPlan& real : real_plans()) {
    const Case& c = real.truth;
    const View view = make_view(c.plan, c.model, c.cluster);
    const StepTimeRange time = step_time(view, c.program);
    const auto simulated = static_cast<double>(c.claims.iteration_ns);
    const double low = static_cast<double>(time.least_ns) / simulated, high = static_cast<double>(time.most_ns) / simulated;
    double worst = 0;
    const auto peaks = peak_bytes_per_stage(view, c.program, static_bytes_per_stage(view), saved_bytes_per_chunk(view));
    for (std::size_t i = 0; i < peaks.size(); ++i)
      worst = std::max(worst,
                       std::abs(static_cast<double>(peaks[i].least) / static_cast<double>(c.claims.peak_bytes_per_stage[i]) - 1));
    std::printf("%-16s %8.3f ms, bound %.3f of it, serial %.3f, peak off by %.4f %%\n", real.name.c_str(), simulated * 1e-6, low,
                high, 100 * worst);
    EXPECT_GE(low, 0.8) << real.name;
    EXPECT_LE(high, 2.0) << real.name;
    EXPECT_LE(worst, 0.02) << real.name;
  }
}

}  // namespace espalier::mutation
