// SPDX-License-Identifier: Apache-2.0
#include "runtime/communicator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>

#include <torch/version.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace espalier::runtime {
namespace {

/// Up to this many bytes in all, latency is what a collective costs.
constexpr std::int64_t kDirectBytes = 1 << 18;

using Gloo = c10d::ProcessGroupGloo;

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace

// ---- messages ----------------------------------------------------------------------------------------------------------------

class Message::Impl {
 public:
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<at::Tensor> tensors;  // kept alive
};

Message::Message() = default;
Message::Message(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

void Message::wait() {
  if (impl_ == nullptr) return;
  impl_->work->wait();
  impl_.reset();
}

// ---- groups ------------------------------------------------------------------------------------------------------------------

class Communicator::Impl {
 public:
  int rank = 0, size = 1;
  c10::intrusive_ptr<Gloo> gloo;  // null: this rank alone
};

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::~Communicator() = default;

int Communicator::size() const { return impl_->size; }
int Communicator::rank() const { return impl_->rank; }

namespace {

void reduce(Gloo& gloo, at::Tensor tensor, c10d::ReduceOp::RedOpType op) {
  std::vector<at::Tensor> tensors{std::move(tensor)};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  gloo.allreduce(tensors, options)->wait();
}

/// Row by row, so that every member gets the same bits.
at::Tensor sum_of(const at::Tensor& rows) {
  at::Tensor sum = rows.select(0, 0).clone();
  for (std::int64_t r = 1; r < rows.size(0); ++r) sum.add_(rows.select(0, r));
  return sum;
}

// Methods that were renamed between versions of c10d.
void gather_into(Gloo& gloo, at::Tensor& whole, at::Tensor& part) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 15)
  gloo.all_gather_single(whole, part)->wait();
#else
  gloo._allgather_base(whole, part)->wait();
#endif
}

void exchange(Gloo& gloo, at::Tensor& out, at::Tensor& in) {
  std::vector<int64_t> equal;
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 15)
  gloo.all_to_all_single(out, in, equal, equal)->wait();
#else
  gloo.alltoall_base(out, in, equal, equal)->wait();
#endif
}

}  // namespace

/// What every member has, by rank: one message to each, none waits for another.
at::Tensor Communicator::from_everyone(const at::Tensor& part) {
  const at::Tensor copies = part.reshape({1, -1}).expand({impl_->size, part.numel()}).contiguous();
  at::Tensor rows = at::empty_like(copies);
  all_to_all(rows, copies);
  return rows;
}

bool Communicator::is_small(const at::Tensor& part) const {
  return static_cast<std::int64_t>(part.nbytes()) * impl_->size <= kDirectBytes;
}

void Communicator::all_reduce(at::Tensor tensor) {
  if (impl_->size == 1) return;
  if (!is_small(tensor)) return reduce(*impl_->gloo, std::move(tensor), c10d::ReduceOp::SUM);
  tensor.view({-1}).copy_(sum_of(from_everyone(tensor)));
}

void Communicator::all_reduce_maximum(at::Tensor tensor) {
  if (impl_->size == 1) return;
  if (!is_small(tensor)) return reduce(*impl_->gloo, std::move(tensor), c10d::ReduceOp::MAX);
  tensor.view({-1}).copy_(from_everyone(tensor).amax(0));
}

void Communicator::all_gather(at::Tensor whole, const at::Tensor& part) {
  at::Tensor flat = whole.view({-1}), in = part.reshape({-1});
  if (impl_->size == 1) {
    flat.copy_(in);
  } else if (is_small(in)) {
    flat.copy_(from_everyone(in).view({-1}));
  } else {
    gather_into(*impl_->gloo, flat, in);
  }
}

void Communicator::all_to_all(at::Tensor out, const at::Tensor& in) {
  if (impl_->size == 1) {
    out.view({-1}).copy_(in.reshape({-1}));
    return;
  }
  at::Tensor into = out.view({-1}), from = in.reshape({-1});
  exchange(*impl_->gloo, into, from);
}

void Communicator::reduce_scatter(at::Tensor part, const at::Tensor& whole) {
  if (impl_->size == 1) {
    part.view({-1}).copy_(whole.reshape({-1}));
    return;
  }
  at::Tensor received = at::empty_like(whole);
  all_to_all(received, whole);
  part.view({-1}).copy_(sum_of(received.view({impl_->size, -1})));
}

void Communicator::barrier() {
  if (impl_->size > 1) impl_->gloo->barrier()->wait();
}

Message Communicator::send(const at::Tensor& tensor, int to, int tag) {
  auto message = std::make_shared<Message::Impl>();
  message->tensors = {tensor};
  message->work = impl_->gloo->send(message->tensors, to, tag);
  return Message(std::move(message));
}

Message Communicator::receive(at::Tensor tensor, int from, int tag) {
  auto message = std::make_shared<Message::Impl>();
  message->tensors = {std::move(tensor)};
  message->work = impl_->gloo->recv(message->tensors, from, tag);
  return Message(std::move(message));
}

// ---- the meeting -------------------------------------------------------------------------------------------------------------

class Meeting::Impl {
 public:
  Rendezvous at;
  c10::intrusive_ptr<c10d::Store> store;
  std::shared_ptr<::gloo::transport::Device> device;  // one for all groups: it has a thread
};

namespace {

/// What rank 0 wrote into the file, once it is there.
int port_in(const Rendezvous& at) {
  const auto end = std::chrono::steady_clock::now() + milliseconds_of(at.timeout_seconds);
  int port = 0;
  while (!(std::ifstream(at.file) >> port) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  if (port == 0) throw std::runtime_error("rank 0 did not write its port into " + at.file);
  return port;
}

/// The file appears whole.
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
  impl_->device = rendezvous.local ? Gloo::createDeviceForHostname("127.0.0.1") : Gloo::createDefaultDevice();
  impl_->store->setTimeout(milliseconds_of(rendezvous.timeout_seconds));
}

Meeting::~Meeting() = default;

int Meeting::rank() const { return impl_->at.rank; }
int Meeting::world() const { return impl_->at.world; }

std::unique_ptr<Communicator> Meeting::group(const std::string& name, const std::vector<int>& members) {
  const auto here = std::find(members.begin(), members.end(), impl_->at.rank);
  if (here == members.end()) return nullptr;
  auto made = std::make_unique<Communicator::Impl>();
  made->rank = static_cast<int>(here - members.begin());
  made->size = static_cast<int>(members.size());
  if (made->size > 1) {
    auto options = Gloo::Options::create(milliseconds_of(impl_->at.timeout_seconds));
    options->threads = 1;  // collectives of a group follow each other
    options->devices.push_back(impl_->device);
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, impl_->store);
    made->gloo = c10::make_intrusive<Gloo>(store, made->rank, made->size, options);
  }
  return std::make_unique<Communicator>(std::move(made));
}

}  // namespace espalier::runtime
