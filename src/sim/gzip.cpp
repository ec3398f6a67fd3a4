// SPDX-License-Identifier: Apache-2.0
// Writes a gzip container (RFC 1952) with modification time 0, no name and operating system "unknown". Equal text
// gives equal bytes.
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/invariant.h"
#include "sim/trace.h"

namespace espalier::sim {

std::string gzip(const std::string& text, int level) {
  z_stream stream{};
  ESPALIER_CHECK(deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  gz_header header{};
  header.os = 255;
  ESPALIER_CHECK(deflateSetHeader(&stream, &header) == Z_OK);
  std::string out;
  std::string buffer(1u << 16, '\0');
  std::size_t consumed = 0;
  int status = Z_OK;
  while (status != Z_STREAM_END) {
    if (stream.avail_in == 0 && consumed < text.size()) {
      const std::size_t part = std::min<std::size_t>(text.size() - consumed, 1u << 30);
      stream.next_in =
          // zlib's input is not const, but unchanged
          reinterpret_cast<Bytef*>(const_cast<char*>(text.data() + consumed));
      stream.avail_in = static_cast<uInt>(part);
      consumed += part;
    }
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    status = deflate(&stream, consumed == text.size() ? Z_FINISH : Z_NO_FLUSH);
    ESPALIER_CHECK(status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR);
    out.append(buffer.data(), buffer.size() - stream.avail_out);
  }
  deflateEnd(&stream);
  return out;
}

}  // namespace espalier::sim
