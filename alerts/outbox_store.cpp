// The files of the outbox.
#include "alerts/outbox_store.hpp"

#include <algorithm>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"

namespace stoker::alerts {

namespace {
constexpr Duration kRemembered = std::chrono::hours(24 * 7);
constexpr std::size_t kLargestEntry = 1u << 20;
constexpr std::string_view kEnd = ".json";
constexpr const char* kSentFile = "/told.json";
}  // namespace

std::string OutboxStore::path_of(const EffectKey& key) const {
  return directory_ + "/" + hex64(xxh3_64(key.text)) + std::string(kEnd);
}

Result<std::vector<OutboxEntry>> OutboxStore::load(WallTime now, std::vector<std::string>& damage) {
  STOKER_TRY_STATUS(os::make_directories(directory_, 0700));
  STOKER_TRY(names, os::list_directory(directory_));
  std::vector<OutboxEntry> entries;
  for (const auto& name : names) {
    if (name.size() != 16 + kEnd.size() || !name.ends_with(kEnd)) continue;
    const std::string path = directory_ + "/" + name;
    const auto text = os::read_file(path, kLargestEntry, true);
    auto entry =
        text ? from_json_text<OutboxEntry>(*text, path) : Result<OutboxEntry>(fail(text.error()));
    if (!entry || path_of(entry->alert.key) != path) {
      damage.push_back(entry ? path + ": holds another key" : entry.error().message());
      ::rename(path.c_str(), (path + ".damaged").c_str());
      continue;
    }
    if (entry->deliveries.empty() && now - entry->alert.at > kRemembered) {
      ::unlink(path.c_str());
      continue;
    }
    entries.push_back(std::move(*entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return entries;
}

Status OutboxStore::put(const OutboxEntry& entry, bool synced) {
  return os::replace_file(path_of(entry.alert.key), to_json_text(entry),
                          synced ? os::Durability::Synced : os::Durability::Cached, 0600);
}

Sent OutboxStore::load_sent(std::vector<std::string>& damage) {
  const std::string path = directory_ + kSentFile;
  if (!os::exists(path)) return {};
  const auto text = os::read_file(path);
  auto sent = text ? from_json_text<Sent>(*text, path) : Result<Sent>(fail(text.error()));
  if (sent) return std::move(*sent);
  damage.push_back(sent.error().message());
  return {};
}

Status OutboxStore::put_sent(const Sent& sent) {
  return os::replace_file(directory_ + kSentFile, to_json_text(sent), os::Durability::Cached, 0600);
}

}  // namespace stoker::alerts
