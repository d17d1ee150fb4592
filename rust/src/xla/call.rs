//! A call from XLA: its operands, and how it is answered.

use super::c_api::{self, CallFrame, Values};
use super::threads::Threads;
use std::ffi::{c_int, c_void, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// An array of XLA's, of float32 or bytes.
pub struct Tensor<'a> {
    data: *mut c_void,
    dtype: c_int,
    pub dims: &'a [i64],
}

impl Tensor<'_> {
    /// The numbers of an array of float32.
    pub fn floats(&self) -> Result<*mut f32, String> {
        match self.dtype {
            c_api::F32 => Ok(self.data.cast()),
            _ => Err(format!("an array of {:?} is not float32", self.dims)),
        }
    }

    /// The numbers of an array of unsigned bytes.
    pub fn bytes(&self) -> Result<*mut u8, String> {
        match self.dtype {
            c_api::U8 => Ok(self.data.cast()),
            _ => Err(format!("an array of {:?} is not uint8", self.dims)),
        }
    }

    /// The sizes of an array of `N` axes.
    pub fn sizes<const N: usize>(&self) -> Result<[usize; N], String> {
        let sizes: Vec<usize> = self.dims.iter().map(|&n| n as usize).collect();
        sizes
            .try_into()
            .map_err(|_| format!("expected {N} axes, found {:?}", self.dims))
    }
}

/// The operands, results and integers that a program passes.
pub struct Call<'a> {
    frame: &'a CallFrame,
}

impl<'a> Call<'a> {
    pub fn threads(&self) -> Threads {
        // SAFETY: XLA passes its functions and a context that belong together.
        unsafe { Threads::new(self.frame.api, self.frame.context) }
    }

    pub fn arguments<const N: usize>(&self) -> Result<[Tensor<'a>; N], String> {
        // SAFETY: XLA describes its arguments truly.
        unsafe { tensors(&self.frame.arguments, "arguments") }
    }

    pub fn results<const N: usize>(&self) -> Result<[Tensor<'a>; N], String> {
        // SAFETY: as above.
        unsafe { tensors(&self.frame.results, "results") }
    }

    /// The integers of the attribute `name`.
    pub fn integers<const N: usize>(&self, name: &str) -> Result<[i64; N], String> {
        let attributes = &self.frame.attributes;
        for i in 0..attributes.size as usize {
            // SAFETY: XLA describes its attributes truly.
            let found = unsafe {
                let label = &**attributes.names.add(i);
                std::slice::from_raw_parts(label.start, label.len) == name.as_bytes()
                    && *attributes.kinds.add(i) == c_api::ARRAY
            };
            if !found {
                continue;
            }
            // SAFETY: as above; the kind says what the value is.
            let array = unsafe { &*(*attributes.values.add(i)).cast::<c_api::Array>() };
            if array.dtype == c_api::S64 && array.size == N {
                // SAFETY: as above.
                return Ok(unsafe { array.data.cast::<[i64; N]>().read_unaligned() });
            }
        }
        Err(format!("no attribute {name:?} of {N} 64-bit integers"))
    }
}

unsafe fn tensors<'a, const N: usize>(
    values: &Values,
    name: &str,
) -> Result<[Tensor<'a>; N], String> {
    let mut found = Vec::with_capacity(N);
    for i in 0..values.size as usize {
        if *values.kinds.add(i) != c_api::BUFFER {
            return Err(format!("{name}[{i}] is no buffer"));
        }
        let buffer = &*(*values.values.add(i)).cast::<c_api::Buffer>();
        let dims = match buffer.rank {
            0 => &[],
            rank => std::slice::from_raw_parts(buffer.dims, rank as usize),
        };
        found.push(Tensor {
            data: buffer.data,
            dtype: buffer.dtype,
            dims,
        });
    }
    let count = found.len();
    found
        .try_into()
        .map_err(|_| format!("expected {N} {name}, found {count}"))
}

/// Answers a call by `compute`, whose errors and panics become XLA's errors.
///
/// # Safety
/// `frame` is what XLA passed.
pub unsafe fn answer(
    frame: *mut CallFrame,
    name: &str,
    compute: impl FnOnce(&Call) -> Result<(), String>,
) -> *mut c_api::Error {
    let frame = &*frame;
    if !frame.extension.is_null() && (*frame.extension).kind == c_api::METADATA_EXTENSION {
        let metadata = (*frame.extension.cast::<c_api::MetadataExtension>()).metadata;
        (*metadata).version.major = c_api::VERSION.0;
        (*metadata).version.minor = c_api::VERSION.1;
        return std::ptr::null_mut();
    }
    if frame.stage != c_api::STAGE_EXECUTE {
        return std::ptr::null_mut();
    }
    let (code, message) = match catch_unwind(AssertUnwindSafe(|| compute(&Call { frame }))) {
        Ok(Ok(())) => return std::ptr::null_mut(),
        Ok(Err(message)) => (c_api::INVALID_ARGUMENT, message),
        Err(_) => (c_api::INTERNAL, "panicked".to_string()),
    };
    let message = CString::new(format!("{name}: {message}")).unwrap_or_default();
    let mut error = c_api::ErrorCreate {
        struct_size: size_of::<c_api::ErrorCreate>(),
        extension: std::ptr::null_mut(),
        message: message.as_ptr(),
        code,
    };
    ((*frame.api).error_create)(&mut error)
}
