// SPDX-License-Identifier: Apache-2.0
// Guards the border of the module: every job that a file makes is checked before it leaves. The readers of plans
// reject by themselves what breaks a job.
//
//   inputs      Both canonical sources are present, and the model has an embedding and a head.
//   cluster     It has groups of devices, each with devices in its nodes and a memory. With token buckets it also has
//               the cluster as it was given.
//   training    It has a batch of samples, tokens in the streams that the model reads, and an imbalance of at least 1.
//               Histograms are in ascending order.
//   engine      It is in the catalogue, or is given as a model of the same name.
#pragma once

#include "espalier/job.h"

namespace espalier::job {

/// Throws base::InternalError where a job breaks one of these, which is a bug of a reader.
void check_job(const Job& job);

}  // namespace espalier::job
