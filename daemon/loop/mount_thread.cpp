// One shift at a time; what belongs to the mount for longer is kept here.
#include "daemon/loop/mount_thread.hpp"

#include <utility>

namespace stoker::daemon {
namespace {

constexpr std::size_t kMostLeft = 64;  // threads of a mount that do not come back

}  // namespace

MountThread::MountThread(core::Clock& clock, Post post, Knowledge knowledge)
    : clock_(clock),
      post_(std::move(post)),
      knowledge_(std::move(knowledge)),
      shift_(std::make_shared<MountShift>(clock_, post_, knowledge_(), passed_over_)) {
  shift_->begin();
}

MountThread::~MountThread() {
  stop();
}

void MountThread::stop() {
  if (shift_) shift_->stop();
}

void MountThread::post(std::function<void()> job, const RunPart& part) {
  shift_->post({[job = std::move(job)](MountShift&) { job(); }, part});
}

void MountThread::watch(const core::RunPolicy& policy, Cursors cursors) {
  shift_->post(
      {[policy, cursors = std::move(cursors)](MountShift& shift) { shift.watch(policy, *cursors); },
       {policy.run, watch::Part::Own}});
}

void MountThread::set_generation(const RunName& run, Generation live) {
  generations_[run] = live;
  shift_->post({[run, live](MountShift& shift) { shift.set_generation(run, live); }, {}});
}

void MountThread::set_follows(const RunName& run, std::vector<watch::Follow> follows) {
  follows_[run] = follows;
  shift_->post(
      {[run, follows = std::move(follows)](MountShift& shift) { shift.set_follows(run, follows); },
       {}});
}

void MountThread::forget(const RunName& run, std::function<void()> done) {
  // A log may be closed here, in a file system that does not answer.
  shift_->post({[run](MountShift& shift) { shift.forget(run); }, {run, watch::Part::Own}});
  post(std::move(done));
}

void MountThread::flush(std::function<void(std::vector<core::Input>)> done) {
  shift_->post({[done = std::move(done)](MountShift& shift) {
                  auto inputs = shift.flush();
                  if (!shift.abandoned()) done(std::move(inputs));
                },
                {}});
}

std::optional<MountThread::PassedBy> MountThread::relieve(const Patience& patience) {
  if (passed_over_->size() >= kMostLeft) return std::nullopt;
  auto left =
      shift_->abandon([&](const RunPart& part, Duration since) { return since >= patience(part); });
  if (!left) return std::nullopt;
  shift_ = std::make_shared<MountShift>(clock_, post_, knowledge_(), passed_over_);
  shift_->begin();
  for (const auto& [run, generation] : generations_) set_generation(run, generation);
  for (const auto& [run, follows] : follows_) set_follows(run, follows);
  for (MountShift::Job& job : left->jobs) shift_->post(std::move(job));
  return PassedBy{left->part, left->since};
}

Duration MountThread::busy_for() const {
  const auto busy = at();
  return busy ? busy->second : Duration::zero();
}

std::optional<watch::LiveBeat> MountThread::live(const RunName& run) const {
  return shift_->live(run);
}

}  // namespace stoker::daemon
