//! Functions that XLA's CPU backend calls from compiled programs, through its foreign function
//! interface.

mod c_api;
mod call;
mod handlers;
mod pooled_handlers;
pub mod threads;

pub use handlers::HANDLERS;
