/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Following execve. */

#ifndef ISOREC_EXEC_H
#define ISOREC_EXEC_H

#include "thread.h"

/* The program calls execve: announces the new program, and makes the core follow it or not. */
void exec_follow(Thread* thread, const HChar* path, HChar* const* arguments);

/* The call failed: the next one will be followed again. */
void exec_failed(Thread* thread);

/* Warns the user that a program is not recorded from here on. */
void exec_not_followed(Thread* thread, const HChar* what);

/* Restores the program's argv[0], which the core replaces with its path. Call before its first instruction. */
void exec_set_own_name(Addr stack_pointer);

#endif
