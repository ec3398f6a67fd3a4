// SPDX-License-Identifier: Apache-2.0
// espalier-calibrate-devices: fits operator coefficients of devices on published operator times and writes
// data/calibration/devices.yaml (lab/device_fit.h).
//   --data DIR   directory of the tables (default: data/operators, thinned copies; with the full tables their other
//                rows are held out)
//   --out FILE   output file (default: data/calibration/devices.yaml)
//   --thin DIR   write the thinned tables to DIR instead
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <set>
#include <string>

#include "lab/device_fit.h"

using namespace espalier;
using namespace espalier::lab;

namespace {

int thin(const std::string& from, const std::string& to) {
  std::set<std::string> names;
  for (const DeviceTables& t : device_tables())
    for (const std::string* name : {&t.gemm, &t.attention, &t.moe, &t.operators})
      if (!name->empty()) names.insert(*name);
  for (const std::string& name : names) {
    const auto table = load_table(from, name);
    if (!table) {
      std::cerr << table.error().message() << "\n";
      return 3;
    }
    std::ofstream(to + "/" + name) << to_text(thinned(*table, thinning_of(*table)));
  }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  std::string data = "data/operators", out = "data/calibration/devices.yaml", thin_to;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string flag = arguments[i];
    if (flag == "--data")
      data = arguments[i + 1];
    else if (flag == "--out")
      out = arguments[i + 1];
    else if (flag == "--thin")
      thin_to = arguments[i + 1];
    else {
      std::cerr << "unknown flag " << flag << "\n";
      return 2;
    }
  }
  if (!thin_to.empty()) return thin(data, thin_to);
  const auto fits = fit_devices(data);
  if (!fits) {
    std::cerr << fits.error().message() << "\n";
    return 3;
  }
  for (const DeviceFit& fit : *fits)
    for (const OperatorResidual& r : fit.residuals)
      std::cout << fit.device << "  " << r.what << "  " << r.fitted << " fitted, " << r.held_out << " held out: median "
                << 100 * r.median << " %, p90 " << 100 * r.p90 << " %; training " << 100 * r.training_median << " %, p90 "
                << 100 * r.training_p90 << " %\n";
  std::ofstream(out) << calibration_yaml(*fits);
  std::cout << "wrote " << out << "\n";
  return 0;
}
