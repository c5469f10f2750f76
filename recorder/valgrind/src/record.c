/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Records as bytes: a tag, then fields as LEB128 varints, a name as its length and its bytes. */

#include "record.h"

static UInt put_varint(ULong value, UChar* out)
{
   UInt length = 0;
   while (value >= 0x80) {
      out[length++] = (UChar)(value | 0x80);
      value >>= 7;
   }
   out[length++] = (UChar)value;
   return length;
}

UInt record_encode(const Record* record, UChar* out)
{
   UInt length = 0;
   out[length++] = (UChar)record->tag;
   for (UInt i = 0; i < record->nr_fields; i++) {
      length += put_varint(record->fields[i], out + length);
   }
   if (record->name != NULL) {
      SizeT bytes = VG_(strnlen)(record->name, NAME_BYTES);
      length += put_varint(bytes, out + length);
      VG_(memcpy)(out + length, record->name, bytes);
      length += (UInt)bytes;
   }
   return length;
}
