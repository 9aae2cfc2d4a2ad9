//! Support for tests of kernels.

use std::error::Error;
use std::io::{self, Write};

use super::Sim;

const SEEDS: u64 = 8;

/// Declares tests of the kernels of a PTX text, which `cargo test` runs.
///
/// Each test gets a [`Sim`] whose launches are all [checked](crate::Call::checked), and runs in lockstep
/// and under eight [seeds](crate::Call::seed). It may use `?`. It fails on an error, on a panic, and on
/// findings of the checks.
///
/// The expression that gives the text may be `include_str!` of a file that a build script makes, or may
/// run a command: for a crate of the target `nvptx64-nvidia-cuda`, `cargo rustc --release --target
/// nvptx64-nvidia-cuda -Zbuild-std=core -- --emit asm`; for one of rust-cuda, `CudaBuilder::build` in
/// its build script. With `-Cdebuginfo=line-directives-only -Zverbose-asm`, or nvcc's `-lineinfo`,
/// findings start with the user's source line.
///
/// ```
/// warpfold_sim::kernel_tests! {
///     ptx: "
///         .version 7.8 .target sm_80
///         .visible .entry double(.param .u64 values) {
///             .reg .b32 %r<2>; .reg .b64 %rd<3>;
///             ld.param.u64 %rd0, [values]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd1, %r0, 4;
///             add.u64 %rd1, %rd0, %rd1; ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, %r1;
///             st.global.u32 [%rd1], %r1; ret;
///         }";
///
///     /// Each value is twice what it was.
///     fn doubles(sim) {
///         let mut values = [1_u32, 2, 3];
///         sim.kernel("double").block(3).named("values", &mut values).run()?;
///         assert_eq!(values, [2, 4, 6]);
///     }
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! kernel_tests {
    (ptx: $ptx:expr; $($(#[$meta:meta])* fn $name:ident($sim:ident) $body:block)*) => {$(
        $(#[$meta])*
        #[test]
        fn $name() {
            $crate::run_test($ptx, |$sim: &$crate::Sim| {
                $body
                ::std::result::Result::Ok(())
            });
        }
    )*};
}

/// Runs a test of [`kernel_tests!`].
///
/// # Panics
/// When the text is not PTX, and when the test fails.
#[doc(hidden)]
#[track_caller]
pub fn run_test(ptx: impl AsRef<str>, test: impl Fn(&Sim) -> Result<(), Box<dyn Error>>) {
    let load = || Sim::load(ptx.as_ref()).unwrap_or_else(|error| panic!("{error}")).checked();
    if let Err(error) = test(&load()) {
        panic!("{error}");
    }
    for seed in 0..SEEDS {
        // A panic of the test does not name the seed. This guard names it when it is dropped.
        let told = Reported(seed);
        if let Err(error) = test(&load().seeded(seed)) {
            panic!("{error}");
        }
        std::mem::forget(told);
    }
}

/// Reports on drop the seed under which a test has failed.
struct Reported(u64);

impl Drop for Reported {
    fn drop(&mut self) {
        // If standard error is closed, a panic here would abort the tests of the process.
        let _lost = writeln!(
            io::stderr(),
            "the test fails under seed {} but not in lockstep; the result depends on the order of \
             threads",
            self.0
        );
    }
}
