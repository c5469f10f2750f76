/* SPDX-License-Identifier: GPL-2.0-or-later */

/* Following execve. */

#ifndef ISOREC_EXEC_H
#define ISOREC_EXEC_H

#include "thread.h"

/* The program calls execve: says whom it becomes, and sees to it that the core follows or lets go. */
void exec_follow(Thread* thread, const HChar* path, HChar* const* arguments);

/* The call failed: the next one is followed again. */
void exec_failed(void);

/* Tells the user that a program runs unseen from here on. */
void exec_not_followed(Thread* thread, const HChar* what);

/* Gives the program the name that its starter meant, which the core replaces by its path. Before its first instruction. */
void exec_set_own_name(Addr stack_pointer);

#endif
