//! Results that XLA gets later, while its threads continue.

use super::c_api::{
    self, Api, Error, ErrorCreate, Future, FutureCreate, FutureSetAvailable, FutureSetError,
};
use std::ffi::{c_int, CString};

/// To be kept or broken once, from any thread. The buffers of the call live on until then; the call
/// itself does not.
pub struct Promise {
    api: *const Api,
    pub future: *mut Future,
}

// SAFETY: XLA's functions may be called from any thread.
unsafe impl Send for Promise {}

impl Promise {
    /// # Safety
    /// `api` is XLA's.
    pub unsafe fn new(api: *const Api) -> Self {
        let mut request = FutureCreate {
            struct_size: size_of::<FutureCreate>(),
            extension: std::ptr::null_mut(),
            future: std::ptr::null_mut(),
        };
        let error = ((*api).future_create)(&mut request);
        assert!(error.is_null(), "XLA makes no future");
        Self {
            api,
            future: request.future,
        }
    }

    /// Tells XLA that the results are there, or why they are not.
    pub fn settle(self, result: Result<(), (c_int, String)>) {
        // SAFETY: `new` was given XLA's functions, which live as long as the process.
        unsafe {
            match result {
                Ok(()) => {
                    let mut request = FutureSetAvailable {
                        struct_size: size_of::<FutureSetAvailable>(),
                        extension: std::ptr::null_mut(),
                        future: self.future,
                    };
                    ((*self.api).future_set_available)(&mut request);
                }
                Err((code, message)) => {
                    let mut request = FutureSetError {
                        struct_size: size_of::<FutureSetError>(),
                        extension: std::ptr::null_mut(),
                        future: self.future,
                        error: new_error(self.api, code, &message),
                    };
                    ((*self.api).future_set_error)(&mut request);
                }
            }
        }
    }
}

/// An error of XLA's.
///
/// # Safety
/// `api` is XLA's.
pub unsafe fn new_error(api: *const c_api::Api, code: c_int, message: &str) -> *mut Error {
    let message = CString::new(message).unwrap_or_default();
    let mut error = ErrorCreate {
        struct_size: size_of::<ErrorCreate>(),
        extension: std::ptr::null_mut(),
        message: message.as_ptr(),
        code,
    };
    ((*api).error_create)(&mut error)
}
