// SPDX-License-Identifier: Apache-2.0
// Reads data/facts.yaml (schema espalier.facts/1): figures about kernels, launches, collectives and hosts, as rows with
// a source and an era. The file documents its keys. Modules copy the figures that they use into values of their own
// once (cluster/hardware_facts.h, plan/engine_facts.h); no equation of a search looks one up.
//
// The reader is strict and reports errors with their place. A fact without rows, rows of one era, and a fact that has
// no row for some engine and version are errors.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/era.h"
#include "espalier/result.h"

namespace espalier::base {

struct FactRow {
  double value = 0;
  Era era;
  std::string source;
};

/// Holds the rows of one figure, by the engine for which they hold; "": those of all engines without rows of their own.
struct Fact {
  std::string unit, meaning, versions;
  std::map<std::string, std::vector<FactRow>, std::less<>> rows;
};

/// Says for which engine and version a figure is asked; without them, for any engine and the newest version.
struct FactContext {
  std::string_view engine;
  std::optional<Version> version;
};

class Facts {
 public:
  explicit Facts(std::map<std::string, Fact, std::less<>> facts) : facts_(std::move(facts)) {}
  /// Returns the figure that holds for an engine and version. A name that the file does not have is a bug of this
  /// build; so is a fact with `versions`, whose rows are no eras of an engine.
  [[nodiscard]] double value(std::string_view name, const FactContext& context = {}) const;
  /// Returns the figure for a version of the program that the fact names under `versions`. A fact without `versions`
  /// and a text that is no version are bugs of this build.
  [[nodiscard]] double value_at(std::string_view name, std::string_view version) const;
  [[nodiscard]] const std::map<std::string, Fact, std::less<>>& all() const { return facts_; }

 private:
  [[nodiscard]] const Fact& fact(std::string_view name, bool has_versions) const;
  std::map<std::string, Fact, std::less<>> facts_;
};

Result<Facts> read_facts(std::string_view yaml, const std::string& where);
/// Returns the facts that are compiled into the library, read once.
const Facts& shipped_facts();

}  // namespace espalier::base
