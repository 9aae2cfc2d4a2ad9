#![no_std]
#![feature(abi_ptx, asm_experimental_arch, macro_metavar_expr_concat)]

use warpfold_device::{
    op::Sum,
    reducer,
    reduction::{Function, Mapped},
};

pub struct Cube;

impl Function for Cube {
    type Element = f32;
    type Value = f64;

    #[inline(always)]
    fn call(element: f32) -> f64 {
        let element = f64::from(element);
        element * element * element
    }
}

reducer! { sum_of_cubes = Mapped<Cube, Sum>; }
