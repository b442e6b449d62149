// Reads the site's files each time they are asked for: they may have been corrected.
#include "daemon/logs/log_knowledge.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>

#include "common/os/files.hpp"
#include "diagnose/match/pattern_cache.hpp"

namespace stoker::daemon {
namespace {

std::atomic<bool> any_left = false;

}  // namespace

struct LogKnowledge::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::optional<Made>> made;  // by names and texts; empty: being compiled
  bool left = false;
};

LogKnowledge::Made LogKnowledge::make(const std::vector<diagnose::SiteFile>& files,
                                      const std::string& cache) {
  Made made;
  const diagnose::PatternCache folder(cache);
  configs::Diagnostics errors;
  auto knowledge = diagnose::load_knowledge(files, errors);
  for (const auto& error : errors) made.wrong.push_back(error.text());
  auto detector = diagnose::Detector::make(std::move(knowledge), &folder);
  if (detector) {
    made.detector = std::make_shared<const diagnose::Detector>(std::move(*detector));
    return made;
  }
  made.wrong.push_back(detector.error().message());
  if (!files.empty()) made.detector = make({}, cache).detector;
  return made;
}

LogKnowledge::LogKnowledge(bool at_once, std::string cache, Compile compile)
    : at_once_(at_once),
      cache_(std::move(cache)),
      compile_(std::move(compile)),
      shared_(std::make_shared<Shared>()) {}

LogKnowledge::~LogKnowledge() {
  for (auto& [key, thread] : threads_) {
    bool ready = true;
    {
      const std::scoped_lock lock(shared_->mutex);
      ready = !shared_->left || shared_->made[key];
    }
    if (!ready) any_left = true;
    ready ? thread.join() : thread.detach();
  }
}

std::shared_ptr<const diagnose::Detector> LogKnowledge::with(
    const std::vector<std::string>& signatures, std::vector<std::string>& wrong) {
  std::vector<diagnose::SiteFile> files;
  std::vector<std::string> unread;
  std::string key;
  for (const std::string& path : signatures) {
    auto text = os::read_file(path, 1u << 20);
    if (!text) {
      unread.push_back(text.error().message());
      continue;
    }
    key += path + '\n' + *text + '\0';
    files.push_back({path, std::move(*text)});
  }
  std::unique_lock lock(shared_->mutex);
  if (shared_->left) return nullptr;
  const auto [found, fresh] = shared_->made.try_emplace(key);
  const auto& made = found->second;
  if (fresh)
    threads_[key] = std::thread(
        [shared = shared_, key, files = std::move(files), cache = cache_, compile = compile_] {
          Made done = compile(files, cache);
          const std::scoped_lock locked(shared->mutex);
          shared->made[key] = std::move(done);
          shared->changed.notify_all();
        });
  if (at_once_) shared_->changed.wait(lock, [&] { return made || shared_->left; });
  if (!made) return nullptr;
  wrong = std::move(unread);
  wrong.insert(wrong.end(), made->wrong.begin(), made->wrong.end());
  return made->detector;
}

void LogKnowledge::leave() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->left = true;
  shared_->changed.notify_all();
}

bool LogKnowledge::left_behind() {
  return any_left;
}

}  // namespace stoker::daemon
