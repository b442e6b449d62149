#include "worker/train/checkpoint/shard_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/fd.hpp"
#include "worker/train/checkpoint/direct_writer.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kPiece = 8u << 20;    // read at a time
constexpr std::size_t kWindow = 64u << 10;  // for stretches that are shorter
constexpr std::array kParts{StatePart::Parameter, StatePart::Moment1, StatePart::Moment2};

const char* dtype_name(Element element) {
  return element == Element::F64 ? "f64" : "f32";
}

std::string header_of(const ShardId& id) {
  std::string header(kShardHeader, '\0');
  const auto put = [&](std::size_t at, auto value) {
    std::memcpy(&header[at], &value, sizeof value);
  };
  std::memcpy(header.data(), "STOKERSH", 8);
  put(8, std::uint32_t{1});
  put(12, id.generation.value);
  put(16, id.iteration.value);
  put(24, id.shard);
  put(28, id.shards);
  return header;
}

const char* bytes_at(const FlatState& state, StatePart part, std::size_t element) {
  return static_cast<const char*>(state.part(part).data) + element * size_of(state.element());
}

Status write_content(DirectWriter& out, const FlatState& state, FlatRange range,
                     const ShardId& id) {
  const std::string header = header_of(id);
  STOKER_TRY_STATUS(out.write(header.data(), header.size()));
  const auto pieces = counting_pieces_of(state.table(), range);
  for (const StatePart part : kParts)
    for (const Piece& piece : pieces)
      STOKER_TRY_STATUS(out.write(bytes_at(state, part, piece.parameter->offset + piece.first),
                                  piece.count * size_of(state.element())));
  return ok();
}

// One file, read where it is asked for. Short stretches come from a window that is read at once.
class Reader {
 public:
  Reader(os::Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Status read(std::uint64_t at, std::size_t size, char* to) {
    if (size >= kWindow) return exactly(at, size, to);
    if (at < window_at_ || at + size > window_at_ + window_.size()) {
      struct stat info {};
      if (::fstat(fd_.get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path_));
      const auto end = static_cast<std::uint64_t>(info.st_size);
      if (at + size > end) return fail("ends too early", path_);
      window_.resize(std::min<std::uint64_t>(kWindow, end - at));
      window_at_ = at;
      STOKER_TRY_STATUS(exactly(at, window_.size(), window_.data()));
    }
    std::memcpy(to, window_.data() + (at - window_at_), size);
    return ok();
  }

 private:
  Status exactly(std::uint64_t at, std::size_t size, char* to) const {
    while (size > 0) {
      const ssize_t n = ::pread(fd_.get(), to, std::min(size, kPiece), static_cast<off_t>(at));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fail(errno_error(errno, "cannot read", path_));
      if (n == 0) return fail("ends too early", path_);
      to += n;
      at += static_cast<std::uint64_t>(n);
      size -= static_cast<std::size_t>(n);
    }
    return ok();
  }

  os::Fd fd_;
  std::string path_;
  std::vector<char> window_;
  std::uint64_t window_at_ = 0;
};

const StatePart* part_named(const std::string& name) {
  for (const StatePart& part : kParts)
    if (name == part_name(part)) return &part;
  return nullptr;
}

Status read_into(FlatState& state, Reader& in, std::uint64_t at, std::size_t size, char* to) {
  if (state.device().is_host()) return in.read(at, size, to);
  std::vector<char> piece(std::min(size, kPiece));
  for (std::size_t done = 0; done < size; done += piece.size()) {
    const std::size_t bytes = std::min(piece.size(), size - done);
    STOKER_TRY_STATUS(in.read(at + done, bytes, piece.data()));
    state.device().upload(to + done, piece.data(), bytes);
  }
  return state.device().status();
}

// What the state owns of it.
Status read_range(Reader& in, const wire::ManifestRange& range, FlatState& state) {
  const StatePart* part = part_named(range.part);
  const std::size_t each = size_of(state.element());
  Status done = ok();
  for (const Parameter& p : state.table().parameters) {
    if (p.name != range.tensor || part == nullptr || p.count == 0) continue;
    const wire::TensorBox box = range.box.value_or(wire::whole_box(p.shape));
    wire::for_each_run(p.shape, box, p.box, [&](const wire::Run& run) {
      const FlatRange owned = state.owned();
      const std::size_t flat = p.offset + run.in_b;  // where the run begins here
      const auto within = [&](std::size_t end) {
        return run.in_a + std::min(run.count, std::uint64_t{end - std::min(end, flat)});
      };
      const std::uint64_t from = std::max(within(owned.begin), range.begin);
      const std::uint64_t to = std::min(within(owned.end), range.begin + range.count);
      if (from >= to || !done) return;
      done = read_into(
          state, in, range.file_offset + (from - range.begin) * each, (to - from) * each,
          const_cast<char*>(bytes_at(state, *part, p.offset + run.in_b + (from - run.in_a))));
    });
  }
  return done;
}

}  // namespace

std::string shard_name(const ShardId& id) {
  return fmt::format("shard-{:05}-of-{:05}.bin", id.shard, id.shards);
}

std::vector<wire::ManifestRange> shard_ranges(const ParameterTable& table, FlatRange range,
                                              Element element, const ShardId& id) {
  std::vector<wire::ManifestRange> ranges;
  std::uint64_t at = kShardHeader;
  const auto pieces = counting_pieces_of(table, range);
  for (const StatePart part : kParts)
    for (const Piece& piece : pieces) {
      const Parameter& p = *piece.parameter;
      ranges.push_back({p.name,
                        std::string(part_name(part)),
                        dtype_name(element),
                        piece.first,
                        piece.count,
                        shard_name(id),
                        at,
                        {}});
      if (p.box != wire::whole_box(p.shape)) ranges.back().box = p.box;
      at += piece.count * size_of(element);
    }
  return ranges;
}

Result<wire::ManifestFile> write_shard(const std::string& directory, const FlatState& state,
                                       FlatRange range, const ShardId& id) {
  const std::string name = shard_name(id), aside = name + ".tmp";
  STOKER_TRY(folder, os::OwnFolder::open(directory));
  STOKER_TRY(out, DirectWriter::create(folder, aside, 3 * range.size() * size_of(state.element())));
  STOKER_TRY_STATUS(write_content(*out, state, range, id));
  STOKER_TRY_STATUS(out->finish());
  if (!folder.rename(aside, name))
    return fail(write_error("cannot rename into place", directory + "/" + name));
  return wire::ManifestFile{name, out->written(), hex64(out->digest())};
}

CopiedShard copied_shard(const FlatState& state, FlatRange range) {
  CopiedShard shard{kShardHeader, dtype_name(state.element())};
  for (const Piece& piece : pieces_of(state.table(), range)) {
    const Parameter& p = *piece.parameter;
    shard.bytes += kParts.size() * piece.count * size_of(state.element());
    shard.layout +=
        fmt::format(";{} {} {} {}", p.name, piece.first, piece.count, to_json_text(p.box));
  }
  shard.layout = hex64(xxh3_64(shard.layout));
  return shard;
}

void copy_shard(char* to, const FlatState& state, FlatRange range, const ShardId& id) {
  const std::string header = header_of(id);
  std::memcpy(to, header.data(), header.size());
  to += header.size();
  const auto pieces = pieces_of(state.table(), range);
  for (const StatePart part : kParts)
    for (const Piece& piece : pieces) {
      const std::size_t bytes = piece.count * size_of(state.element());
      state.device().download_beside(
          to, bytes_at(state, part, piece.parameter->offset + piece.first), bytes);
      to += bytes;
    }
}

Status load_shard(const char* from, FlatState& state, FlatRange range) {
  from += kShardHeader;
  const auto pieces = pieces_of(state.table(), range);
  for (const StatePart part : kParts)
    for (const Piece& piece : pieces) {
      const std::size_t bytes = piece.count * size_of(state.element());
      state.device().upload(
          const_cast<char*>(bytes_at(state, part, piece.parameter->offset + piece.first)), from,
          bytes);
      from += bytes;
    }
  return state.device().status();
}

Status read_shard(const std::string& directory, const wire::ManifestFile& file,
                  const std::vector<wire::ManifestRange>& ranges, FlatState& state) {
  const std::string path = directory + "/" + file.name;
  os::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return fail(errno_error(errno, "cannot open", path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return fail(errno_error(errno, "cannot stat", path));
  if (static_cast<std::uint64_t>(info.st_size) != file.size)
    return fail(fmt::format("{} bytes instead of {}", info.st_size, file.size), path);
  std::uint64_t at = kShardHeader;
  for (const auto& range : ranges) {
    const std::size_t each = size_of(state.element());
    if (range.dtype != dtype_name(state.element()) || range.file_offset != at || at > file.size ||
        range.count > (file.size - at) / each)
      return fail(fmt::format("the range of {} {} does not fit the model or the file", range.tensor,
                              range.part),
                  path);
    at += range.count * each;
  }
  if (at != file.size) return fail("has bytes that no range describes", path);
  Reader in(std::move(fd), path);
  for (const auto& range : ranges) STOKER_TRY_STATUS(read_range(in, range, state));
  return ok();
}

}  // namespace stoker::train
