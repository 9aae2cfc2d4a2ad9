//! The driver's functions as safe code: each has the name of the exported one and takes converted
//! arguments (`ffi`).

#![allow(non_snake_case, reason = "the names are those of C")]

mod array;
mod capture;
mod context;
mod copy;
mod copy_rows;
mod device;
mod event;
mod fill;
mod function;
mod graph;
mod graph_conditional;
mod graph_memory;
mod graph_nodes;
mod graph_updates;
mod host_memory;
mod launch;
pub(crate) mod library;
mod link;
mod memory;
mod module;
mod occupancy;
mod peer;
mod pointer;
mod pool;
mod start;
mod stream;
mod tensor_map;
mod texture;
mod unsupported;

pub(crate) use array::*;
pub(crate) use capture::*;
pub(crate) use context::*;
pub(crate) use copy::*;
pub(crate) use copy_rows::*;
pub(crate) use device::*;
pub(crate) use event::*;
pub(crate) use fill::*;
pub(crate) use function::*;
pub(crate) use graph::*;
pub(crate) use graph_conditional::*;
pub(crate) use graph_memory::*;
pub(crate) use graph_nodes::*;
pub(crate) use graph_updates::*;
pub(crate) use host_memory::*;
pub(crate) use launch::*;
pub(crate) use library::*;
pub(crate) use link::*;
pub(crate) use memory::*;
pub(crate) use module::*;
pub(crate) use occupancy::*;
pub(crate) use peer::*;
pub(crate) use pointer::*;
pub(crate) use pool::*;
pub(crate) use start::*;
pub(crate) use stream::*;
pub(crate) use tensor_map::*;
pub(crate) use texture::*;
pub(crate) use unsupported::*;
