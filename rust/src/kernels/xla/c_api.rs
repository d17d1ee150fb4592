//! The part of XLA's `xla/ffi/api/c_api.h` that is used here, the same in its versions 0.1 to 0.3.

use std::ffi::{c_char, c_int, c_void};

/// The version of the interface that these declarations follow.
pub const VERSION: (c_int, c_int) = (0, 1);
pub const METADATA_EXTENSION: c_int = 1;
pub const STAGE_EXECUTE: c_int = 3;
pub const BUFFER: c_int = 1;
pub const ARRAY: c_int = 1;
pub const S32: c_int = 4;
pub const S64: c_int = 5;
pub const U8: c_int = 6;
pub const F16: c_int = 10;
pub const F32: c_int = 11;
pub const F64: c_int = 12;
pub const BF16: c_int = 16;
pub const INVALID_ARGUMENT: c_int = 3;
pub const INTERNAL: c_int = 13;
pub const UNAVAILABLE: c_int = 14;

pub enum Error {}
pub enum Context {}
pub enum Future {}

pub type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut Error;
pub type Task = unsafe extern "C" fn(*mut c_void);

#[repr(C)]
pub struct Extension {
    pub struct_size: usize,
    pub kind: c_int,
    pub next: *mut Extension,
}

#[repr(C)]
pub struct ApiVersion {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub major: c_int,
    pub minor: c_int,
}

#[repr(C)]
pub struct Metadata {
    pub struct_size: usize,
    pub version: ApiVersion,
    pub traits: u32,
}

#[repr(C)]
pub struct MetadataExtension {
    pub base: Extension,
    pub metadata: *mut Metadata,
}

#[repr(C)]
pub struct ErrorCreate {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub message: *const c_char,
    pub code: c_int,
}

#[repr(C)]
pub struct Schedule {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub context: *mut Context,
    pub task: Task,
    pub data: *mut c_void,
}

#[repr(C)]
pub struct NumThreads {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub context: *mut Context,
    pub count: *mut i64,
}

#[repr(C)]
pub struct ErrorDestroy {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub error: *mut Error,
}

#[repr(C)]
pub struct FutureCreate {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub future: *mut Future,
}

#[repr(C)]
pub struct FutureSetAvailable {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub future: *mut Future,
}

#[repr(C)]
pub struct FutureSetError {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub future: *mut Future,
    pub error: *mut Error,
}

#[repr(C)]
pub struct Api {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub version: ApiVersion,
    pub internal: *const c_void,
    pub error_create: unsafe extern "C" fn(*mut ErrorCreate) -> *mut Error,
    pub error_get_message: *const c_void,
    pub error_destroy: unsafe extern "C" fn(*mut ErrorDestroy),
    pub handler_register: *const c_void,
    pub stream_get: *const c_void,
    pub type_register: *const c_void,
    pub context_get: *const c_void,
    pub state_set: *const c_void,
    pub state_get: *const c_void,
    pub memory_allocate: *const c_void,
    pub memory_free: *const c_void,
    pub schedule: unsafe extern "C" fn(*mut Schedule) -> *mut Error,
    pub num_threads: unsafe extern "C" fn(*mut NumThreads) -> *mut Error,
    pub future_create: unsafe extern "C" fn(*mut FutureCreate) -> *mut Error,
    pub future_set_available: unsafe extern "C" fn(*mut FutureSetAvailable) -> *mut Error,
    pub future_set_error: unsafe extern "C" fn(*mut FutureSetError) -> *mut Error,
}

/// Arguments or results of a call.
#[repr(C)]
pub struct Values {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub size: i64,
    pub kinds: *const c_int,
    pub values: *const *mut c_void,
}

#[repr(C)]
pub struct Attributes {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub size: i64,
    pub kinds: *const c_int,
    pub names: *const *const Bytes,
    pub values: *const *const c_void,
}

#[repr(C)]
pub struct Bytes {
    pub start: *const u8,
    pub len: usize,
}

#[repr(C)]
pub struct Array {
    pub dtype: c_int,
    pub size: usize,
    pub data: *const c_void,
}

#[repr(C)]
pub struct Buffer {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub dtype: c_int,
    pub data: *mut c_void,
    pub rank: i64,
    pub dims: *const i64,
}

#[repr(C)]
pub struct CallFrame {
    pub struct_size: usize,
    pub extension: *mut Extension,
    pub api: *const Api,
    pub context: *mut Context,
    pub stage: c_int,
    pub arguments: Values,
    pub results: Values,
    pub attributes: Attributes,
    /// Set by a function that answers later.
    pub future: *mut Future,
}
