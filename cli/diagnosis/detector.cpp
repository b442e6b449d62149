// A file with mistakes is not used at all.
#include "cli/diagnosis/detector.hpp"

#include "common/os/files.hpp"

namespace stoker::cli {

namespace {

std::string environment_value(const Context& context, const char* name, bool& set) {
  const auto found = context.environment.find(name);
  set = found != context.environment.end();
  return set ? found->second : std::string();
}

}  // namespace

Result<diagnose::Detector> make_detector(const Context& context,
                                         const std::vector<std::string>& signatures) {
  std::vector<diagnose::SiteFile> files;
  for (const auto& path : signatures) {
    auto text = os::read_file(path, 1u << 20);
    if (!text) {
      context.console.say(text.error().message());
      return fail("signature files that cannot be read");
    }
    files.push_back({path, std::move(*text)});
  }
  configs::Diagnostics errors;
  auto knowledge = diagnose::load_knowledge(files, errors);
  for (const auto& error : errors) context.console.say(printable(error.text()));
  if (!errors.empty()) return fail("signature files with mistakes are not used");
  bool has_cache = false, has_home = false;
  const std::string cache = environment_value(context, "XDG_CACHE_HOME", has_cache);
  const std::string home = environment_value(context, "HOME", has_home);
  const diagnose::PatternCache folder(diagnose::PatternCache::usual_folder(
      has_cache ? cache.c_str() : nullptr, has_home ? home.c_str() : nullptr));
  return diagnose::Detector::make(std::move(knowledge), &folder);
}

}  // namespace stoker::cli
