//! Functions that XLA's CPU backend calls from compiled programs, through its foreign function
//! interface.

pub mod all_reduce;
pub(crate) mod c_api;
mod call;
mod handlers;
mod pooled_handlers;
mod promise;
pub mod threads;

pub use handlers::HANDLERS;
