// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runtime/process_group.h"
#include "runtime/queue.h"

namespace espalier::runtime {
namespace {

/// Limits a batch of joined tensors to the size of this many direct messages.
constexpr std::int64_t kJoinedMessages = 16;

/// Tags above those of callers are reserved for collectives.
constexpr int kRoundTag = 1 << 30, kGatherTag = kRoundTag + 1, kPartTag = kRoundTag + 2;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

std::string cause_of(const std::exception& failure) {
  std::string text = failure.what();
  text = text.substr(0, text.find("Exception raised from"));
  text = text.substr(0, text.find("\nframe #"));
  for (char& c : text)
    if (c == '\n') c = ' ';
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text;
}

// ---- messages -----------------------------------------------------------------------------------------------------

class Message::Impl {
 public:
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<at::Tensor> tensors;  // kept alive
  Queue* beside = nullptr;          // the queue whose task `posted` sends the message
  std::int64_t posted = 0;
};

Message::Message() = default;
Message::Message(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

void Message::wait() {
  if (impl_ == nullptr) return;
  if (impl_->beside != nullptr) impl_->beside->wait(impl_->posted);
  impl_->work->wait();
  impl_.reset();
}

// ---- groups -------------------------------------------------------------------------------------------------------

class Communicator::Impl {
 public:
  int rank = 0, size = 1;
  std::int64_t direct_bytes = kDirectBytes;
  std::shared_ptr<c10d::Backend> group;  // null: this rank alone
  bool native = false;                   // use the group's own collectives
  struct Busy {
    double seconds = 0;
    Calls calls;
  } busy;                         // time and calls, of collectives and messages
  int depth = 0;                  // nesting depth of collectives built from others
  std::unique_ptr<Queue> beside;  // for send_beside(); destroyed before Gloo
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() = default;

int Communicator::size() const { return impl_->size; }
int Communicator::rank() const { return impl_->rank; }
double Communicator::busy_seconds() const { return impl_->busy.seconds; }
Calls Communicator::calls() const { return impl_->busy.calls; }

namespace {

/// Counts a collective and its time. A collective nested in another adds nothing.
class Busy {
 public:
  template <class Spent>
  Busy(Spent& spent, int& depth) : seconds_(spent.seconds), depth_(depth), begin_(std::chrono::steady_clock::now()) {
    if (depth_++ == 0) ++spent.calls.collectives;
  }
  ~Busy() {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin_;
    if (--depth_ == 0) seconds_ += took.count();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  double& seconds_;
  int& depth_;
  std::chrono::steady_clock::time_point begin_;
};

/// Sums the rows in order, so that every member gets the same bits, in fp32 or wider. The sum may overwrite the first
/// row.
at::Tensor sum_of(const at::Tensor& rows) {
  at::Tensor sum = rows.select(0, 0);
  if (sum.scalar_type() == at::kBFloat16) sum = sum.to(at::kFloat);
  for (std::int64_t r = 1; r < rows.size(0); ++r) sum.add_(rows.select(0, r));
  return sum;
}

/// Runs an all-to-all; `received` and `sent` count rows by member.
void exchange(c10d::Backend& group, const at::Tensor& out, const at::Tensor& in, std::vector<std::int64_t> received,
              std::vector<std::int64_t> sent) {
  if (in.scalar_type() != at::kBFloat16) return group_all_to_all(group, out, in, std::move(received), std::move(sent));
  // Gloo does not support this type; send its bytes.
  for (std::vector<std::int64_t>* sizes : {&received, &sent})
    for (std::int64_t& size : *sizes) size *= in.dim() == 1 ? in.element_size() : 1;
  group_all_to_all(group, out.view(at::kByte), in.view(at::kByte), std::move(received), std::move(sent));
}

}  // namespace

/// Exchanges parts of equal size, one message to each rank. All receives are posted before the first send, so that no
/// message waits for another.
void Communicator::exchange_parts(const at::Tensor& out, const at::Tensor& in) {
  const int all = impl_->size, here = impl_->rank;
  const std::int64_t part = in.numel() / all;
  std::vector<Message> under_way;
  for (int k = 1; k < all; ++k) {
    const int from = (here + all - k) % all;
    under_way.push_back(receive(out.narrow(0, from * part, part), from, kPartTag));
  }
  for (int k = 1; k < all; ++k) {
    const int to = (here + k) % all;
    under_way.push_back(send(in.narrow(0, to * part, part), to, kPartTag));
  }
  out.narrow(0, here * part, part).copy_(in.narrow(0, here * part, part));
  for (Message& message : under_way) message.wait();
}

/// Returns, by rank, every member's part for this rank.
at::Tensor Communicator::parts_of_everyone(const at::Tensor& whole) {
  at::Tensor rows = at::empty({impl_->size, whole.numel() / impl_->size}, whole.options());
  exchange_parts(rows.view({-1}), whole);
  return rows;
}

/// In round k this rank sends to the k-th rank after it and receives from the k-th before it. Every link then carries
/// one message each way at a time, at its full rate.
void Communicator::in_rounds(at::Tensor whole, const std::function<at::Tensor(int to)>& part_for) {
  const int all = impl_->size, here = impl_->rank;
  const std::int64_t part = whole.numel() / all;
  whole.narrow(0, here * part, part).copy_(part_for(here));
  for (int k = 1; k < all; ++k) {
    const int to = (here + k) % all, from = (here + all - k) % all;
    Message arrives = receive(whole.narrow(0, from * part, part), from, kRoundTag), leaves = send(part_for(to), to, kRoundTag);
    arrives.wait();
    leaves.wait();
  }
}

/// Posts the receives of a gather into `whole`. The earlier they are posted, the less its senders wait for the
/// message that this rank is ready.
std::vector<Message> Communicator::ask_for_parts(const at::Tensor& whole) {
  const int all = impl_->size, here = impl_->rank, before = (here + all - 1) % all;
  const std::int64_t part = whole.numel() / all;
  const bool direct = is_direct(whole);
  std::vector<Message> asked;
  for (int k = 1; k < all; ++k) {
    const int owner = (here + all - k) % all;
    asked.push_back(receive(whole.narrow(0, owner * part, part), direct ? owner : before, kGatherTag));
  }
  return asked;
}

/// Runs a gather whose receives are posted. A direct gather sends the own part to everyone. In round k of a ring,
/// this rank forwards the part that it received in round k − 1 to the next rank; in the first round it sends its own
/// part.
void Communicator::gather_asked(const at::Tensor& whole, const at::Tensor& own, std::vector<Message> asked) {
  const int all = impl_->size, here = impl_->rank, next = (here + 1) % all;
  const std::int64_t part = whole.numel() / all;
  const auto part_of = [&](int k) { return whole.narrow(0, (here + all - k) % all * part, part); };
  const bool direct = is_direct(whole);
  part_of(0).copy_(own);
  std::vector<Message> leaving;
  for (int k = 1; k < all; ++k) {
    leaving.push_back(send(part_of(direct ? 0 : k - 1), direct ? (here + k) % all : next, kGatherTag));
    if (!direct) asked[static_cast<std::size_t>(k) - 1].wait();
  }
  for (Message& message : asked) message.wait();
  for (Message& message : leaving) message.wait();
}

/// Reduces in a ring. In round k the partial sum of a part goes to the next rank, which adds its own contribution.
/// After the last round this rank has the whole sum of its part. One chain of ranks sums every part, so that all
/// members get the same bits of it. The receive of a round is posted while the previous round is in flight.
at::Tensor Communicator::reduced_in_ring(const at::Tensor& whole) {
  const int all = impl_->size, here = impl_->rank, next = (here + 1) % all, before = (here + all - 1) % all;
  const std::int64_t part = whole.numel() / all;
  const auto part_of = [&](int k) { return whole.narrow(0, (here + 2 * all - k) % all * part, part); };
  constexpr int kRooms = 3;  // leaving, arriving, arriving next
  std::array<at::Tensor, kRooms> rooms;
  const auto ask = [&](int k) {
    at::Tensor& room = rooms[static_cast<std::size_t>(k % kRooms)];
    if (!room.defined()) room = at::empty({part}, whole.options());
    return receive(room, before, kRoundTag);
  };
  at::Tensor sum = part_of(1);  // the first part is sent as it is, so that `whole` is not changed
  Message arrives = ask(1);
  for (int k = 1; k < all; ++k) {
    Message leaves = send(sum, next, kRoundTag), following = k + 1 < all ? ask(k + 1) : Message();
    arrives.wait();
    leaves.wait();
    sum = rooms[static_cast<std::size_t>(k % kRooms)];
    sum.add_(part_of(k + 1));
    arrives = std::move(following);
  }
  return sum;
}

/// Returns whether a tensor of this size over all members goes directly from everyone to everyone.
bool Communicator::is_direct(const at::Tensor& whole) const {
  return static_cast<std::int64_t>(whole.nbytes()) <= impl_->direct_bytes;
}

/// Returns the parts of all members, by rank.
at::Tensor Communicator::from_everyone(const at::Tensor& part) {
  at::Tensor rows = at::empty({impl_->size, part.numel()}, part.options());
  gather_asked(rows.view({-1}), part.reshape({-1}), ask_for_parts(rows.view({-1})));
  return rows;
}

void Communicator::all_reduce(at::Tensor tensor) {
  if (impl_->size == 1) return;
  const Busy busy(impl_->busy, impl_->depth);
  if (impl_->native) return group_all_reduce(*impl_->group, std::move(tensor), Reduction::sum);
  if (static_cast<std::int64_t>(tensor.nbytes()) * impl_->size <= impl_->direct_bytes) {
    tensor.view({-1}).copy_(sum_of(from_everyone(tensor)));
    return;
  }
  // One member sums each part, then the sums are gathered. A member has its sum only when all others have sent their
  // contributions, so that the sums may overwrite these.
  const std::int64_t n = tensor.numel(), part = (n + impl_->size - 1) / impl_->size;
  at::Tensor padded = tensor.view({-1});
  if (part * impl_->size != n) padded = at::cat({padded, at::zeros({part * impl_->size - n}, tensor.options())});
  const at::Tensor own = padded.narrow(0, impl_->rank * part, part);
  std::vector<Message> asked = ask_for_parts(padded);
  own.copy_(reduced(padded));
  gather_asked(padded, own, std::move(asked));
  if (padded.numel() > n) tensor.view({-1}).copy_(padded.narrow(0, 0, n));
}

void Communicator::all_reduce_maximum(at::Tensor tensor) {
  if (impl_->size == 1) return;
  const Busy busy(impl_->busy, impl_->depth);
  if (impl_->native || static_cast<std::int64_t>(tensor.nbytes()) * impl_->size > impl_->direct_bytes)
    return group_all_reduce(*impl_->group, std::move(tensor), Reduction::maximum);
  tensor.view({-1}).copy_(from_everyone(tensor).amax(0));
}

void Communicator::all_gather(at::Tensor whole, const at::Tensor& part) {
  const Busy busy(impl_->busy, impl_->depth);
  at::Tensor flat = whole.view({-1});
  if (impl_->size == 1)
    flat.copy_(part.reshape({-1}));
  else if (impl_->native)
    group_all_gather(*impl_->group, flat, part.reshape({-1}));
  else
    gather_asked(flat, part.reshape({-1}), ask_for_parts(flat));
}

void Communicator::all_to_all(at::Tensor out, const at::Tensor& in) {
  if (impl_->size == 1) {
    out.view({-1}).copy_(in.reshape({-1}));
    return;
  }
  const Busy busy(impl_->busy, impl_->depth);
  at::Tensor into = out.view({-1}), from = in.reshape({-1});
  if (impl_->native) return group_all_to_all(*impl_->group, into, from);
  if (is_direct(from)) return exchange_parts(into, from);
  const std::int64_t part = from.numel() / impl_->size;
  in_rounds(into, [&](int to) { return from.narrow(0, to * part, part); });
}

void Communicator::all_to_all_rows(at::Tensor out, const std::vector<std::int64_t>& received, const at::Tensor& in,
                                   const std::vector<std::int64_t>& sent) {
  const Busy busy(impl_->busy, impl_->depth);
  at::Tensor from = in.contiguous();
  if (impl_->size == 1)
    out.copy_(from);
  else
    exchange(*impl_->group, out, from, received, sent);
}

void Communicator::reduce_scatter(at::Tensor part, const at::Tensor& whole) {
  if (impl_->size == 1) {
    part.view({-1}).copy_(whole.reshape({-1}));
    return;
  }
  const Busy busy(impl_->busy, impl_->depth);
  if (impl_->native) return group_reduce_scatter(*impl_->group, part.view({-1}), whole.reshape({-1}));
  part.view({-1}).copy_(reduced(whole.reshape({-1})));
}

/// Returns the sum of this rank's part.
at::Tensor Communicator::reduced(const at::Tensor& whole) {
  return is_direct(whole) ? sum_of(parts_of_everyone(whole)) : reduced_in_ring(whole);
}

void Communicator::all_gather(at::Tensor whole, const at::Tensor& part, const std::vector<std::int64_t>& sizes) {
  const Busy busy(impl_->busy, impl_->depth);
  at::Tensor out = whole.view({-1});
  at::Tensor copies = part.reshape({1, -1})
                          .expand({impl_->size, part.numel()})
                          .reshape({-1})
                          .contiguous();  // reshape copies nothing for one element
  exchange(*impl_->group, out, copies, sizes, std::vector<std::int64_t>(sizes.size(), part.numel()));
}

void Communicator::reduce_scatter(at::Tensor part, const at::Tensor& whole, const std::vector<std::int64_t>& sizes) {
  const Busy busy(impl_->busy, impl_->depth);
  at::Tensor rows = at::empty({impl_->size, part.numel()}, whole.options());
  at::Tensor received = rows.view({-1}), in = whole.reshape({-1});
  exchange(*impl_->group, received, in, std::vector<std::int64_t>(sizes.size(), part.numel()), sizes);
  part.view({-1}).copy_(sum_of(rows));
}

/// Calls `body(first, end)` for each batch of tensors that travel together.
void Communicator::in_batches(const std::vector<at::Tensor>& wholes,
                              const std::function<void(std::size_t, std::size_t)>& body) const {
  const std::int64_t limit = kJoinedMessages * std::max(impl_->direct_bytes, kDirectBytes);
  for (std::size_t first = 0, end = 0; first < wholes.size(); first = end) {
    std::int64_t bytes = 0;
    for (; end < wholes.size() && (end == first || bytes + static_cast<std::int64_t>(wholes[end].nbytes()) <= limit); ++end)
      bytes += static_cast<std::int64_t>(wholes[end].nbytes());
    body(first, end);
  }
}

void Communicator::all_reduce(const std::vector<at::Tensor>& tensors) {
  const Busy busy(impl_->busy, impl_->depth);
  in_batches(tensors, [&](std::size_t first, std::size_t end) {
    if (end - first == 1) return all_reduce(tensors[first]);
    std::vector<at::Tensor> flat;
    for (std::size_t k = first; k < end; ++k) flat.push_back(tensors[k].view({-1}));
    const at::Tensor joined = at::cat(flat);
    all_reduce(joined);
    std::int64_t at = 0;
    for (at::Tensor& piece : flat) {
      piece.copy_(joined.narrow(0, at, piece.numel()));
      at += piece.numel();
    }
  });
}

void Communicator::all_gather(const std::vector<at::Tensor>& wholes, const std::vector<at::Tensor>& parts) {
  const Busy busy(impl_->busy, impl_->depth);
  in_batches(wholes, [&](std::size_t first, std::size_t end) {
    if (end - first == 1) return all_gather(wholes[first], parts[first]);
    std::vector<at::Tensor> flat;
    for (std::size_t k = first; k < end; ++k) flat.push_back(parts[k].reshape({-1}));
    const at::Tensor own = at::cat(flat), joined = at::empty({impl_->size, own.numel()}, own.options());
    all_gather(joined, own);
    std::int64_t at = 0;
    for (std::size_t k = first; k < end; ++k) {
      const std::int64_t size = flat[k - first].numel();
      wholes[k].view({impl_->size, size}).copy_(joined.narrow(1, at, size));
      at += size;
    }
  });
}

void Communicator::reduce_scatter(const std::vector<at::Tensor>& parts, const std::vector<at::Tensor>& wholes) {
  const Busy busy(impl_->busy, impl_->depth);
  in_batches(wholes, [&](std::size_t first, std::size_t end) {
    if (end - first == 1) return reduce_scatter(parts[first], wholes[first]);
    std::vector<at::Tensor> rows;
    for (std::size_t k = first; k < end; ++k) rows.push_back(wholes[k].reshape({impl_->size, -1}));
    const at::Tensor joined = at::cat(rows, 1), own = at::empty({joined.size(1)}, joined.options());
    reduce_scatter(own, joined);
    std::int64_t at = 0;
    for (std::size_t k = first; k < end; ++k) {
      parts[k].view({-1}).copy_(own.narrow(0, at, parts[k].numel()));
      at += parts[k].numel();
    }
  });
}

void Communicator::barrier() {
  if (impl_->size > 1) impl_->group->barrier()->wait();
}

Message Communicator::send(const at::Tensor& tensor, int to, int tag) {
  if (impl_->depth == 0) ++impl_->busy.calls.messages;
  auto message = std::make_shared<Message::Impl>();
  message->tensors = {tensor};
  message->work = impl_->group->send(message->tensors, to, tag);
  return Message(std::move(message));
}

Message Communicator::send_beside(const at::Tensor& tensor, int to, int tag) {
  ++impl_->busy.calls.messages;
  if (impl_->beside == nullptr) impl_->beside = std::make_unique<Queue>();
  auto message = std::make_shared<Message::Impl>();
  message->tensors = {tensor};
  message->beside = impl_->beside.get();
  message->posted =
      impl_->beside->add([message, group = impl_->group, to, tag] { message->work = group->send(message->tensors, to, tag); });
  return Message(std::move(message));
}

Message Communicator::receive(at::Tensor tensor, int from, int tag) {
  auto message = std::make_shared<Message::Impl>();
  message->tensors = {std::move(tensor)};
  message->work = impl_->group->recv(message->tensors, from, tag);
  return Message(std::move(message));
}

void Communicator::finish(Message& message) {
  const Busy busy(impl_->busy, impl_->depth);
  message.wait();
}

// ---- the meeting --------------------------------------------------------------------------------------------------

class Meeting::Impl {
 public:
  Rendezvous at;
  c10::intrusive_ptr<c10d::Store> store;
  std::unique_ptr<Transport> transport;
};

namespace {

/// Returns the port that rank 0 wrote into the file, after waiting for it.
int port_in(const Rendezvous& at) {
  const auto end = std::chrono::steady_clock::now() + milliseconds_of(at.timeout_seconds);
  int port = 0;
  while (!(std::ifstream(at.file) >> port) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (port == 0) throw std::runtime_error("rank 0 did not write its port into " + at.file);
  return port;
}

/// Writes the port and renames the file, so that it appears complete.
void write_port(const Rendezvous& at, int port) {
  const std::string beside = at.file + ".new";
  std::ofstream(beside) << port << "\n";
  if (std::rename(beside.c_str(), at.file.c_str()) != 0) throw std::runtime_error("cannot write " + at.file);
}

c10::intrusive_ptr<c10d::Store> store_of(const Rendezvous& at) {
  const bool leads = at.rank == 0;
  c10d::TCPStoreOptions options;
  options.isServer = leads;
  options.waitWorkers = false;
  options.timeout = milliseconds_of(at.timeout_seconds);
  options.port = static_cast<std::uint16_t>(at.file.empty() ? at.port : (leads ? 0 : port_in(at)));
  auto store = c10::make_intrusive<c10d::TCPStore>(at.file.empty() ? at.address : "127.0.0.1", options);
  if (leads && !at.file.empty()) write_port(at, store->getPort());
  return store;
}

}  // namespace

Meeting::Meeting(const Rendezvous& rendezvous) : impl_(std::make_unique<Impl>()) {
  impl_->at = rendezvous;
  if (rendezvous.world == 1) return;
  impl_->store = store_of(rendezvous);
  impl_->transport = std::make_unique<Transport>(rendezvous.gpus ? TensorPlace::gpu : TensorPlace::processor, rendezvous.local);
  impl_->store->setTimeout(milliseconds_of(rendezvous.timeout_seconds));
}

Meeting::~Meeting() = default;

int Meeting::rank() const { return impl_->at.rank; }
int Meeting::world() const { return impl_->at.world; }
void Meeting::set_direct_bytes(std::int64_t bytes) { impl_->at.direct_bytes = bytes; }
std::int64_t Meeting::direct_bytes() const { return impl_->at.direct_bytes; }

Status Meeting::agree(const std::string& name, const std::string& text) {
  if (impl_->at.world == 1) return {};
  c10d::Store& store = *impl_->store;
  const auto key = [&](int rank) { return name + "/agrees/" + std::to_string(rank); };
  const auto text_of = [&](const std::string& of) {
    const std::vector<std::uint8_t> bytes = store.get(of);
    return std::string(bytes.begin(), bytes.end());
  };
  const std::string verdict = key(0);  // the rank that differs, its text and that of rank 0
  const auto said_by = [&](int rank) {
    try {
      return text_of(key(rank));
    } catch (const std::exception&) {
      throw std::runtime_error("rank " + std::to_string(rank) + " did not join within the time-out");
    }
  };
  if (impl_->at.rank == 0) {
    std::string differs = "=";
    for (int rank = 1; rank < impl_->at.world; ++rank)
      if (const std::string other = said_by(rank); other != text && differs == "=")
        differs = std::to_string(rank) + "\n" + other + "\n" + text;
    store.set(verdict, differs);
  } else {
    store.set(key(impl_->at.rank), text);
  }
  const std::string said = text_of(verdict);
  if (impl_->at.rank != 0) store.set(key(impl_->at.rank) + "/heard", "1");
  for (int rank = 1; impl_->at.rank == 0 && rank < impl_->at.world; ++rank)
    text_of(key(rank) + "/heard");  // rank 0 owns the store; wait until every rank has read the verdict
  if (said == "=") return {};
  const std::size_t first = said.find('\n'), second = said.find('\n', first + 1);
  return Error{ErrorKind::bad_input, "rank " + said.substr(0, first), said.substr(first + 1, second - first - 1),
               "the settings of rank 0: " + said.substr(second + 1), "one plan and the same flags for every rank"};
}

std::unique_ptr<Communicator> Meeting::group(const std::string& name, const std::vector<int>& members) {
  const auto here = std::find(members.begin(), members.end(), impl_->at.rank);
  if (here == members.end()) return nullptr;
  auto made = std::make_unique<Communicator::Impl>();
  made->rank = static_cast<int>(here - members.begin());
  made->size = static_cast<int>(members.size());
  made->direct_bytes = impl_->at.direct_bytes;
  if (made->size > 1) {
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, impl_->store);
    made->group = impl_->transport->group(*store, made->rank, made->size, milliseconds_of(impl_->at.timeout_seconds));
    made->native = impl_->transport->place() == TensorPlace::gpu;
  }
  return std::make_unique<Communicator>(std::move(made));
}

}  // namespace espalier::runtime
