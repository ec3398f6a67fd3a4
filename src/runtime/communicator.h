// SPDX-License-Identifier: Apache-2.0
// Ranks that talk to each other: beside process_group.h the one place that knows c10d. Every other file of this module
// speaks to a Communicator.
//
// A Communicator is a group of ranks, each of which calls the same collectives in the same order. Tensors are
// contiguous. With one member nothing is sent. A failure (a lost peer, a time-out) is thrown as std::runtime_error;
// train() turns it into an Error.
//
// What travels, for S bytes of the whole tensor and n members, per member: all_reduce 2·S·(n−1)/n, all_gather and
// reduce_scatter S·(n−1)/n. All are made of rounds in which every member sends one message and receives one. Gathers
// and reductions go round a ring in the order of ranks, so that a line between two sites carries what one member sends,
// whatever their size; Gloo's own reduce-scatter sends what an all-reduce sends. An all-reduce is a reduce-scatter and
// an all-gather; in an all-to-all round k is between ranks k apart. Small tensors (64 KiB over all members;
// Rendezvous::direct_bytes) take one message from everyone to everyone instead of rounds that wait for each other.
//
// How long a small message takes: Gloo sends when the receiver has said that it is ready, so that one that nobody has
// asked for yet takes the latency α twice. Here what a round brings is asked for before the round: only the first one
// of a collective waits for that word. A ring takes n·α, an all-reduce (2·n − 1)·α, one message from everyone to
// everyone 2·α, and an all-reduce of two of them 3·α (cost/collective.h).
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

/// Up to this many bytes over all members latency is what a collective costs, where hosts are near each other.
inline constexpr std::int64_t kDirectBytes = 1 << 16;

/// What a failure says, without the stack that c10d appends.
std::string cause_of(const std::exception& failure);

/// A message under way. Its tensor must stay as it is until wait() returns.
class Message {
 public:
  class Impl;
  Message();
  explicit Message(std::shared_ptr<Impl> impl);
  void wait();

 private:
  std::shared_ptr<Impl> impl_;
};

/// What a rank has called in a group.
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
  [[nodiscard]] int rank() const;              ///< of this process in the group
  void all_reduce(at::Tensor tensor);          ///< sum, in place
  void all_reduce_maximum(at::Tensor tensor);  ///< in place
  /// `whole` has size() times the elements of `part`; part r of it is that of member r.
  void all_gather(at::Tensor whole, const at::Tensor& part);
  void reduce_scatter(at::Tensor part, const at::Tensor& whole);
  /// The same with parts of unequal sizes, sizes[r] elements of member r: what travels is what an all-to-all of these
  /// sizes sends.
  void all_gather(at::Tensor whole, const at::Tensor& part, const std::vector<std::int64_t>& sizes);
  void reduce_scatter(at::Tensor part, const at::Tensor& whole, const std::vector<std::int64_t>& sizes);
  /// The same of several tensors of one type, each by itself, in few messages: what a word between members takes is
  /// waited for once for as many of them as copies of 16 times the size of direct messages hold.
  void all_reduce(const std::vector<at::Tensor>& tensors);
  void all_gather(const std::vector<at::Tensor>& wholes, const std::vector<at::Tensor>& parts);
  void reduce_scatter(const std::vector<at::Tensor>& parts, const std::vector<at::Tensor>& wholes);
  /// Part r of `in` goes to member r; part r of `out` comes from it. Equal parts.
  void all_to_all(at::Tensor out, const at::Tensor& in);
  /// The same of matrices in unequal parts: `sent[r]` rows of `in` go to member r, `received[r]` rows of `out` come
  /// from it.
  void all_to_all_rows(at::Tensor out, const std::vector<std::int64_t>& received, const at::Tensor& in,
                       const std::vector<std::int64_t>& sent);
  void barrier();
  /// Seconds that this rank has spent in the collectives of the group.
  [[nodiscard]] double busy_seconds() const;
  [[nodiscard]] Calls calls() const;
  /// Messages of one pair and tag arrive in the order in which they were sent.
  Message send(const at::Tensor& tensor, int to, int tag);
  /// The same from a thread of its own: what the system does to send does not keep this one from its computation. One
  /// pair and tag: all so, or none.
  Message send_beside(const at::Tensor& tensor, int to, int tag);
  Message receive(at::Tensor tensor, int from, int tag);
  /// Until a message is through; counts as time in the collectives of the group.
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

/// Where the ranks of a run find each other.
struct Rendezvous {
  std::string file;     ///< ranks of one machine: where rank 0 writes the port on which it listens; empty: `address`
                        ///< and `port`
  std::string address;  ///< of rank 0
  int port = 0;
  int rank = 0, world = 1;
  double timeout_seconds = 300;              ///< after which a collective is given up
  std::int64_t direct_bytes = kDirectBytes;  ///< collectives of whole tensors up to this size go from everyone to
                                             ///< everyone
  bool local = true;                         ///< all ranks are on this machine
  bool gpus = false;                         ///< tensors live on GPUs: groups and their collectives are NCCL's
                                             ///< (process_group.h)
};

/// The way into a run: makes groups of ranks.
class Meeting {
 public:
  class Impl;
  explicit Meeting(const Rendezvous& rendezvous);
  ~Meeting();
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int world() const;
  /// Of groups that are made from now on; the same on all ranks.
  void set_direct_bytes(std::int64_t bytes);
  [[nodiscard]] std::int64_t direct_bytes() const;
  /// Every rank of the run calls this with a name that is used once. The first rank whose text is another than that of
  /// rank 0 is the error of all of them.
  Status agree(const std::string& name, const std::string& text);
  /// Every member calls this with the same name and members; `name` is used once. A group without this rank is null,
  /// one of this rank alone asks nobody. Ranks that make several groups make them in one order.
  std::unique_ptr<Communicator> group(const std::string& name, const std::vector<int>& members);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::runtime
