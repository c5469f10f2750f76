/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The check that is put into the translated code. */

#ifndef ISOREC_INSTRUMENT_H
#define ISOREC_INSTRUMENT_H

#include "core.h"
#include "pub_tool_tooliface.h"

IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout, const VexGuestExtents* extents,
                 const VexArchInfo* host, IRType guest_word, IRType host_word);

#endif
