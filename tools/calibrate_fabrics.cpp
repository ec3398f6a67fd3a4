// SPDX-License-Identifier: Apache-2.0
// espalier-calibrate-fabrics DATA: fits data/calibration/fabrics.yaml from data/operators (lab/fabric_fit.h) and prints
// it.
#include <iostream>
#include <string>

#include "base/document.h"
#include "lab/fabric_fit.h"

int main(int argc, char** argv) {
  using namespace espalier;
  if (argc != 2) {
    std::cerr << "usage: espalier-calibrate-fabrics DATA_DIRECTORY\n";
    return 2;
  }
  const std::string data = argv[1], file = data + "/calibration/fabrics.yaml";
  const auto text = base::read_file(file);
  if (!text) {
    std::cerr << text.error().message() << '\n';
    return 1;
  }
  const auto before = cluster::read_fabric_calibration(*text, file);
  if (!before) {
    std::cerr << before.error().message() << '\n';
    return 1;
  }
  const auto fitted = lab::calibrate_fabrics(data + "/operators", *before);
  if (!fitted) {
    std::cerr << fitted.error().message() << '\n';
    return 1;
  }
  std::cout << *fitted;
  return 0;
}
