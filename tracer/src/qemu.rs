// SPDX-License-Identifier: GPL-2.0-or-later

//! QEMU's plugin interface: the part that is used, the same in versions 1 and 2. Declared by hand from
//! `include/qemu/qemu-plugin.h` of QEMU 7.2 and 10.0, because the generated bindings want a newer QEMU's development files on some hosts and add nothing else.
#![expect(unsafe_code, reason = "declarations of C functions")]

use std::ffi::{c_char, c_int, c_uint, c_void};

pub(crate) type Id = u64;
pub(crate) type MemoryInfo = u32;

/// `qemu_info_t`, up to the field that is read.
#[repr(C)]
pub(crate) struct Info {
    target_name: *const c_char,
    version_min: c_int,
    version_current: c_int,
    pub(crate) system_emulation: bool,
}

/// `struct qemu_plugin_tb`.
#[repr(C)]
pub(crate) struct Block {
    opaque: [u8; 0],
}

/// `struct qemu_plugin_insn`.
#[repr(C)]
pub(crate) struct Instruction {
    opaque: [u8; 0],
}

/// `QEMU_PLUGIN_CB_NO_REGS`: the cheapest kind of callback.
pub(crate) const NO_REGISTERS: c_uint = 0;
/// `QEMU_PLUGIN_MEM_R`.
pub(crate) const LOADS: c_uint = 1;
/// `QEMU_PLUGIN_MEM_W`.
pub(crate) const STORES: c_uint = 2;

type SyscallCallback = extern "C" fn(Id, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

unsafe extern "C" {
    pub(crate) fn qemu_plugin_register_vcpu_init_cb(id: Id, callback: extern "C" fn(Id, c_uint));
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: extern "C" fn(Id, *mut Block));
    pub(crate) fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        callback: extern "C" fn(c_uint, *mut c_void),
        flags: c_uint,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: extern "C" fn(c_uint, MemoryInfo, u64, *mut c_void),
        flags: c_uint,
        kinds: c_uint,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_syscall_cb(id: Id, callback: SyscallCallback);
    pub(crate) fn qemu_plugin_register_vcpu_syscall_ret_cb(id: Id, callback: extern "C" fn(Id, c_uint, i64, i64));
    pub(crate) fn qemu_plugin_register_atexit_cb(id: Id, callback: extern "C" fn(Id, *mut c_void), data: *mut c_void);
    pub(crate) fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub(crate) fn qemu_plugin_tb_vaddr(block: *const Block) -> u64;
    pub(crate) fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub(crate) fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub(crate) fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub(crate) fn qemu_plugin_mem_size_shift(info: MemoryInfo) -> c_uint;
    pub(crate) fn qemu_plugin_mem_is_store(info: MemoryInfo) -> bool;
}
