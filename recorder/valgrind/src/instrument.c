/* SPDX-License-Identifier: GPL-2.0-or-later */

/* The check that is put into the translated code.

   A superblock is cut into segments: at its side exits, before guarded or large accesses, and where a segment would outgrow
   its limits. At a segment's end there is one block of straight-line code and one guarded call, in pseudo-code:

      counter = counter - step;  news = counter >> 63        not 0 only when the epoch or the turn is over
      for each page known now (code, constant addresses):
         news |= front[slot of page] ^ page
      for each group (accesses whose addresses differ by constants, within GROUP_SPAN bytes):
         news |= front[slot of lowest byte] ^ highest byte   the low 12 bits are noise; a straddle differs in the page
      if (4095 < news) call slow(segment, lowest bytes)

   `slow` ends the epoch first and then checks each access separately. A group with a store in it uses the front of written
   pages. A fault within a segment loses the record of the accesses before it in the segment; the faulting instruction runs
   again after the handler and is recorded then. */

#include "instrument.h"
#include "thread.h"
#include "pub_tool_machine.h"

/* Limits of a segment. Five lowest bytes and the segment are the six arguments that a call passes in registers. */
#define GROUPS 5
#define PAGES 12
#define ACCESSES 48
/* Measured: 128 is a little better than 64, 256 and 512. */
#define GROUP_SPAN 128
#define SIGN_SHIFT 63
#define SLOT_SHIFT (PAGE_BITS - 3) /* from an address to its front slot, in bytes */
#define SLOT_MASK ((FRONT_SLOTS - 1) << 3)

/* An access of a group, for `slow`. */
typedef struct {
   UShort offset; /* from the group's lowest byte */
   UShort bytes;
   UChar group;
   UChar write;
} Access;

/* Data on a segment for `slow`. Lives as long as the process: translations are seldom discarded. */
typedef struct {
   UShort nr_pages;
   UShort nr_accesses;
   ULong* pages;      /* page << 1 | written */
   const UInt* works; /* for --count-mix: by kind */
   Access accesses[];
} Segment;

/* Accesses whose addresses differ by constants: all are `root` plus something. */
typedef struct {
   IRTemp root;
   Long first, last; /* lowest and highest byte, from the root */
   Bool write;
} Group;

typedef struct {
   IRTemp root;
   Long offset;
   Bool loaded; /* it depends on a load of this superblock */
} Place;

/* An access of the segment under construction. */
typedef struct {
   UInt group;
   Long offset; /* from the group's root */
   UInt bytes;
   Bool write;
} Found;

typedef struct {
   IRSB* out;
   Place* places; /* by temporary of the superblock: its address, as a root and an offset */
   Int nr_places;
   UInt works[WORK_TRANSLATED]; /* of the segment */
   UInt iterations; /* of string instructions */
   UInt kinds; /* of the current instruction, as bits, to count each once */
   UInt string_bytes; /* if not 0, that instruction repeats and stores this much each time; accesses and branches are in its price */
   UInt nr_pages, nr_groups, nr_found;
   ULong pages[PAGES];
   Group groups[GROUPS];
   Found found[ACCESSES];
} Builder;

/* --- what the translated code calls --- */

static void slow(const Segment* segment, Addr first0, Addr first1, Addr first2, Addr first3, Addr first4)
{
   const Addr firsts[GROUPS] = { first0, first1, first2, first3, first4 };
   Thread* thread = thread_running();
   if (thread == NULL) {
      return;
   }
   if (thread_counter < 0) {
      thread_due(thread);
   }
   for (UInt i = 0; i < segment->nr_pages; i++) {
      thread_touch_range(thread, segment->pages[i] >> 1 << PAGE_BITS, 1, segment->pages[i] & 1);
   }
   for (UInt i = 0; i < segment->nr_accesses; i++) {
      const Access* access = &segment->accesses[i];
      thread_touch_range(thread, firsts[access->group] + access->offset, access->bytes, access->write);
   }
}

static void count_works(const UInt* works)
{
   for (UInt kind = 0; kind < WORK_TRANSLATED; kind++) {
      work_done[kind] += works[kind];
   }
}

static void touch_read(Addr address, UWord bytes)
{
   Thread* thread = thread_running();
   if (thread != NULL) {
      thread_touch_range(thread, address, bytes, False);
   }
}

static void touch_written(Addr address, UWord bytes)
{
   Thread* thread = thread_running();
   if (thread != NULL) {
      thread_touch_range(thread, address, bytes, True);
   }
}

/* --- small pieces of code --- */

static IRExpr* word(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

static IRExpr* address_of(const void* thing) { return word((ULong)(Addr)thing); }

static IRExpr* assign(IRSB* out, IRType type, IRExpr* value)
{
   IRTemp temporary = newIRTemp(out->tyenv, type);
   addStmtToIRSB(out, IRStmt_WrTmp(temporary, value));
   return IRExpr_RdTmp(temporary);
}

static IRExpr* binary(IRSB* out, IROp operation, IRExpr* left, IRExpr* right)
{
   return assign(out, Ity_I64, IRExpr_Binop(operation, left, right));
}

static IRExpr* load(IRSB* out, IRExpr* address) { return assign(out, Ity_I64, IRExpr_Load(Iend_LE, Ity_I64, address)); }

static IRExpr* either(IRSB* out, IRExpr* news, IRExpr* more)
{
   return news == NULL ? more : binary(out, Iop_Or64, news, more);
}

static const Addr* front_of(Bool write) { return write ? front_written : front_touched; }

/* --- a segment's end --- */

static IRExpr* count_down(IRSB* out, ULong step)
{
   IRExpr* counter = binary(out, Iop_Sub64, load(out, address_of(&thread_counter)), word(step));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, address_of(&thread_counter), counter));
   return binary(out, Iop_Sar64, counter, IRExpr_Const(IRConst_U8(SIGN_SHIFT))); /* all ones if it is below zero */
}

static ULong step_of(const Builder* builder)
{
   ULong instructions = builder->works[WORK_INSTRUCTION] + builder->iterations, units = 0;
   if (!has_prices()) {
      return counter_step(instructions, instructions);
   }
   for (UInt kind = 0; kind < WORK_TRANSLATED; kind++) {
      units += (ULong)prices[kind] * builder->works[kind];
   }
   return counter_step(units, instructions);
}

static IRExpr* check_page(IRSB* out, ULong page_and_write)
{
   Addr page = page_and_write >> 1 << PAGE_BITS;
   const Addr* slot = &front_of(page_and_write & 1)[front_slot(page)];
   return binary(out, Iop_Xor64, load(out, address_of(slot)), word(page));
}

static IRExpr* lowest_byte(IRSB* out, const Group* group)
{
   IRExpr* root = IRExpr_RdTmp(group->root);
   return group->first == 0 ? root : binary(out, Iop_Add64, root, word((ULong)group->first));
}

static IRExpr* check_group(IRSB* out, const Group* group, IRExpr* first)
{
   IRExpr* shifted = binary(out, Iop_Shr64, first, IRExpr_Const(IRConst_U8(SLOT_SHIFT)));
   IRExpr* offset = binary(out, Iop_And64, shifted, word(SLOT_MASK));
   IRExpr* entry = load(out, binary(out, Iop_Add64, offset, address_of(front_of(group->write))));
   IRExpr* last = binary(out, Iop_Add64, first, word((ULong)(group->last - group->first)));
   return binary(out, Iop_Xor64, entry, last);
}

static Segment* describe(const Builder* builder)
{
   SizeT accesses = builder->nr_found * sizeof(Access), pages = builder->nr_pages * sizeof(ULong);
   SizeT before_pages = VG_ROUNDUP(sizeof(Segment) + accesses, sizeof(ULong));
   Segment* segment = VG_(perm_malloc)(before_pages + pages, sizeof(ULong));
   segment->nr_pages = (UShort)builder->nr_pages;
   segment->nr_accesses = (UShort)builder->nr_found;
   segment->pages = (ULong*)((UChar*)segment + before_pages);
   VG_(memcpy)(segment->pages, builder->pages, pages);
   for (UInt i = 0; i < builder->nr_found; i++) {
      const Found* found = &builder->found[i];
      UShort offset = (UShort)(found->offset - builder->groups[found->group].first);
      segment->accesses[i] = (Access){ offset, (UShort)found->bytes, (UChar)found->group, found->write };
   }
   return segment;
}

static void call(IRSB* out, const HChar* name, void* function, IRExpr** arguments, IRExpr* guard)
{
   IRDirty* dirty = unsafeIRDirty_0_N(0, name, VG_(fnptr_to_fnentry)(function), arguments);
   if (guard != NULL) {
      dirty->guard = guard;
   }
   addStmtToIRSB(out, IRStmt_Dirty(dirty));
}

/* Writes the check of the segment, and starts the next one. */
static void finish_segment(Builder* builder)
{
   IRSB* out = builder->out;
   IRExpr* news = NULL;
   IRExpr* firsts[GROUPS];
   ULong step = step_of(builder);
   if (step != 0) {
      news = count_down(out, step);
   }
   if (options.count_mix != NULL) {
      UInt* works = VG_(perm_malloc)(sizeof builder->works, sizeof *works);
      VG_(memcpy)(works, builder->works, sizeof builder->works);
      call(out, "count_works", count_works, mkIRExprVec_1(address_of(works)), NULL);
   }
   for (UInt i = 0; i < builder->nr_pages; i++) {
      news = either(out, news, check_page(out, builder->pages[i]));
   }
   for (UInt i = 0; i < GROUPS; i++) {
      firsts[i] = word(0);
      if (i < builder->nr_groups) {
         firsts[i] = lowest_byte(out, &builder->groups[i]);
         news = either(out, news, check_group(out, &builder->groups[i], firsts[i]));
      }
   }
   if (news != NULL) {
      IRExpr* guard = assign(out, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, word(PAGE_BYTES - 1), news));
      IRExpr** arguments =
         mkIRExprVec_6(address_of(describe(builder)), firsts[0], firsts[1], firsts[2], firsts[3], firsts[4]);
      call(out, "slow", slow, arguments, guard);
   }
   VG_(memset)(builder->works, 0, sizeof builder->works);
   builder->iterations = 0;
   builder->nr_pages = builder->nr_groups = builder->nr_found = 0;
}

/* --- contents of a segment --- */

static void add_page(Builder* builder, Addr address, Bool write)
{
   ULong page = address >> PAGE_BITS << 1;
   for (UInt i = 0; i < builder->nr_pages; i++) {
      if ((builder->pages[i] | 1) == (page | 1)) {
         builder->pages[i] |= write ? 1 : 0;
         return;
      }
   }
   if (builder->nr_pages == PAGES) {
      finish_segment(builder);
   }
   builder->pages[builder->nr_pages++] = page | (write ? 1 : 0);
}

static void add_pages(Builder* builder, Addr address, UInt bytes, Bool write)
{
   for (Addr page = VG_PGROUNDDN(address); page < address + bytes; page += PAGE_BYTES) {
      add_page(builder, page, write);
   }
}

/* Adds a piece of work of the current instruction. */
static void add_work(Builder* builder, Work kind)
{
   builder->works[kind] += builder->string_bytes != 0 ? 0 : 1;
}

/* Adds the work of all operations of the instruction. */
static void add_kind(Builder* builder, Work kind)
{
   if ((builder->kinds & 1U << kind) == 0) {
      builder->kinds |= 1U << kind;
      add_work(builder, kind);
   }
}

/* Bytes that a repeated `movs` or `stos` moves each time; 0: another instruction. Encoding: Intel SDM, volume 2, REP. */
static UInt bytes_of_string(const UChar* code, UInt bytes)
{
   UInt i = 0, size = 4;
   Bool repeats = False;
   for (; i + 1 < bytes; i++) {
      if (code[i] == 0xf3) {
         repeats = True;
      } else if (code[i] == 0x66) {
         size = 2;
      } else if ((code[i] & 0xf0) == 0x40) {
         size = (code[i] & 8) != 0 ? 8 : size;
      } else {
         return 0;
      }
   }
   UChar operation = code[i] & 0xfe;
   return !repeats || (operation != 0xa4 && operation != 0xaa) ? 0 : (code[i] & 1) != 0 ? size : 1;
}

static void add_instruction(Builder* builder, Addr address, UInt bytes)
{
   builder->kinds = 0;
   builder->string_bytes = bytes_of_string((const UChar*)address, bytes);
   builder->iterations += builder->string_bytes != 0 ? 1 : 0;
   add_work(builder, WORK_INSTRUCTION);
   Addr last_page = builder->nr_pages == 0 ? FRONT_EMPTY : builder->pages[builder->nr_pages - 1] >> 1;
   if (address >> PAGE_BITS == last_page && (address + bytes - 1) >> PAGE_BITS == last_page) {
      return; /* as usual */
   }
   /* The core replaces some functions by its own code, for example vsyscall's. */
   if (!is_of_tool(address)) {
      add_pages(builder, address, bytes, False);
   }
}

/* The group of an access, new or enlarged; GROUPS if there is no room. */
static UInt group_for(Builder* builder, Place place, UInt bytes, Bool write)
{
   Long first = place.offset, last = place.offset + bytes - 1;
   for (UInt i = 0; i < builder->nr_groups; i++) {
      Group* group = &builder->groups[i];
      Long all_first = first < group->first ? first : group->first, all_last = last > group->last ? last : group->last;
      if (group->root == place.root && all_last - all_first < GROUP_SPAN) {
         *group = (Group){ place.root, all_first, all_last, group->write || write };
         return i;
      }
   }
   if (builder->nr_groups == GROUPS) {
      return GROUPS;
   }
   builder->groups[builder->nr_groups] = (Group){ place.root, first, last, write };
   return builder->nr_groups++;
}

/* A conditional access, or one too large for a group, gets a separate call. */
static void add_by_itself(Builder* builder, IRExpr* address, UInt bytes, Bool write, IRExpr* guard)
{
   finish_segment(builder);
   IRExpr** arguments = mkIRExprVec_2(address, word(bytes));
   if (write) {
      call(builder->out, "touch_written", touch_written, arguments, guard);
   } else {
      call(builder->out, "touch_read", touch_read, arguments, guard);
   }
}

static void add_access(Builder* builder, IRExpr* address, UInt bytes, Bool write)
{
   if (address->tag == Iex_Const) {
      add_pages(builder, (Addr)address->Iex.Const.con->Ico.U64, bytes, write);
      return;
   }
   if (bytes > GROUP_SPAN) {
      add_by_itself(builder, address, bytes, write, NULL);
      return;
   }
   IRTemp temporary = address->Iex.RdTmp.tmp;
   tl_assert((Int)temporary < builder->nr_places);
   Place place = builder->places[temporary];
   UInt group = builder->nr_found < ACCESSES ? group_for(builder, place, bytes, write) : GROUPS;
   if (group == GROUPS) {
      finish_segment(builder);
      group = group_for(builder, place, bytes, write);
   }
   builder->found[builder->nr_found++] = (Found){ group, place.offset, bytes, write };
}

/* --- statements --- */

static UInt bytes_of(const Builder* builder, IRExpr* value)
{
   return (UInt)sizeofIRType(typeOfIRExpr(builder->out->tyenv, value));
}

static Bool is_temporary(const IRExpr* value) { return value->tag == Iex_RdTmp; }

static Bool is_word(const IRExpr* value) { return value->tag == Iex_Const && value->Iex.Const.con->tag == Ico_U64; }

static Bool is_loaded(const Builder* builder, const IRExpr* value)
{
   return is_temporary(value) && builder->places[value->Iex.RdTmp.tmp].loaded;
}

/* Whether a value depends on a load of this superblock. */
static Bool depends_on_load(const Builder* builder, const IRExpr* value)
{
   switch (value->tag) {
   case Iex_Load:
      return True;
   case Iex_Unop:
      return is_loaded(builder, value->Iex.Unop.arg);
   case Iex_Binop:
      return is_loaded(builder, value->Iex.Binop.arg1) || is_loaded(builder, value->Iex.Binop.arg2);
   case Iex_CCall:
      for (IRExpr** argument = value->Iex.CCall.args; *argument != NULL; argument++) {
         if (is_loaded(builder, *argument)) {
            return True;
         }
      }
      return False;
   case Iex_ITE:
      return is_loaded(builder, value->Iex.ITE.iftrue) || is_loaded(builder, value->Iex.ITE.iffalse);
   default:
      return is_loaded(builder, value);
   }
}

/* The kind of an operation; WORK_INSTRUCTION if it has none. */
static Work kind_of(const Builder* builder, const IRExpr* value)
{
   IROp operation = value->tag == Iex_Unop    ? value->Iex.Unop.op
                    : value->tag == Iex_Binop ? value->Iex.Binop.op
                    : value->tag == Iex_Triop ? value->Iex.Triop.details->op
                    : value->tag == Iex_Qop   ? value->Iex.Qop.details->op
                                              : Iop_INVALID;
   switch (operation) {
   case Iop_INVALID:
      return WORK_INSTRUCTION;
   case Iop_Mul8:
   case Iop_Mul16:
   case Iop_Mul32:
   case Iop_Mul64:
   case Iop_MullS8:
   case Iop_MullS16:
   case Iop_MullS32:
   case Iop_MullS64:
   case Iop_MullU8:
   case Iop_MullU16:
   case Iop_MullU32:
   case Iop_MullU64:
      return WORK_MULTIPLY;
   case Iop_DivModU64to32:
   case Iop_DivModS64to32:
   case Iop_DivModU128to64:
   case Iop_DivModS128to64:
   case Iop_DivF64:
   case Iop_SqrtF64:
   case Iop_Div64F0x2:
   case Iop_Div32F0x4:
   case Iop_Div64Fx2:
   case Iop_Div32Fx4:
   case Iop_Div64Fx4:
   case Iop_Div32Fx8:
   case Iop_Sqrt64F0x2:
   case Iop_Sqrt32F0x4:
   case Iop_Sqrt64Fx2:
   case Iop_Sqrt32Fx4:
   case Iop_Sqrt64Fx4:
   case Iop_Sqrt32Fx8:
      return WORK_DIVIDE;
   default:
      break;
   }
   switch (typeOfIRExpr(builder->out->tyenv, value)) {
   case Ity_F32:
   case Ity_F64:
   case Ity_V128:
   case Ity_V256:
      return WORK_VECTOR;
   default:
      return WORK_INSTRUCTION;
   }
}

/* Address of the temporary, if its value is another one's plus or minus a constant. */
static void follow(Builder* builder, IRTemp temporary, const IRExpr* value)
{
   Place* place = &builder->places[temporary];
   place->loaded = depends_on_load(builder, value);
   if (value->tag == Iex_RdTmp) {
      *place = builder->places[value->Iex.RdTmp.tmp];
   } else if (value->tag == Iex_Binop && is_temporary(value->Iex.Binop.arg1) && is_word(value->Iex.Binop.arg2)) {
      Long distance = (Long)value->Iex.Binop.arg2->Iex.Const.con->Ico.U64;
      Place from = builder->places[value->Iex.Binop.arg1->Iex.RdTmp.tmp];
      if (value->Iex.Binop.op == Iop_Add64) {
         *place = (Place){ from.root, (Long)((ULong)from.offset + (ULong)distance), from.loaded };
      } else if (value->Iex.Binop.op == Iop_Sub64) {
         *place = (Place){ from.root, (Long)((ULong)from.offset - (ULong)distance), from.loaded };
      }
   }
}

static UInt bytes_of_guarded_load(IRLoadGOp operation)
{
   IRType result, loaded;
   typeOfIRLoadGOp(operation, &result, &loaded);
   return (UInt)sizeofIRType(loaded);
}

/* A compare-and-swap writes even when it finds another value. */
static void add_compare_and_swap(Builder* builder, const IRCAS* swap)
{
   UInt words = swap->dataHi != NULL ? 2 : 1;
   add_access(builder, swap->addr, words * bytes_of(builder, swap->dataLo), True);
}

static void add_helper(Builder* builder, const IRDirty* helper)
{
   if (helper->mFx == Ifx_None) {
      return;
   }
   const IRExpr* guard = helper->guard;
   Bool write = helper->mFx != Ifx_Read;
   if (guard->tag == Iex_Const && guard->Iex.Const.con->Ico.U1) {
      add_access(builder, helper->mAddr, (UInt)helper->mSize, write);
   } else {
      add_by_itself(builder, helper->mAddr, (UInt)helper->mSize, write, helper->guard);
   }
}

static void add_linked(Builder* builder, const IRStmt* statement)
{
   IRExpr* data = statement->Ist.LLSC.storedata;
   IRExpr* value = data != NULL ? data : IRExpr_RdTmp(statement->Ist.LLSC.result);
   add_access(builder, statement->Ist.LLSC.addr, bytes_of(builder, value), data != NULL);
}

static void add_temporary(Builder* builder, IRTemp temporary, const IRExpr* value)
{
   Work kind = kind_of(builder, value);
   follow(builder, temporary, value);
   if (kind != WORK_INSTRUCTION) {
      add_kind(builder, kind);
   }
   if (value->tag == Iex_Load) {
      add_work(builder, is_loaded(builder, value->Iex.Load.addr) ? WORK_CHASE : WORK_LOAD);
      add_access(builder, value->Iex.Load.addr, (UInt)sizeofIRType(value->Iex.Load.ty), False);
   }
}

/* Records the work of a statement; the statement itself follows. */
static void look_at(Builder* builder, const IRStmt* statement)
{
   switch (statement->tag) {
   case Ist_IMark:
      add_instruction(builder, statement->Ist.IMark.addr, statement->Ist.IMark.len);
      break;
   case Ist_WrTmp:
      add_temporary(builder, statement->Ist.WrTmp.tmp, statement->Ist.WrTmp.data);
      break;
   case Ist_Store:
      add_work(builder, WORK_STORE);
      builder->works[WORK_STRING_BYTE] += builder->string_bytes;
      add_access(builder, statement->Ist.Store.addr, bytes_of(builder, statement->Ist.Store.data), True);
      break;
   case Ist_StoreG: {
      const IRStoreG* store = statement->Ist.StoreG.details;
      add_work(builder, WORK_STORE);
      add_by_itself(builder, store->addr, bytes_of(builder, store->data), True, store->guard);
      break;
   }
   case Ist_LoadG: {
      const IRLoadG* guarded = statement->Ist.LoadG.details;
      add_work(builder, WORK_LOAD);
      add_by_itself(builder, guarded->addr, bytes_of_guarded_load(guarded->cvt), False, guarded->guard);
      break;
   }
   case Ist_CAS:
      add_work(builder, WORK_ATOMIC);
      add_compare_and_swap(builder, statement->Ist.CAS.details);
      break;
   case Ist_LLSC:
      add_work(builder, WORK_ATOMIC);
      add_linked(builder, statement);
      break;
   case Ist_Dirty:
      add_helper(builder, statement->Ist.Dirty.details);
      break;
   case Ist_Exit:
      if (statement->Ist.Exit.jk == Ijk_Boring) {
         add_work(builder, is_loaded(builder, statement->Ist.Exit.guard) ? WORK_LOADED_BRANCH : WORK_BRANCH);
      }
      finish_segment(builder);
      break;
   default:
      break;
   }
}

static void find_roots(Builder* builder, const IRSB* in)
{
   builder->nr_places = in->tyenv->types_used;
   builder->places = VG_(malloc)("isorec.places", (SizeT)(builder->nr_places + 1) * sizeof(Place));
   for (Int i = 0; i < builder->nr_places; i++) {
      builder->places[i] = (Place){ (IRTemp)i, 0, False };
   }
}

IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout, const VexGuestExtents* extents,
                 const VexArchInfo* host, IRType guest_word, IRType host_word)
{
   (void)closure, (void)layout, (void)extents, (void)host;
   tl_assert(guest_word == Ity_I64 && host_word == Ity_I64);
   Builder builder = { .out = deepCopyIRSBExceptStmts(in) };
   Int i = 0;
   find_roots(&builder, in);
   /* A tool ignores what the core needs before the first instruction. */
   for (; i < in->stmts_used && in->stmts[i]->tag != Ist_IMark; i++) {
      addStmtToIRSB(builder.out, in->stmts[i]);
   }
   for (; i < in->stmts_used; i++) {
      look_at(&builder, in->stmts[i]);
      addStmtToIRSB(builder.out, in->stmts[i]);
   }
   if (in->next->tag == Iex_RdTmp && in->jumpkind != Ijk_Ret) {
      add_work(&builder, WORK_INDIRECT);
   }
   finish_segment(&builder);
   thread_works(thread_running(), WORK_NEW_CODE, 1);
   VG_(free)(builder.places);
   return builder.out;
}
