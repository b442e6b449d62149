// The actions of the machine in lead/, performed by the lead agent.
#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>

#include "common/os/fd.hpp"
#include "common/printable.hpp"
#include "watch/finish_file.hpp"
#include "worker/agent/aside.hpp"
#include "worker/agent/lead.hpp"
#include "worker/agent/rank/stacks.hpp"
#include "worker/agent/storage/checkpoint_choice.hpp"
#include "worker/agent/storage/ending.hpp"

namespace stoker::agent {
namespace {

constexpr Duration kRoomForTheMark = 60s;  // on a full disk

Status write_patiently(const std::string& run_directory, const wire::EndMark& mark) {
  for (const Instant end = monotonic_now() + kRoomForTheMark;;) {
    const Status written = write_end(run_directory, mark);
    if (written || monotonic_now() >= end) return written;
    std::this_thread::sleep_for(1s);
  }
}

lead::EndWritten write_mark(const std::string& run_directory, wire::EndMark mark) {
  Refused refused;  // the start has reported it
  if (const auto newest = newest_orders(run_directory, refused); newest && *newest)
    mark.order = std::max(mark.order, (*newest)->number);
  const Status written = write_patiently(run_directory, mark);
  return {std::move(mark), written ? "" : written.error().message()};
}

}  // namespace

void Lead::ask(std::function<lead::EventBody()> work) {
  run_aside([this, alive = alive_, &loop = loop_, work = std::move(work)] {
    loop.post([this, alive, answer = work()] {
      if (*alive) feed(answer);
    });
  });
}

void Lead::perform(lead::Report& action) {
  events_.write(std::move(action.body));
}

void Lead::perform(lead::Send& action) {
  if (action.node == context_.node) {
    if (node_) node_->perform(action.command);
  } else if (const auto found = links_.find(action.node); found != links_.end()) {
    found->second->send_message(action.command);
  }
}

void Lead::perform(lead::StartAttempt& action) {
  clear_kill_switch(kill_switch_of(context_, orders()));
  action.order.master_address = context_.address_of(action.nodes.front());
  for (const NodeName& node : action.nodes) {
    lead::Send send{node, action.order};
    perform(send);
    ++action.order.group_rank;
  }
}

void Lead::perform(const lead::ChooseCheckpoint&) {
  ask([lineage = start().lineage, verify = orders().verify_checkpoints,
       directory = state_.setup.checkpoints] {
    return lead::CheckpointChosen{choose_checkpoint(directory, lineage, verify)};
  });
}

void Lead::perform(const lead::LookForEnd&) {
  std::string file = orders().finished.file;
  if (!file.empty() && file.front() != '/') file = context_.run_directory + "/" + file;
  run_aside([this, alive = alive_, &loop = loop_, file,
             kill_switch = kill_switch_of(context_, orders())] {
    lead::EndLooked looked;
    looked.kill_switch = kill_switch_set(kill_switch);
    const auto there = file.empty() ? Result<bool>(false) : watch::is_finish_file(file);
    looked.finish_file = there.value_or(false);
    loop.post([this, alive, looked, refused = there ? "" : there.error().message()] {
      if (!*alive) return;
      if (!refused.empty() && refused != finish_refused_)
        notice("no end of the training: " + refused);
      finish_refused_ = refused;
      feed(looked);
    });
  });
}

void Lead::perform(const lead::WriteEndMark& action) {
  ask([mark = action.mark, directory = context_.run_directory] {
    return write_mark(directory, mark);
  });
}

void Lead::perform(const lead::SetKillSwitch&) {
  run_aside([path = kill_switch_of(context_, orders())] { set_kill_switch(path); });
}

// The stacks are read again to group them.
void Lead::perform(const lead::GroupStacks& action) {
  ask([action, node = context_.node, run = context_.run_directory] {
    wire::StacksWritten written = group_written(run + "/" + action.directory);
    written.directory = action.directory;
    written.ranks = action.ranks;
    return lead::NodeSaid{node, NodeEvent{std::move(written)}};
  });
}

void Lead::perform(const lead::TendCheckpoints&) {
  archiver_->look();
  pruner_->saved();
}

void Lead::perform(const lead::KillAll&) {
  if (node_) node_->kill_all();
}

void Lead::perform(lead::Quit& action) {
  exit_code_ = action.goodbye.exit_code;
  tell_stderr("stoker-agent: " + action.goodbye.why);
  logs_.flush(5s);
  events_.write(std::move(action.goodbye));
  events_.flush(5s);
  loop_.stop();
}

}  // namespace stoker::agent
