// SPDX-License-Identifier: Apache-2.0
// Connects ranks for communication. Only this file and process_group.h use c10d; every other file of this module uses
// a Communicator.
//
// A Communicator is a group of ranks, each of which calls the same collectives in the same order. Tensors are
// contiguous. With one member nothing is sent. A failure (a lost peer, a time-out) is thrown as std::runtime_error;
// train() turns it into an Error.
//
// Per member, for S bytes of the whole tensor and n members, all_reduce sends 2·S·(n−1)/n; all_gather and
// reduce_scatter send S·(n−1)/n. All are made of rounds in which every member sends one message and receives one.
// Gathers and reductions go round a ring in the order of ranks. A line between two sites thus carries the traffic of
// one member, whatever the size of the sites. Gloo's own reduce-scatter sends as much as an all-reduce. An all-reduce
// is a reduce-scatter and an all-gather. In an all-to-all, round k is between ranks k apart. Small tensors (64 KiB
// over all members; Rendezvous::direct_bytes) take one message from everyone to everyone instead of rounds that wait
// for each other.
//
// Latency of small messages: Gloo sends only after the receiver has reported that it is ready. A message whose
// receive is not yet posted therefore takes the latency α twice. Here the receives of a round are posted before the
// round, so only the first round of a collective waits for that report. A ring takes n·α, an all-reduce (2·n − 1)·α,
// one message from everyone to everyone 2·α, and an all-reduce of two of them 3·α (cost/collective.h).
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "espalier/result.h"

namespace at {
class Tensor;
}

namespace espalier::runtime {

/// Limits direct exchanges: up to this many bytes over all members, latency dominates the cost of a collective where
/// hosts are near each other.
inline constexpr std::int64_t kDirectBytes = 1 << 16;

/// Returns the message of a failure without the stack that c10d appends.
std::string cause_of(const std::exception& failure);

/// A message in flight. Its tensor must not change until wait() returns.
class Message {
 public:
  class Impl;
  Message();
  explicit Message(std::shared_ptr<Impl> impl);
  void wait();

 private:
  std::shared_ptr<Impl> impl_;
};

/// Counts the calls of a rank in a group.
struct Calls {
  std::int64_t collectives = 0;
  std::int64_t messages = 0;  ///< sent, outside collectives
};

class Communicator {
 public:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int size() const;
  [[nodiscard]] int rank() const;              ///< rank of this process in the group
  void all_reduce(at::Tensor tensor);          ///< sum, in place
  void all_reduce_maximum(at::Tensor tensor);  ///< in place
  /// `whole` has size() times the elements of `part`. Part r of it belongs to member r.
  void all_gather(at::Tensor whole, const at::Tensor& part);
  void reduce_scatter(at::Tensor part, const at::Tensor& whole);
  /// These overloads take parts of unequal sizes, sizes[r] elements for member r. They send as much as an all-to-all
  /// of these sizes.
  void all_gather(at::Tensor whole, const at::Tensor& part, const std::vector<std::int64_t>& sizes);
  void reduce_scatter(at::Tensor part, const at::Tensor& whole, const std::vector<std::int64_t>& sizes);
  /// These overloads handle several tensors of one type, each by itself, in few messages. Tensors are batched up to
  /// 16 times the size of direct messages, and each batch waits only once for the latency between members.
  void all_reduce(const std::vector<at::Tensor>& tensors);
  void all_gather(const std::vector<at::Tensor>& wholes, const std::vector<at::Tensor>& parts);
  void reduce_scatter(const std::vector<at::Tensor>& parts, const std::vector<at::Tensor>& wholes);
  /// Sends part r of `in` to member r and receives part r of `out` from it. All parts are equal.
  void all_to_all(at::Tensor out, const at::Tensor& in);
  /// Exchanges matrices in unequal parts: `sent[r]` rows of `in` go to member r, `received[r]` rows of `out` come
  /// from it.
  void all_to_all_rows(at::Tensor out, const std::vector<std::int64_t>& received, const at::Tensor& in,
                       const std::vector<std::int64_t>& sent);
  void barrier();
  /// Returns the seconds that this rank has spent in the collectives of the group.
  [[nodiscard]] double busy_seconds() const;
  [[nodiscard]] Calls calls() const;
  /// Messages of one pair and tag arrive in the order in which they were sent.
  Message send(const at::Tensor& tensor, int to, int tag);
  /// Sends from a separate thread, so that the system's work to send does not delay the computation of this one. All
  /// messages of one pair and tag must use the same kind of send.
  Message send_beside(const at::Tensor& tensor, int to, int tag);
  Message receive(at::Tensor tensor, int from, int tag);
  /// Waits until a message is complete. The time counts as collective time of the group.
  void finish(Message& message);

 private:
  void in_batches(const std::vector<at::Tensor>& wholes,
                  const std::function<void(std::size_t first, std::size_t end)>& body) const;
  at::Tensor from_everyone(const at::Tensor& part);
  at::Tensor parts_of_everyone(const at::Tensor& whole);
  void exchange_parts(const at::Tensor& out, const at::Tensor& in);
  std::vector<Message> ask_for_parts(const at::Tensor& whole);
  void gather_asked(const at::Tensor& whole, const at::Tensor& own, std::vector<Message> asked);
  at::Tensor reduced(const at::Tensor& whole);
  at::Tensor reduced_in_ring(const at::Tensor& whole);
  void in_rounds(at::Tensor whole, const std::function<at::Tensor(int to)>& part_for);
  [[nodiscard]] bool is_direct(const at::Tensor& whole) const;
  std::unique_ptr<Impl> impl_;
};

/// Describes how the ranks of a run find each other.
struct Rendezvous {
  /// File into which rank 0 writes its listening port, for ranks on one machine. Where it is empty, `address` and
  /// `port` apply.
  std::string file;
  std::string address;  ///< address of rank 0
  int port = 0;
  int rank = 0, world = 1;
  double timeout_seconds = 300;              ///< time-out of a collective
  std::int64_t direct_bytes = kDirectBytes;  ///< up to this size over all members, tensors go from everyone to everyone
  bool local = true;                         ///< all ranks are on this machine
  bool gpus = false;                         ///< tensors live on GPUs; groups use NCCL collectives (process_group.h)
};

/// Joins a run and makes groups of its ranks.
class Meeting {
 public:
  class Impl;
  explicit Meeting(const Rendezvous& rendezvous);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world() const;
  /// Sets the limit for groups that are made afterwards. It must be the same on all ranks.
  void set_direct_bytes(std::int64_t bytes);
  [[nodiscard]] std::int64_t direct_bytes() const;
  /// Compares `text` on all ranks. Every rank of the run calls this with a name that is used once. All ranks return
  /// an error about the first rank whose text differs from that of rank 0.
  Status agree(const std::string& name, const std::string& text);
  /// Makes a group. Every member calls this with the same members and with a `name` that is used once. Returns null
  /// for a group without this rank; a group of this rank alone contacts nobody. Ranks that make several groups make
  /// them in the same order.
  std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& members);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::runtime
