// SPDX-License-Identifier: Apache-2.0
// Reads facts that a published record states in its text or in free fields, by the rows of
// data/dictionary/records.yaml. A field of the record's own format that states a fact comes first: the text is then not
// searched for that fact (docs/file-formats.md, "Measured runs").
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/document.h"
#include "espalier/measured_runs.h"
#include "runs/record_dictionary.h"

namespace espalier::runs {

/// Returns whether `text` contains any of `words` (lower case), letter case ignored. The word begins a word of the
/// text and is not denied, as in "without torch.compile".
bool says(std::string_view text, const std::vector<std::string>& words, const RecordDictionary::Denied& denied);

/// Returns the names of techniques and engine options that the record's text names or its `extra` switches on.
std::vector<std::string> published_techniques(const base::Node& record, const RecordDictionary& dictionary);

/// Returns the adapters that `extra` states, without values of an unexpected type; nullopt where it states none.
std::optional<RunAdapter> stated_adapter(const base::Node& record, const RecordDictionary& dictionary);
/// Returns the usual adapters of the framework; nullopt where no row fits.
std::optional<RunAdapter> assumed_adapter(std::string_view framework, const RecordDictionary& dictionary);

/// Returns the release of the framework; empty where no field names it.
std::string published_release(const base::Node& record, const RecordDictionary& dictionary);

/// Returns the kind of memory in words about a peak; nullopt where they name none.
std::optional<MemoryKind> read_memory_words(std::string_view words, const RecordDictionary& dictionary);
/// Returns the kind of memory in those clauses of the notes that are about memory.
std::optional<MemoryKind> published_memory_kind(const base::Node& record, const RecordDictionary& dictionary);

struct FrozenReading {
  std::string precision;  ///< words about the trained weights; all words where none are about frozen ones
  FrozenType type = FrozenType::compute;
  std::string note;     ///< names the part that a job lacks
  std::string unknown;  ///< the words of a type that no row has
};
/// Reads a precision such as "bf16, frozen weights nf4".
FrozenReading read_frozen_words(std::string_view precision, const RecordDictionary& dictionary);

}  // namespace espalier::runs
