//! A call from XLA: its operands, and how it is answered.

use super::c_api::{self, CallFrame, Values};
use super::promise::{new_error, Promise};
use super::threads::Threads;
use std::ffi::{c_int, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// An array of XLA's.
pub struct Tensor<'a> {
    pub data: *mut c_void,
    pub dtype: c_int,
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

    /// The first number of an array of int32.
    pub fn number(&self) -> Result<i32, String> {
        if self.dtype != c_api::S32 || self.dims.contains(&0) {
            return Err(format!("an array of {:?} is no int32", self.dims));
        }
        // SAFETY: there is one.
        Ok(unsafe { self.data.cast::<i32>().read() })
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

    pub fn all_arguments(&self) -> Result<Vec<Tensor<'a>>, String> {
        // SAFETY: as above.
        unsafe { all_tensors(&self.frame.arguments, "arguments") }
    }

    pub fn all_results(&self) -> Result<Vec<Tensor<'a>>, String> {
        // SAFETY: as above.
        unsafe { all_tensors(&self.frame.results, "results") }
    }

    /// A promise to answer later.
    pub fn promise(&self) -> Promise {
        // SAFETY: XLA's functions live as long as the process.
        unsafe { Promise::new(self.frame.api) }
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
    let found = all_tensors(values, name)?;
    let count = found.len();
    found
        .try_into()
        .map_err(|_| format!("expected {N} {name}, found {count}"))
}

unsafe fn all_tensors<'a>(values: &Values, name: &str) -> Result<Vec<Tensor<'a>>, String> {
    let mut found = Vec::with_capacity(values.size as usize);
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
    Ok(found)
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
    let now = |call: &Call| match compute(call) {
        Ok(()) => Ok(None),
        Err(message) => Err((c_api::INVALID_ARGUMENT, message)),
    };
    answer_or_promise(frame, name, now)
}

/// As `answer`; `compute` gives XLA's code with an error, and may return what will be there once a
/// promise is kept.
///
/// # Safety
/// As of `answer`.
pub unsafe fn answer_or_promise(
    frame: *mut CallFrame,
    name: &str,
    compute: impl FnOnce(&Call) -> Result<Option<*mut c_api::Future>, (c_int, String)>,
) -> *mut c_api::Error {
    let extension = (*frame).extension;
    if !extension.is_null() && (*extension).kind == c_api::METADATA_EXTENSION {
        let metadata = (*extension.cast::<c_api::MetadataExtension>()).metadata;
        (*metadata).version.major = c_api::VERSION.0;
        (*metadata).version.minor = c_api::VERSION.1;
        return std::ptr::null_mut();
    }
    if (*frame).stage != c_api::STAGE_EXECUTE {
        return std::ptr::null_mut();
    }
    let call = Call { frame: &*frame };
    let (code, message) = match catch_unwind(AssertUnwindSafe(|| compute(&call))) {
        Ok(Ok(future)) => {
            if let Some(future) = future {
                (*frame).future = future;
            }
            return std::ptr::null_mut();
        }
        Ok(Err(error)) => error,
        Err(_) => (c_api::INTERNAL, "panicked".to_string()),
    };
    new_error((*frame).api, code, &format!("{name}: {message}"))
}
