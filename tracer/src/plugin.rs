// SPDX-License-Identifier: GPL-2.0-or-later

//! The plugin as QEMU sees it: registration and callbacks, plugin API version 1 (QEMU 4.2 to 8.2) and 2 (from 9.0 on).
#![expect(unsafe_code, reason = "the interface is C")]

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::options::Options;
use crate::qemu;
use crate::record::Origin;
use crate::spool::Spool;
use crate::thread::Thread;
use crate::{sys, syscall};

/// The version of the plugin API that QEMU shall give. QEMU reads the symbol after it has loaded the plugin and before it calls
/// anything, so [`choose_version`] can still set it.
#[unsafe(no_mangle)]
#[used]
pub(crate) static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

/// Runs while the plugin is loaded.
#[unsafe(link_section = ".init_array")]
#[used]
static AT_LOADING: extern "C" fn() = choose_version;

/// QEMU 9 and later refuse plugins of version 1, and earlier ones those of version 2. What is used here is the same in both. A
/// function that came with version 2 (`qemu_plugin_num_vcpus`, QEMU 9.0) tells them apart.
extern "C" fn choose_version() {
    if sys::loaded(c"qemu_plugin_num_vcpus").is_some() {
        qemu_plugin_version.store(2, Ordering::Relaxed);
    }
}

/// The emulator numbers threads from 0 and reuses numbers.
const MAX_VCPUS: usize = 1 << 16;
static THREADS: [AtomicPtr<Thread>; MAX_VCPUS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_VCPUS];
static SESSION: OnceLock<Session> = OnceLock::new();

/// What `qemu_plugin_install` was told.
struct Session {
    spool: Spool,
    options: Options,
}

thread_local! {
    /// The traced thread that this host thread runs, once it has made a system call.
    static CURRENT: Cell<*mut Thread> = const { Cell::new(std::ptr::null_mut()) };
}

fn session() -> &'static Session {
    SESSION.get().expect("callbacks are registered after the session is set")
}

/// The state of a virtual CPU, for the callbacks that run on it.
#[inline(always)]
fn thread_of<'a>(vcpu: c_uint) -> Option<&'a mut Thread> {
    let thread = THREADS.get(vcpu as usize)?.load(Ordering::Relaxed);
    // SAFETY: the pointer is null or came from `Box::into_raw` in `on_vcpu_init`. QEMU calls the callbacks of one virtual
    // CPU from its one host thread, never nested, and the exit hook when all others are stopped, so that the reference is
    // unique. The box is freed in `drop_thread` only, after the thread's last callback.
    unsafe { thread.as_mut() }
}

/// QEMU's entry point.
///
/// # Safety
/// Called by QEMU once, with `count` C strings.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn qemu_plugin_install(
    id: qemu::Id,
    info: *const qemu::Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a valid description.
    if unsafe { (*info).system_emulation } {
        crate::warn("this plugin is for user-mode emulation (qemu-x86_64)");
        return 1;
    }
    let Some(store_bit) = find_store_bit() else {
        crate::warn("this QEMU tells loads from stores in an unknown way; QEMU 4.2 to 10 can be used");
        return 1;
    };
    STORE_BIT.store(store_bit, Ordering::Relaxed);
    if qemu_plugin_version.load(Ordering::Relaxed) > 1 {
        crate::layout::note_emulator();
    }
    let count = usize::try_from(count).unwrap_or(0);
    let texts = (0..count).map(|index| {
        // SAFETY: `arguments` has `count` C strings that live during this call.
        unsafe { CStr::from_ptr(*arguments.add(index)) }.to_string_lossy().into_owned()
    });
    let made = Options::parse(texts).and_then(|options| Ok(Session { spool: Spool::open(&options.spool)?, options }));
    match made {
        Ok(session) => {
            let _ = SESSION.set(session);
        }
        Err(message) => {
            crate::warn(&message);
            return 1;
        }
    }
    // SAFETY: the functions have the types that the API wants and live as long as the plugin.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, on_vcpu_init);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        qemu::qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
        qemu::qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
        qemu::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
    }
    0
}

/// A thread that its parent has announced, and that has not begun yet.
#[derive(Clone, Copy)]
pub(crate) struct Announced {
    pub(crate) uid: u32,
    pub(crate) parent: u32,
    /// Virtual time at which it begins, in nanoseconds.
    pub(crate) start_ns: u64,
}

/// In the order of their announcements. QEMU makes one thread at a time.
static ANNOUNCED: Mutex<Vec<Announced>> = Mutex::new(Vec::new());

fn announced() -> MutexGuard<'static, Vec<Announced>> {
    ANNOUNCED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread will begin soon.
pub(crate) fn expect_thread(thread: Announced) {
    announced().push(thread);
}

/// The thread announced as `uid` has not begun, or is begun by other means.
pub(crate) fn expect_no_more(uid: u32) {
    announced().retain(|thread| thread.uid != uid);
}

/// A virtual CPU is made: the program's first, or one for a thread. Up to QEMU 8 that is within the parent's `clone`; from 9 on the
/// thread itself comes here before it runs, and takes the oldest announcement.
extern "C" fn on_vcpu_init(_id: qemu::Id, vcpu: c_uint) {
    let Session { spool, options } = session();
    // SAFETY: `CURRENT` holds this host thread's own traced thread, which is in a system call and not in a callback.
    let parent = unsafe { CURRENT.get().as_mut() };
    let own = || {
        let mut announced = announced();
        if announced.is_empty() { None } else { Some(announced.remove(0)) }
    };
    let announced = match parent {
        Some(parent) => {
            let uid = parent.pending.child.unwrap_or_else(|| spool.new_uid());
            expect_no_more(uid);
            Some(Announced { uid, parent: parent.uid, start_ns: parent.now_ns() })
        }
        None => own(),
    };
    let thread = match announced {
        Some(Announced { uid, parent, start_ns }) => {
            Thread::new(spool, options.epoch, uid, Origin::Thread, Some(parent), start_ns)
        }
        None => {
            let origin = if options.started_by.is_some() { Origin::Exec } else { Origin::Program };
            Thread::new(spool, options.epoch, options.uid, origin, options.started_by, options.start_ns)
        }
    };
    match THREADS.get(vcpu as usize) {
        Some(slot) => slot.store(Box::into_raw(Box::new(thread)), Ordering::Release),
        None => crate::warn(&format!("only {MAX_VCPUS} threads at once are recorded; one more started")),
    }
}

/// A block of instructions is translated: asks to be called when it runs and for each of its loads and stores.
extern "C" fn on_translation(_id: qemu::Id, block: *mut qemu::Block) {
    // SAFETY: `block` is valid during this call, `index` below the number of its instructions; callbacks as above.
    unsafe {
        let count = qemu::qemu_plugin_tb_n_insns(block);
        let mut last = qemu::qemu_plugin_tb_vaddr(block);
        let page = last >> 12;
        for index in 0..count {
            let instruction = qemu::qemu_plugin_tb_get_insn(block, index);
            last = qemu::qemu_plugin_insn_vaddr(instruction) + qemu::qemu_plugin_insn_size(instruction) as u64 - 1;
            // For loads and stores alike: QEMU 7.2 confuses the two when asked for one of them.
            let (none, all) = (std::ptr::null_mut(), qemu::LOADS | qemu::STORES);
            qemu::qemu_plugin_register_vcpu_mem_cb(instruction, on_access, qemu::NO_REGISTERS, all, none);
        }
        let data = pack_block(count as u64, page, last >> 12 != page);
        qemu::qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, qemu::NO_REGISTERS, data as *mut c_void);
    }
}

const COUNT_BITS: u32 = 12;
/// The block runs into the next page.
const CROSSES: u64 = 1 << COUNT_BITS;

/// What `on_block` needs, in the word that QEMU hands it. QEMU puts at most 512 instructions into a block.
fn pack_block(count: u64, page: u64, crosses: bool) -> u64 {
    page << (COUNT_BITS + 1) | if crosses { CROSSES } else { 0 } | count.min(CROSSES - 1)
}

extern "C" fn on_block(vcpu: c_uint, data: *mut c_void) {
    let data = data as u64;
    if let Some(thread) = thread_of(vcpu) {
        let known = thread.block(data & (CROSSES - 1), data >> (COUNT_BITS + 1));
        if !known || data & CROSSES != 0 {
            block_slowly(thread, data);
        }
    }
}

/// Apart, so that the fast path needs no registers saved.
#[inline(never)]
fn block_slowly(thread: &mut Thread, data: u64) {
    thread.block_slowly(&session().spool, data >> (COUNT_BITS + 1), data & CROSSES != 0);
}

/// Only accesses this close to a page's end can run into the next: QEMU reports no more than 16 bytes at once.
const LAST_BYTES: u64 = 4096 - 16;

extern "C" fn on_access(vcpu: c_uint, info: qemu::MemoryInfo, address: u64, _data: *mut c_void) {
    if let Some(thread) = thread_of(vcpu) {
        let store = u64::from(info >> STORE_BIT.load(Ordering::Relaxed) & 1);
        if !thread.is_known(address >> 12, store) || address & 4095 > LAST_BYTES {
            access_slowly(thread, info, address, store != 0);
        }
    }
}

#[inline(never)]
fn access_slowly(thread: &mut Thread, info: qemu::MemoryInfo, address: u64, write: bool) {
    let spool = &session().spool;
    thread.touch(spool, address >> 12, write);
    if address & 4095 > LAST_BYTES {
        // SAFETY: takes a number that QEMU handed out.
        let bytes = 1u64 << unsafe { qemu::qemu_plugin_mem_size_shift(info) };
        if (address & 4095) + bytes > 4096 {
            thread.touch(spool, (address >> 12) + 1, write);
        }
    }
}

/// Which bit of a [`qemu::MemoryInfo`] says that it is a store. Calling QEMU to look at it would double the cost of an
/// access; so QEMU is asked once about each bit.
static STORE_BIT: AtomicU32 = AtomicU32::new(0);

fn find_store_bit() -> Option<u32> {
    // SAFETY: the function looks at the bits of its argument only.
    let mut bits = (0..32).filter(|&bit| unsafe { qemu::qemu_plugin_mem_is_store(1 << bit) });
    bits.next().filter(|_| bits.next().is_none())
}

extern "C" fn on_syscall(
    _id: qemu::Id,
    vcpu: c_uint,
    number: i64,
    a1: u64,
    a2: u64,
    a3: u64,
    a4: u64,
    a5: u64,
    a6: u64,
    _a7: u64,
    _a8: u64,
) {
    if let Some(thread) = thread_of(vcpu) {
        CURRENT.set(thread);
        syscall::enter(thread, &session().spool, number, [a1, a2, a3, a4, a5, a6]);
    }
}

extern "C" fn on_syscall_return(_id: qemu::Id, vcpu: c_uint, number: i64, result: i64) {
    if let Some(thread) = thread_of(vcpu) {
        syscall::leave(thread, &session().spool, number, result);
    }
}

/// The process ends in an orderly way; its other threads are stopped.
extern "C" fn on_exit(_id: qemu::Id, _data: *mut c_void) {
    for vcpu in 0..c_uint::try_from(MAX_VCPUS).unwrap_or(0) {
        if let Some(thread) = thread_of(vcpu) {
            thread.end(&session().spool);
        }
    }
}

/// After a fork only the calling thread exists.
pub(crate) fn forget_other_threads(own: &Thread) {
    announced().clear();
    for slot in &THREADS {
        if !std::ptr::eq(slot.load(Ordering::Relaxed), own) {
            // Not freed: another thread may have been in the middle of changing it when the process was copied.
            slot.store(std::ptr::null_mut(), Ordering::Relaxed);
        }
    }
}

/// The `-plugin` argument with which a program started by `execve` goes on in the same recording.
pub(crate) fn argument_for_exec(spool: &Spool, uid: u32, started_by: u32, start_ns: u64) -> CString {
    let options = &session().options;
    let options = Options { uid, started_by: Some(started_by), start_ns, ..options.clone() };
    debug_assert_eq!(options.spool, spool.directory());
    CString::new(options.to_argument()).unwrap_or_default()
}

/// The program that the emulator runs: QEMU's own answer where it has one. QEMU 10.0 declares the function and leaves it out of
/// user-mode emulators; then it is the program that we have put on the emulator's command line, behind `-0 NAME`.
pub(crate) fn program_path() -> Option<PathBuf> {
    if let Some(function) = sys::loaded(c"qemu_plugin_path_to_binary") {
        // SAFETY: QEMU's function of that name has this type; it returns null or a C string that is ours.
        unsafe {
            let path_to_binary: extern "C" fn() -> *const c_char = std::mem::transmute(function);
            let path = path_to_binary();
            if !path.is_null() {
                let bytes = CStr::from_ptr(path).to_bytes().to_vec();
                libc::free(path.cast_mut().cast());
                return Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)));
            }
        }
    }
    let line = std::fs::read("/proc/self/cmdline").ok()?;
    let mut words = line.split(|&byte| byte == 0).skip_while(|&word| word != b"-0").skip(2);
    words.next().map(|word| PathBuf::from(std::ffi::OsString::from_vec(word.to_vec())))
}
