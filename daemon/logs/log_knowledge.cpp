// Reads the site's files each time they are asked for: they may have been mended.
#include "common/os/files.hpp"
#include "daemon/logs/log_watch.hpp"

namespace stoker::daemon {

std::shared_ptr<const diagnose::Detector> LogKnowledge::with(
    const std::vector<std::string>& signatures, std::vector<std::string>& wrong) {
  std::vector<diagnose::SiteFile> files;
  std::string key;
  for (const std::string& path : signatures) {
    auto text = os::read_file(path, 1u << 20);
    if (!text) {
      wrong.push_back(text.error().message());
      continue;
    }
    key += path + '\n' + *text + '\0';
    files.push_back({path, std::move(*text)});
  }
  auto& made = made_[key];
  configs::Diagnostics errors;
  if (made && files.empty()) return made;
  auto knowledge = diagnose::load_knowledge(files, errors);
  for (const auto& error : errors) wrong.push_back(error.text());
  if (made) return made;
  auto detector = diagnose::Detector::make(std::move(knowledge));
  if (!detector) {
    wrong.push_back(detector.error().message());
    return files.empty() ? nullptr : with({}, wrong);
  }
  return made = std::make_shared<const diagnose::Detector>(std::move(*detector));
}

}  // namespace stoker::daemon
