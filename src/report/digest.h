// SPDX-License-Identifier: Apache-2.0
// Computes the digest of a document. It ties figures that only a search could derive again (certificate, counters,
// reasons) to the plan, the job and the prediction of the same document. It detects edits and corruption. It is not a
// signature: anyone who edits a document can compute the digest again.
//
//   digest          The xxh64 of the canonical text of the document without its keys `digest` and `timing`.
//   timing.digest   The same of `timing`, so that documents of equal answers differ only in `timing`.
//
// The canonical text depends on values alone. Keys are in the order of their bytes. There are no spaces. Numbers have
// the shortest form that reads back equal (a whole number without point or exponent). Pretty-printing, sorted keys
// and 0.10 for 0.1 change nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/document.h"
#include "espalier/findings.h"
#include "espalier/planner.h"

namespace espalier::report {

inline constexpr double kExact = 9007199254740992.0;  ///< 2^53: a whole number below it is exact as a double

std::string digest_of(const base::Node& root);

/// Writes a document twice: without a digest (empty), then with its own. A text beyond the limits of the reader gets
/// no digest.
std::string sealed(const std::function<std::string(const std::string& digest)>& write);
/// Writes the digest; nothing where it is empty.
void write_digest(base::JsonWriter& w, const std::string& digest);
void write_made_by(base::JsonWriter& w, const MadeBy& made_by);

/// Returns finding "digest". A document that names the build that made it must have one: builds that write `made_by`
/// in documents of this kind write digests. `binds` lists keys that only the digest protects.
Finding check_digest(const base::Node& root, const std::vector<std::string>& binds);
bool has_digest(const base::Node& root);

/// Returns those of these keys of the root that the document has. "observed.notes" names a key of a mapping in it.
std::vector<std::string> present_keys(const base::Node& root, const std::vector<std::string>& keys);

}  // namespace espalier::report
