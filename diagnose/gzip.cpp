// zlib's inflate, member by member.
#include "diagnose/gzip.hpp"

#include <utility>

#define ZLIB_CONST  // next_in points to const
#include <zlib.h>

#include "common/check.hpp"

namespace stoker::diagnose {

namespace {
constexpr int kGzipOnly = 16 + MAX_WBITS;
constexpr Bytef kMagic = 0x1f;
}  // namespace

GzipReader::GzipReader(Source source)
    : source_(std::move(source)), stream_(std::make_unique<z_stream>()) {
  STOKER_CHECK(inflateInit2(stream_.get(), kGzipOnly) == Z_OK, "inflateInit2");
}

GzipReader::~GzipReader() {
  inflateEnd(stream_.get());
}

bool GzipReader::refill() {
  const std::string_view more = source_();
  stream_->next_in = reinterpret_cast<z_const Bytef*>(more.data());
  stream_->avail_in = static_cast<uInt>(more.size());
  return !more.empty();
}

std::size_t GzipReader::read(std::span<char> room) {
  z_stream& z = *stream_;
  z.next_out = reinterpret_cast<Bytef*>(room.data());
  z.avail_out = static_cast<uInt>(room.size());
  while (z.avail_out > 0 && end_ == End::NotYet) {
    if (z.avail_in == 0 && !refill()) {
      end_ = between_ ? End::Clean : End::Truncated;
    } else if (between_ && *z.next_in != kMagic) {
      end_ = End::Clean;  // padding of a tape or a block device
    } else {
      if (std::exchange(between_, false)) inflateReset(&z);
      const int done = inflate(&z, Z_NO_FLUSH);
      between_ = done == Z_STREAM_END;
      if (done != Z_OK && done != Z_STREAM_END && done != Z_BUF_ERROR) end_ = End::Damaged;
    }
  }
  return room.size() - z.avail_out;
}

}  // namespace stoker::diagnose
