// SPDX-License-Identifier: Apache-2.0
// Holds data/dictionary/records.yaml: the meaning of the text and of the free fields in published records. Each row
// names a fact of a record; runs/record_facts.h finds the rows that apply.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "espalier/plan.h"
#include "espalier/result.h"

namespace espalier::runs {

/// Describes how a peak was taken: tensors of the framework, its allocator's segments, or the whole device
/// (nvidia-smi: with the context).
enum class MemoryKind : std::uint8_t { allocated, reserved, device };
std::string_view to_string(MemoryKind kind);

struct RecordDictionary {
  struct Denied {
    std::vector<std::string> before, after;
  };
  struct Words {
    std::string technique;
    std::vector<std::string> words, fields;
  };
  /// Tests a value of `extra`. Exactly one of the three tests is given.
  struct Condition {
    std::vector<std::string> path;
    std::vector<base::Node> is, holds;
    std::optional<double> above;
  };
  struct Switch {
    std::string technique;
    bool on = true;
    std::vector<Condition> when;
  };
  struct StatedAdapter {
    std::vector<std::string> path, rank, targets;
  };
  struct AssumedAdapter {
    std::string framework;  ///< begins the name of the framework
    std::int64_t rank = 0;
    std::vector<std::string> targets;
    std::string source;
  };
  struct Release {
    std::string field, before, after;
    std::int64_t digits = 0;  ///< each number of the version has as many; 0: any
  };
  struct MemoryWords {
    MemoryKind kind = MemoryKind::allocated;
    std::vector<std::string> words;
  };
  struct FrozenWord {
    std::string word;
    FrozenType type = FrozenType::compute;
    std::string note;  ///< names the part that a job lacks; empty: none
  };
  Denied denied;
  std::vector<Words> techniques;
  std::vector<Switch> switches;
  std::vector<StatedAdapter> stated;
  std::vector<AssumedAdapter> assumed;
  std::vector<Release> releases;
  std::vector<std::string> memory_clauses;
  std::vector<MemoryWords> memory;
  std::vector<std::string> frozen_after;
  std::vector<FrozenWord> frozen;
};

/// Reads a dictionary, all words in lower case. Fails (bad_input) for an unknown key, and for a condition without a
/// test or with several.
Result<RecordDictionary> read_record_dictionary(std::string_view yaml, const std::string& where);
/// Returns the dictionary that Espalier ships.
const RecordDictionary& record_dictionary();

}  // namespace espalier::runs
