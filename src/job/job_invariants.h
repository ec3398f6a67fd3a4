// SPDX-License-Identifier: Apache-2.0
// The border of the module: every job that a file makes is checked before it leaves. The readers of plans refuse by
// themselves what breaks a job.
//
//   inputs      both canonical sources are there, and the model has an embedding and a head
//   cluster     groups of devices, each with devices in its nodes and a memory; with token buckets also the cluster as
//               it was given
//   training    a batch of samples, tokens in the streams that the model reads, an imbalance of at least 1; histograms
//               in ascending order
//   engine      in the catalogue, or handed in as a model of the same name
#pragma once

#include "espalier/job.h"

namespace espalier::job {

/// Throws base::InternalError where a job breaks one of these: a bug of a reader.
void check_job(const Job& job);

}  // namespace espalier::job
