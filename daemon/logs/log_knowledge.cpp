// Reads the site's files each time they are asked for: they may have been corrected.
#include <chrono>

#include "common/os/files.hpp"
#include "daemon/logs/log_watch.hpp"
#include "diagnose/pattern_cache.hpp"

namespace stoker::daemon {

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
  auto& made = made_[key];
  if (!made.valid())
    made = std::async(std::launch::async,
                      [files = std::move(files), cache = cache_] { return make(files, cache); });
  if (!at_once_ && made.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return nullptr;
  wrong = std::move(unread);
  wrong.insert(wrong.end(), made.get().wrong.begin(), made.get().wrong.end());
  return made.get().detector;
}

}  // namespace stoker::daemon
