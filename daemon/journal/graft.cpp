// Offsets of the database header: https://www.sqlite.org/fileformat2.html, section 1.3.
#include "daemon/journal/graft.hpp"

#include <cstdint>
#include <unistd.h>

#include "common/os/files.hpp"
#include "daemon/journal/schema.hpp"

namespace stoker::daemon {
namespace {

constexpr std::size_t kLargest = std::size_t{4} << 30;
constexpr std::size_t kWriteVersion = 18, kReadVersion = 19;  // 1 rollback journal, 2 WAL
constexpr std::size_t kChangeCounter = 24, kPages = 28, kFirstFree = 32, kFreePages = 36;
constexpr std::size_t kValidFor = 92;

void put_big_endian(std::string& page, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i)
    page[at + i] = static_cast<char>((value >> (24 - 8 * i)) & 0xff);
}

// The first page of an empty journal.
Result<std::string> fresh_page(const std::string& path) {
  ::unlink(path.c_str());
  std::int64_t size = 0;
  {
    STOKER_TRY(db, Database::open(path, OpenMode::ReadWriteCreate));
    STOKER_TRY_STATUS(db.execute("PRAGMA journal_mode=DELETE"));
    STOKER_TRY_STATUS(migrate(db, journal_migrations(), path + ".before"));
    STOKER_TRY(page_size, db.integer("PRAGMA page_size"));
    size = page_size;
  }
  auto bytes = os::read_file(path, kLargest);
  ::unlink(path.c_str());
  if (!bytes) return fail(bytes.error());
  bytes->resize(static_cast<std::size_t>(size));
  return bytes;
}

}  // namespace

Status graft_first_page(const std::string& damaged, const std::string& copy) {
  STOKER_TRY(bytes, os::read_file(damaged, kLargest));
  STOKER_TRY(page, fresh_page(copy));
  if (bytes.size() < 2 * page.size()) return fail("nothing is left behind its first page", damaged);
  const auto pages = static_cast<std::uint32_t>(bytes.size() / page.size());
  put_big_endian(page, kChangeCounter, 1);
  put_big_endian(page, kValidFor, 1);  // equal to the counter: the number of pages is believed
  put_big_endian(page, kPages, pages);
  put_big_endian(page, kFirstFree, 0);
  put_big_endian(page, kFreePages, 0);
  const auto wal = os::read_file(damaged + "-wal", kLargest);
  if (wal && !wal->empty()) {
    page[kWriteVersion] = page[kReadVersion] = 2;
    STOKER_TRY_STATUS(os::replace_file(copy + "-wal", *wal, os::Durability::Cached));
  }
  bytes.replace(0, page.size(), page);
  return os::replace_file(copy, bytes, os::Durability::Cached);
}

}  // namespace stoker::daemon
